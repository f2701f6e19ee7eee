"""Chooses partitions: by the key's hash as Kafka's Java client does, else sticky (KIP-480).

Keyed records go to the same partition as from any other Kafka client, so producers of several
kinds can share a topic. Records without a key stay on one partition until its batch is full, which
makes fewer and fuller batches.
"""

import random
from collections.abc import Callable, Sequence

_SEED = 0x9747B28C
_M = 0x5BD1E995
_WORD = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return MurmurHash2 with the Java client's seed as an unsigned 32-bit integer."""
    length = len(data)
    result = (_SEED ^ length) & _WORD
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _WORD
        k = (k ^ k >> 24) * _M & _WORD
        result = (result * _M & _WORD) ^ k
    if whole != length:
        result ^= int.from_bytes(data[whole:], "little")
        result = result * _M & _WORD
    result = (result ^ result >> 13) * _M & _WORD
    return result ^ result >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyChoice:
    """The current partition of one topic for records without a key."""

    __slots__ = ("_choose", "_current", "_previous")

    def __init__(self, choose: Callable[[Sequence[int]], int] = random.choice) -> None:
        self._choose = choose
        self._current: int | None = None
        self._previous: int | None = None

    def partition(self, available: Sequence[int]) -> int:
        """Return the current partition, or choose another if it is not in `available`."""
        if self._current is None or self._current not in available:
            others = [index for index in available if index != self._previous]
            self._current = self._choose(others or available)
        return self._current

    def batch_is_full(self, partition: int) -> None:
        """Choose another partition for the next record."""
        if self._current == partition:
            self._previous, self._current = partition, None
