"""Partitions by key, as the Java client chooses them, and sticky partitions without a key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from sawlog.client.producer.partitioner import StickyChoice, murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes_are_those_of_the_java_client(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


@given(st.binary(max_size=64))
def test_hashes_are_those_of_kafka_python(key: bytes) -> None:
    assert murmur2(key) == kafka_python_murmur2(key) % 2**32


@given(st.binary(max_size=64), st.integers(1, 1_000))
def test_a_key_maps_to_a_partition_of_the_topic(key: bytes, count: int) -> None:
    assert 0 <= partition_for_key(key, count) < count


def test_a_partition_is_kept_until_its_batch_is_full() -> None:
    sticky = StickyChoice(choose=lambda available: available[0])
    assert [sticky.partition([0, 1, 2]) for _ in range(3)] == [0, 0, 0]
    sticky.batch_is_full(0)
    assert [sticky.partition([0, 1, 2]) for _ in range(2)] == [1, 1]


def test_a_full_batch_of_another_partition_changes_nothing() -> None:
    sticky = StickyChoice(choose=lambda available: available[0])
    sticky.partition([0, 1])
    sticky.batch_is_full(1)
    assert sticky.partition([0, 1]) == 0


def test_the_only_partition_is_chosen_again() -> None:
    sticky = StickyChoice(choose=lambda available: available[0])
    sticky.partition([5])
    sticky.batch_is_full(5)
    assert sticky.partition([5]) == 5


def test_an_unavailable_partition_is_replaced() -> None:
    sticky = StickyChoice(choose=lambda available: available[-1])
    assert sticky.partition([0, 1]) == 1
    assert sticky.partition([0]) == 0
