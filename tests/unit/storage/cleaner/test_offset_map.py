"""The offset map: the last offset of every key, within a budget of real memory."""

import pytest

from sawlog.storage.cleaner.offset_map import ENTRY_BYTES, OffsetMap, map_keys
from support.single_threaded import PeakMemory, single_threaded

BATCH = 100
LARGE = 1 << 40  # an offset that takes the memory of a large number


def key_of(number: int, length: int) -> bytes:
    return b"%0*d" % (length, number)


def filled(memory_bytes: int, length: int) -> tuple[OffsetMap, int]:
    """A map with as many keys as it takes, and how many batches these were."""
    offsets = OffsetMap(memory_bytes)
    batches = 0
    while offsets.has_room_for(BATCH):
        numbers = range(batches * BATCH, (batches + 1) * BATCH)
        keys = map_keys([key_of(number, length) for number in numbers])
        offsets.add(keys, [LARGE + number for number in numbers])
        batches += 1
    return offsets, batches


@pytest.mark.parametrize("length", [8, 20, 46, 47, 200, 2_000])
@pytest.mark.parametrize(
    "memory_bytes",
    # The dictionary has just grown, is about to, and sizes in between: it doubles its table.
    [ENTRY_BYTES * keys for keys in (5_500, 10_900, 11_000, 16_000, 21_900)],
)
def test_memory_stays_within_the_budget(length: int, memory_bytes: int) -> None:
    peak, keys = single_threaded(peak_and_keys, memory_bytes, length)
    batch_bytes = BATCH * (length + 400)  # of the last batch, which is not part of the map
    assert peak - batch_bytes <= memory_bytes, f"{peak / keys:.0f} bytes for each key"


def peak_and_keys(memory_bytes: int, length: int) -> tuple[int, int]:
    with PeakMemory() as peak:
        offsets, _ = filled(memory_bytes, length)
    return peak.bytes, len(offsets)


def test_the_budget_is_used() -> None:
    offsets, _ = filled(ENTRY_BYTES * 20_000, 20)
    assert len(offsets) == 20_000


def test_the_last_offset_of_a_key_counts() -> None:
    offsets = OffsetMap(1 << 20)
    offsets.add([b"a", b"b", b"a"], [0, 1, 2])
    offsets.add([b"b"], [3])
    assert [offsets.get(key, -1) for key in (b"a", b"b", b"c")] == [2, 3, -1]


def test_records_without_a_key_are_not_in_the_map() -> None:
    offsets = OffsetMap(1 << 20)
    offsets.add(map_keys([None, b"a", None]), [0, 1, 2])
    assert (len(offsets), offsets.get(None, -1), offsets.get(b"a", -1)) == (1, -1, 1)


def test_long_keys_are_found_by_a_digest() -> None:
    keys: list[bytes | None] = [bytes(46), bytes(47), bytes(48), None, b"", b"\xff" * 1_000]
    mapped = map_keys(keys)
    assert mapped[0] == bytes(46)
    assert (mapped[3], mapped[4]) == (None, b"")
    assert {len(key) for key in mapped if key} == {46, 47}
    assert len(set(mapped)) == len(keys)
    assert mapped == map_keys(list(keys)), "the same digest every time"
    assert mapped[2] == map_keys([bytes(48)])[0], "whatever the other keys of the batch"


def test_short_keys_are_used_as_they_are() -> None:
    keys: list[bytes | None] = [b"a", None, bytes(46)]
    assert map_keys(keys) is keys


@pytest.mark.parametrize("memory_bytes", [0, 1, ENTRY_BYTES])
def test_an_empty_map_takes_any_batch_and_then_is_full(memory_bytes: int) -> None:
    offsets = OffsetMap(memory_bytes)
    assert offsets.has_room_for(1_000_000)
    offsets.add([b"a", b"b"], [0, 1])
    assert not offsets.has_room_for(1)


def test_a_map_is_full_where_the_next_batch_does_not_fit() -> None:
    offsets = OffsetMap(ENTRY_BYTES * 10)
    offsets.add([b"%d" % n for n in range(8)], list(range(8)))
    assert offsets.has_room_for(2)
    assert not offsets.has_room_for(3)


def test_the_latest_offset_never_goes_back() -> None:
    offsets = OffsetMap(0)
    assert offsets.latest_offset == -1
    offsets.advance(7)
    offsets.advance(5)
    assert offsets.latest_offset == 7
