"""Record batches: valid ones, and ones built field by field with single errors."""

import struct

from crc32c import crc32c

from sawlog.protocol.records import Record, build_batch
from sawlog.protocol.varint import encode_varint

ABORT, COMMIT = 0, 1


def raw_batch(
    body: bytes = b"\x0c\x00\x00\x00\x01\x00\x00",
    *,
    base_offset: int = 0,
    length: int | None = None,
    leader_epoch: int = -1,
    magic: int = 2,
    crc: int | None = None,
    attributes: int = 0,
    last_offset_delta: int = 0,
    base_timestamp: int = 1_000,
    max_timestamp: int = 1_000,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    count: int = 1,
) -> bytearray:
    """Build a batch with these fields; `length` and `crc` are correct unless given.

    The default body is one record: no key, an empty value, no headers.
    """
    covered = struct.pack(
        ">hiqqqhii",
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    covered += body
    front = struct.pack(
        ">qiibI",
        base_offset,
        len(covered) + 9 if length is None else length,
        leader_epoch,
        magic,
        crc32c(covered) if crc is None else crc,
    )
    return bytearray(front + covered)


def raw_record(
    offset: int | bytes,
    *,
    length: int = 0,
    attributes: int = 0,
    timestamp: int | bytes = 0,
    key: bytes = b"\x02k",
    value: bytes = b"\x02v",
    headers: bytes = b"\x00",
) -> bytes:
    """Encode a record from encoded fields; `length` is added to the correct length."""
    fields = b"".join(
        (
            bytes([attributes]),
            timestamp if isinstance(timestamp, bytes) else encode_varint(timestamp),
            offset if isinstance(offset, bytes) else encode_varint(offset),
            key,
            value,
            headers,
        )
    )
    return encode_varint(len(fields) + length) + fields


def batch(base_offset: int, *values: bytes, producer_id: int = -1) -> bytes:
    """Build a valid batch; with a producer id it is transactional."""
    records = [Record(0, 1_000, b"key", value) for value in values]
    return bytes(
        build_batch(
            records,
            base_offset=base_offset,
            leader_epoch=5,
            producer_id=producer_id,
            transactional=producer_id >= 0,
        )
    )


def marker(offset: int, producer_id: int, kind: int) -> bytes:
    """Build a transaction marker."""
    record = Record(0, 1_000, struct.pack(">hh", 0, kind), bytes(6))
    return bytes(
        build_batch(
            [record], base_offset=offset, producer_id=producer_id, transactional=True, control=True
        )
    )
