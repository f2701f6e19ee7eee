"""What Kafka's answers owe to Java: the hash of a name, and the order in which a hash table is
walked. Both show where Kafka places a group and whom it serves first."""

import struct
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

_MASK = 0xFFFFFFFF
_SMALLEST_TABLE = 16


def string_hash(text: str) -> int:
    """Java's String.hashCode, as an unsigned number of 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(units) // 2}H", units):
        value = (value * 31 + unit) & _MASK
    return value


def uuid_hash(uuid: bytes) -> int:
    """The hashCode of Kafka's Uuid, as an unsigned number of 32 bits."""
    first, second, third, fourth = struct.unpack(">4I", uuid)
    return int(first ^ second ^ third ^ fourth)


def uuid_order(uuid: bytes) -> tuple[int, int]:
    """Sorts as Kafka compares Uuids: as two signed numbers."""
    high, low = struct.unpack(">qq", uuid)
    return high, low


def table_order(keys: Iterable[T], hash_of: Callable[[T], int], *, copied: bool = False) -> list[T]:
    """The keys in the order of a HashMap that took them one by one, or of a HashSet `copied` from
    them; those that share a place in the table stay in the order given."""
    keys = list(keys)
    filled = len(keys) + copied  # a copy leaves room for one more
    size = _SMALLEST_TABLE
    while filled * 4 > size * 3:
        size *= 2

    mask = size - 1
    places = {
        key: (value ^ value >> 16) & mask
        for key, value in zip(keys, map(hash_of, keys), strict=True)
    }
    return sorted(keys, key=places.__getitem__)
