"""Java's hash codes and HashMap iteration order, where Kafka's behaviour depends on them.

The hash of a group id decides its partition of `__consumer_offsets`; iteration order decides which
member or topic an assignor serves first.
"""

import struct
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

_MASK = 0xFFFFFFFF
_MIN_TABLE_SIZE = 16


def string_hash(text: str) -> int:
    """Return Java's String.hashCode as an unsigned 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(units) // 2}H", units):
        value = (value * 31 + unit) & _MASK
    return value


def uuid_hash(uuid: bytes) -> int:
    """Return the hashCode of Kafka's Uuid as an unsigned 32-bit number."""
    first, second, third, fourth = struct.unpack(">4I", uuid)
    return int(first ^ second ^ third ^ fourth)


def uuid_order(uuid: bytes) -> tuple[int, int]:
    """Return a sort key that orders Uuids as Kafka does: as two signed 64-bit numbers."""
    high, low = struct.unpack(">qq", uuid)
    return high, low


def table_order(keys: Iterable[T], hash_of: Callable[[T], int], *, copied: bool = False) -> list[T]:
    """Return the keys in the iteration order of a HashMap that they were inserted into one by one,
    or of a HashSet `copied` from them. Keys in the same bucket keep the given order."""
    keys = list(keys)
    filled = len(keys) + copied  # the copy constructor sizes the table for one more
    size = _MIN_TABLE_SIZE
    while filled * 4 > size * 3:
        size *= 2

    mask = size - 1
    buckets = {
        key: (value ^ value >> 16) & mask
        for key, value in zip(keys, map(hash_of, keys), strict=True)
    }
    return sorted(keys, key=buckets.__getitem__)
