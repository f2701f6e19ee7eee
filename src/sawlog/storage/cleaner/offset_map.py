"""The last offset of each key in the dirty part of a log.

Kafka's SkimpyOffsetMap keeps a hash of every key in a fixed table. This one is a dictionary of the
keys themselves: exact, and several times as fast in Python, for about eight times the memory of an
entry. Long keys are replaced by a digest, so that the memory of an entry has a bound.
"""

import hashlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from sawlog.storage.log_config import FOREVER

_DIGEST_BYTES = 47
"""Longer than any key that is stored as it is, so a digest never equals another key."""

_LONGEST_KEY = _DIGEST_BYTES - 1
_KEY_BYTES = 80  # a bytes object of 47 bytes
_OFFSET_BYTES = 32  # an int
_SLOT_BYTES = 92  # of the dictionary's table, old and new together while it grows
_SORTED_BYTES = 16  # of the sorted offsets, as a list and as an array
ENTRY_BYTES = _KEY_BYTES + _OFFSET_BYTES + _SLOT_BYTES + _SORTED_BYTES
"""The most memory that one key takes."""


class OffsetMap:
    """Keys and their last offsets, for at most `memory_bytes` of memory.

    Invariant: `latest_offset` is the offset up to which all records of the dirty part, which begins
    at `first_offset`, were added; records after it are not affected by the map.
    """

    __slots__ = ("_max_keys", "_offsets", "_sorted", "first_offset", "get", "latest_offset")

    def __init__(self, memory_bytes: int, first_offset: int = FOREVER) -> None:
        self._max_keys = max(1, memory_bytes // ENTRY_BYTES)
        self._offsets: dict[bytes | None, int] = {}
        self._sorted: array[int] | None = None
        self.first_offset = first_offset
        self.get = self._offsets.get
        """Return the last offset of a key that `map_keys` has returned."""
        self.latest_offset = -1

    def __len__(self) -> int:
        return len(self._offsets)

    def has_room_for(self, keys: int) -> bool:
        """Whether so many more keys fit. An empty map takes any batch, so that a cleaning always
        makes progress."""
        return not self._offsets or len(self._offsets) + keys <= self._max_keys

    def add(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> None:
        """Add the records of one batch, of which `keys` are the result of `map_keys`."""
        self._sorted = None
        self._offsets.update(zip(keys, offsets, strict=True))
        self._offsets.pop(None, None)

    def advance(self, offset: int) -> None:
        """All records up to `offset` were added."""
        self.latest_offset = max(self.latest_offset, offset)

    def live_offsets(self, first: int, last: int) -> "array[int]":
        """The offsets between these two of the records that are the last of their key.

        Only for a batch of the dirty part: for its records this is the same as comparing their
        offsets with those of their keys, without the keys.
        """
        if self._sorted is None:
            self._sorted = array("q", sorted(self._offsets.values()))
        start = bisect_left(self._sorted, first)
        return self._sorted[start : bisect_right(self._sorted, last, start)]


def map_keys(keys: list[bytes | None]) -> Sequence[bytes | None]:
    """The keys under which records are found in the map: long ones by their digest."""
    try:
        is_any_long = max(map(len, keys), default=0) > _LONGEST_KEY  # type: ignore[arg-type]
    except TypeError:  # a record without a key
        is_any_long = any(key is not None and len(key) > _LONGEST_KEY for key in keys)
    return [_digest(key) for key in keys] if is_any_long else keys


def _digest(key: bytes | None) -> bytes | None:
    if key is None or len(key) <= _LONGEST_KEY:
        return key
    return hashlib.blake2b(key, digest_size=_DIGEST_BYTES).digest()
