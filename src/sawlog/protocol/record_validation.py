"""Validation of the records of a batch, in one pass over their bytes.

The pass follows lengths and builds no record. It collects the facts that decide whether a produced
batch is appended. It is stricter than the decoder in `records.py`, since every reader has to cope
with what is stored: offset deltas count from 0, and 32-bit numbers have at most five bytes, which
is all that Kafka's readers accept.
"""

from typing import NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.varint import read_zigzag

_INT_BYTES = 5  # the longest encoding of a 32-bit number
_LONG_BYTES = 10
_NULL = 1  # the length -1 in zigzag encoding


class RecordScan(NamedTuple):
    """What is known about the records of a batch that is valid apart from these facts."""

    min_timestamp_delta: int
    max_timestamp_delta: int
    keyless: list[int]
    """The positions of the records without a key."""
    misplaced: list[int]
    """The positions of the records whose offset delta is not their position."""


def scan_records(body: bytes, count: int) -> RecordScan:
    """Read the decompressed body of a batch with `count` records, at least one.

    INVALID_RECORD if it does not consist of exactly that many well-formed records.
    """
    zigzag_deltas: set[int] = set()
    scan = RecordScan(0, 0, [], [])
    try:
        end = _follow(body, count, zigzag_deltas, scan)
    except IndexError:
        raise _invalid(f"{len(body)} bytes end before the last of {count} records") from None
    except KafkaError as error:
        raise _invalid(error.message) from None
    if end != len(body):
        raise _invalid(f"{count} records have {end} bytes, but the batch has {len(body)}")
    deltas = [number >> 1 ^ -(number & 1) for number in zigzag_deltas]
    return scan._replace(min_timestamp_delta=min(deltas), max_timestamp_delta=max(deltas))


def _follow(body: bytes, count: int, timestamp_deltas: set[int], found: RecordScan) -> int:
    """Add what the records show to `timestamp_deltas` and `found`; return their end.

    Numbers stay in zigzag encoding: n is 2n, and -n is 2n-1. The varints that often have two bytes
    are read inline: this loop is the cost of a record in a compacted topic.
    """
    keyless, misplaced = found.keyless, found.misplaced
    position = 0
    for index in range(count):
        number = body[position]  # the length
        position += 1
        if number > 0x7F:
            number += (body[position] << 7) - 0x80
            position += 1
            if number > 0x3FFF:
                number, position = read_zigzag(body, position - 2, _INT_BYTES)
        end = -1 if number & 1 else position + (number >> 1)

        number = body[position + 1]  # the timestamp delta, after the attributes
        position += 2
        if number > 0x7F:
            number, position = read_zigzag(body, position - 1, _LONG_BYTES)
        timestamp_deltas.add(number)

        number = body[position]  # the offset delta
        position += 1
        if number > 0x7F:
            number += (body[position] << 7) - 0x80
            position += 1
            if number > 0x3FFF:
                number, position = read_zigzag(body, position - 2, _INT_BYTES)
        if number != index << 1:
            misplaced.append(index)

        number = body[position]  # the key
        position += 1
        if number > 0x7F:
            number, position = read_zigzag(body, position - 1, _INT_BYTES)
        if number & 1:
            _check_null(number, index, "key")
            keyless.append(index)
        position += number >> 1

        number = body[position]  # the value
        position += 1
        if number > 0x7F:
            number += (body[position] << 7) - 0x80
            position += 1
            if number > 0x3FFF:
                number, position = read_zigzag(body, position - 2, _INT_BYTES)
        if number & 1:
            _check_null(number, index, "value")
        position += number >> 1

        position = _skip_headers(body, position, index) if body[position] else position + 1
        if position != end:
            raise _invalid(f"the length of record {index} is not the length of its fields")
    return position


def _skip_headers(body: bytes, position: int, index: int) -> int:
    """Return the end of the headers of a record, which are its last field."""
    number, position = read_zigzag(body, position, _INT_BYTES)
    if number & 1:
        raise _invalid(f"record {index} has a negative number of headers")
    for _ in range(number >> 1):
        number, position = read_zigzag(body, position, _INT_BYTES)
        if number & 1:
            raise _invalid(f"record {index} has a header without a key")
        number, position = read_zigzag(body, position + (number >> 1), _INT_BYTES)
        if number & 1:
            _check_null(number, index, "header value")
        position += number >> 1
    return position


def _check_null(number: int, index: int, field: str) -> None:
    if number != _NULL:
        raise _invalid(f"the {field} of record {index} has the length {-(number >> 1) - 1}")


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, reason)
