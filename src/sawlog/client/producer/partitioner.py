"""Which partition a record goes to: by its key as the Java client does it, else one for a while.

Keyed records land where every other Kafka client puts them, so that producers of several kinds can
share a topic. Records without a key stay on one partition until its batch is full: fewer, fuller
batches.
"""

import random
from collections.abc import Callable, Sequence

_SEED = 0x9747B28C
_M = 0x5BD1E995
_WORD = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """32 bits of MurmurHash2 with the Java client's seed, without a sign."""
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
    """The partition of one topic for records without a key."""

    __slots__ = ("_choose", "_current", "_left")

    def __init__(self, choose: Callable[[Sequence[int]], int] = random.choice) -> None:
        self._choose = choose
        self._current: int | None = None
        self._left: int | None = None

    def partition(self, available: Sequence[int]) -> int:
        """The same one as before, as long as it is available; `available` is not empty."""
        if self._current is None or self._current not in available:
            others = [index for index in available if index != self._left]
            self._current = self._choose(others or available)
        return self._current

    def batch_is_full(self, partition: int) -> None:
        """Moves on from that partition with the next record."""
        if self._current == partition:
            self._left, self._current = partition, None
