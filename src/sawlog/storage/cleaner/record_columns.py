"""The records of one batch as columns: positions, offset deltas, keys, and which are tombstones.

The cleaner needs no values and no headers, so they are skipped by the record's length. One pass
over the bytes fills lists, and the rest of the work is done on whole lists: an object per record
would take several times as long.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.varint import read_varint, read_zigzag

_NULL = 1  # the length -1 in zigzag encoding
_PADDED_NULL = 0x80 | _NULL  # its first byte where the number has padding
_INT_BYTES = 5  # the longest encoding of a 32-bit number
_LONG_BYTES = 10  # and of a 64-bit number
_HIGHEST = (1 << 63) - 1


class RecordColumns(NamedTuple):
    """The records of a batch, in order.

    Record i has the bytes from `starts[i]` up to `starts[i + 1]`; `starts` has one more entry than
    there are records. `offset_deltas` ascends strictly.
    """

    starts: list[int]
    offset_deltas: list[int]
    keys: list[bytes | None]
    tombstones: list[int]  # the numbers of the records without a value


def scan_records(data: bytes, position: int, end: int, count: int) -> RecordColumns:
    """Return the columns of the `count` uncompressed records between `position` and `end`.

    CORRUPT_MESSAGE if these bytes are not exactly that many records.
    """
    try:
        columns = _scan(data, position, end, count)
    except IndexError:
        raise _corrupt("they end before the last record") from None
    if columns.starts[-1] != end:
        raise _corrupt(f"{end - columns.starts[-1]} bytes follow the last record")
    return columns


def _scan(data: bytes, position: int, end: int, count: int) -> RecordColumns:
    """The loop of `scan_records`: varints of one and two bytes are decoded inline."""
    starts = [position]
    offset_deltas: list[int] = []
    keys: list[bytes | None] = []
    tombstones: list[int] = []
    last_delta = -1
    for number in range(count):
        length = data[position]
        position += 1
        if length >= 0x80:
            byte = data[position]
            if byte < 0x80:
                length = length & 0x7F | byte << 7
                position += 1
            else:
                length, position = read_zigzag(data, position - 1, _INT_BYTES)
        record_end = position + (length >> 1)
        signs = length

        position += 1  # attributes
        while data[position] >= 0x80:  # timestamp delta
            position += 1
        delta = data[position + 1]
        position += 2
        if delta >= 0x80:
            byte = data[position]
            if byte < 0x80:
                delta = delta & 0x7F | byte << 7
                position += 1
            else:
                delta, position = read_zigzag(data, position - 1, _INT_BYTES)
        signs |= delta
        delta >>= 1

        length = data[position]
        position += 1
        if length >= 0x80:
            length, position = read_zigzag(data, position - 1, _INT_BYTES)
        if length == _NULL:
            key = None
        else:
            key = data[position : position + (length >> 1)]
            position += length >> 1
            signs |= length
        if position >= record_end or record_end > end or delta <= last_delta or signs & 1:
            raise _corrupt(f"record {number} has an impossible length or offset delta")
        length = data[position]
        if length == _NULL or (
            length == _PADDED_NULL and read_zigzag(data, position, _INT_BYTES)[0] == _NULL
        ):
            tombstones.append(number)
        last_delta = delta
        position = record_end
        starts.append(record_end)
        offset_deltas.append(delta)
        keys.append(key)
    return RecordColumns(starts, offset_deltas, keys, tombstones)


def scan_starts(data: bytes, position: int, end: int, count: int) -> list[int]:
    """The column `starts` alone, several times as fast as all; errors as in `scan_records`."""
    starts = [position]
    try:
        for _ in range(count):
            length = data[position]
            position += 1
            if length >= 0x80:
                byte = data[position]
                if byte < 0x80:
                    length = length & 0x7F | byte << 7
                    position += 1
                else:
                    length, position = read_zigzag(data, position - 1, _INT_BYTES)
            position += length >> 1
            starts.append(position)
    except IndexError:
        raise _corrupt("they end before the last record") from None
    if position != end:
        raise _corrupt(f"{end - position} bytes follow the last record")
    return starts


def scan_some(data: bytes, starts: list[int], numbers: Iterable[int]) -> tuple[list[int], int, int]:
    """Which of the records `numbers` are tombstones, and their lowest and highest timestamp delta.

    The records were read before, so their lengths are sound. At least one number must be given.
    """
    tombstones: list[int] = []
    lowest, highest = _HIGHEST, ~_HIGHEST
    for number in numbers:
        position = starts[number]
        while data[position] >= 0x80:  # length
            position += 1
        delta = data[position + 2]  # after the attributes
        position += 3
        if delta >= 0x80:
            delta, position = read_zigzag(data, position - 1, _LONG_BYTES)
        delta = (delta >> 1) ^ -(delta & 1)
        if delta > highest:
            highest = delta
        if delta < lowest:
            lowest = delta
        while data[position] >= 0x80:  # offset delta
            position += 1
        length, position = read_varint(data, position + 1)
        if length > 0:
            position += length
        if data[position] & 1 and read_varint(data, position)[0] < 0:
            tombstones.append(number)
    return tombstones, lowest, highest


def _corrupt(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the records cannot be read: {reason}")
