"""The last offset of each key in the dirty part of a log.

Kafka's SkimpyOffsetMap keeps a hash of every key in a fixed table. This one is a dictionary of the
keys themselves: exact, and several times as fast in Python, for about eight times the memory of an
entry. Long keys are replaced by a digest, so that the memory of an entry has a bound.
"""

import hashlib
from collections.abc import Sequence

_DIGEST_BYTES = 47
"""Longer than any key that is stored as it is, so a digest never equals another key."""

_LONGEST_KEY = _DIGEST_BYTES - 1
_KEY_BYTES = 80  # a bytes object of 47 bytes
_OFFSET_BYTES = 32  # an int
_SLOT_BYTES = 92  # of the dictionary's table, old and new together while it grows
ENTRY_BYTES = _KEY_BYTES + _OFFSET_BYTES + _SLOT_BYTES
"""The most memory that one key takes."""


class OffsetMap:
    """Keys and their last offsets, for at most `memory_bytes` of memory.

    Invariant: `latest_offset` is the offset up to which all records of the dirty part were added;
    records after it are not affected by the map.
    """

    __slots__ = ("_max_keys", "_offsets", "get", "latest_offset")

    def __init__(self, memory_bytes: int) -> None:
        self._max_keys = max(1, memory_bytes // ENTRY_BYTES)
        self._offsets: dict[bytes | None, int] = {}
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
        self._offsets.update(zip(keys, offsets, strict=True))
        self._offsets.pop(None, None)

    def advance(self, offset: int) -> None:
        """All records up to `offset` were added."""
        self.latest_offset = max(self.latest_offset, offset)


def map_keys(keys: list[bytes | None]) -> Sequence[bytes | None]:
    """The keys under which records are found in the map: long ones by their digest."""
    if any(key is not None and len(key) > _LONGEST_KEY for key in keys):
        return [_digest(key) for key in keys]
    return keys


def _digest(key: bytes | None) -> bytes | None:
    if key is None or len(key) <= _LONGEST_KEY:
        return key
    return hashlib.blake2b(key, digest_size=_DIGEST_BYTES).digest()
