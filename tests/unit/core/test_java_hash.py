"""Java's hash codes and HashMap order; the expected values were printed by Java 17."""

import pytest

from sawlog.core.java_hash import string_hash, table_order, uuid_hash, uuid_order

HIGH = bytes.fromhex("80000000000000000000000000000005")
LOW = bytes.fromhex("01234567000000000000000089abcd00")
NUMBERS = [0, 1, 16, 17, 31, 32, 33, 40, 48, 50, 60, 70]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("console-consumer-1", 35782224),
        ("grüße", 98768023),
        ("\U0001f600", 1772899),
    ],
)
def test_string_hashes_are_javas(text: str, expected: int) -> None:
    assert string_hash(text) == expected


def test_uuid_hashes_and_order_are_kafkas() -> None:
    assert (uuid_hash(LOW), uuid_hash(HIGH)) == (2290649191, 2147483653)
    assert sorted([LOW, HIGH], key=uuid_order) == [HIGH, LOW], "the halves have signs"


def test_keys_are_in_hash_map_order() -> None:
    names = [f"member-{number}" for number in range(13)]
    order = [5, 6, 3, 4, 12, 9, 11, 10, 7, 8, 1, 2, 0]
    assert table_order(names, string_hash) == [f"member-{number}" for number in order]


def test_keys_are_in_the_order_of_a_copied_hash_set() -> None:
    copied = [0, 32, 1, 33, 70, 40, 16, 48, 17, 50, 60, 31]
    assert table_order(NUMBERS, int, copied=True) == copied
    grown = [0, 16, 32, 48, 1, 17, 33, 50, 70, 40, 60, 31]
    assert table_order(NUMBERS, int) == grown
