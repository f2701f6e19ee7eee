"""Decodes the records of a batch, and builds batches.

Whatever the bytes, decoding yields records or raises CORRUPT_MESSAGE (MESSAGE_TOO_LARGE beyond the
decompression limit), within the memory of that limit. `record_batch.py` checks CRCs.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ports import Buffer
from sawlog.protocol.compression import Codec, compress, decompress
from sawlog.protocol.record_batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    encode_batch,
    read_header,
)
from sawlog.protocol.varint import encode_varint, read_varint

Headers = tuple[tuple[str, bytes | None], ...]

NO_TIMESTAMP = -1
_NULL = encode_varint(-1)
_FIRST = b"\x00\x00\x00"  # attributes and both deltas of the first record
_NO_HEADERS = b"\x00"
_NOT_COMPRESSED = int(Codec.NONE)
_SMALLEST_HEADER_BYTES = 2
_FIRST_MS, _LAST_MS, _ALL_MS = -(1 << 63), (1 << 63) - 1, 1 << 64
_new = tuple.__new__


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def iterate(batch: Buffer, *, max_decompressed_bytes: int) -> Iterator[Record]:
    """Yield the records of the batch at the beginning of `batch`.

    The batch is decompressed at once; its records are decoded one by one.
    """
    header = read_header(batch)
    if header.magic != MAGIC or not HEADER_SIZE <= header.size <= len(batch):
        raise _corrupt(
            f"no complete batch of magic {MAGIC}: magic {header.magic}, {len(batch)} of"
            f" {header.size} bytes"
        )
    body = memoryview(batch)[HEADER_SIZE : header.size]
    if header.codec == Codec.NONE:
        return _read_records(bytes(body), header)
    return _read_records(decompress(header.codec, body, max_decompressed_bytes), header)


def _read_records(body: bytes, header: BatchHeader) -> Iterator[Record]:
    """Decode records. Varints of one byte are decoded inline: this loop is a consumer's cost."""
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    position = 0
    size = len(body)
    try:
        for _ in range(header.count):
            length, position = read_varint(body, position)
            end = position + length
            # The attributes of a record, one byte, are unused.
            timestamp, position = read_varint(body, position + 1)
            offset, position = read_varint(body, position)

            number = body[position]
            if number == 1:
                key, position = None, position + 1
            elif number < 0x80 and not number & 1 and position + (number >> 1) < size:
                start = position + 1
                position = start + (number >> 1)
                key = body[start:position]
            else:
                key, position = _read_bytes(body, position)

            number = body[position]
            if number < 0x80 and not number & 1 and position + (number >> 1) < size:
                start = position + 1
                position = start + (number >> 1)
                value: bytes | None = body[start:position]
            else:
                value, position = _read_bytes(body, position)

            if body[position] == 0:
                headers: Headers = ()
                position += 1
            else:
                headers, position = _read_headers(body, position)
            if position != end:
                raise _corrupt(
                    f"the fields of a record of {length} bytes end {position - end} bytes off"
                )
            timestamp = base_timestamp + timestamp if append_time is None else append_time
            if not _FIRST_MS <= timestamp <= _LAST_MS:
                timestamp = (timestamp - _FIRST_MS) % _ALL_MS + _FIRST_MS  # overflow as in Java
            yield _new(Record, (base_offset + offset, timestamp, key, value, headers))
    except IndexError:
        raise _corrupt(f"the batch ends before its {header.count} records") from None
    if position != size:
        raise _corrupt(f"{size - position} bytes follow the last of {header.count} records")


def _read_bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(body, position)
    if length < 0:
        if length != -1:
            raise _corrupt(f"invalid length {length}")
        return None, position
    end = position + length
    if end > len(body):
        raise IndexError
    return body[position:end], end


def _read_headers(body: bytes, position: int) -> tuple[Headers, int]:
    count, position = read_varint(body, position)
    if not 0 <= count <= (len(body) - position) // _SMALLEST_HEADER_BYTES:
        raise _corrupt(f"{count} headers in {len(body) - position} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _read_bytes(body, position)
        if name is None:
            raise _corrupt("the key of a header is null")
        value, position = _read_bytes(body, position)
        # As in the Java consumer; nothing checks that header keys are UTF-8.
        headers.append((name.decode("utf-8", "replace"), value))
    return tuple(headers), position


def _encode_headers(headers: Headers) -> bytes:
    pieces = [encode_varint(len(headers))]
    for name, content in headers:
        encoded_name = name.encode()
        pieces.append(encode_varint(len(encoded_name)) + encoded_name)
        pieces.append(_NULL if content is None else encode_varint(len(content)) + content)
    return b"".join(pieces)


class BatchBuilder:
    """Builds a batch record by record; `size` is its size before compression."""

    __slots__ = ("_base_timestamp", "_max_timestamp", "_pieces", "count", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = HEADER_SIZE
        self._pieces: list[bytes] = []
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP

    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> None:
        count = self.count
        if count == 0:
            self._base_timestamp = self._max_timestamp = timestamp
            start = _FIRST
        else:
            if timestamp > self._max_timestamp:
                self._max_timestamp = timestamp
            start = b"\x00" + encode_varint(timestamp - self._base_timestamp) + encode_varint(count)
        record = b"".join(
            (
                start,
                _NULL if key is None else encode_varint(len(key)) + key,
                _NULL if value is None else encode_varint(len(value)) + value,
                _encode_headers(headers) if headers else _NO_HEADERS,
            )
        )
        length = encode_varint(len(record))
        size = self.size + len(length) + len(record)
        # No calls from here on: a signal handler sees all of the record or nothing.
        self._pieces += (length, record)
        self.size = size
        self.count = count + 1

    def finish(
        self,
        *,
        codec: int = _NOT_COMPRESSED,
        base_offset: int = 0,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        control: bool = False,
        timestamp_type: int = 0,
    ) -> bytearray:
        """Return the batch, with its CRC."""
        body = b"".join(self._pieces)
        if codec != _NOT_COMPRESSED:
            body = compress(codec, body)
        attributes = (
            codec
            | (LOG_APPEND_TIME if timestamp_type else 0)
            | (TRANSACTIONAL if transactional else 0)
            | (CONTROL if control else 0)
        )
        header = BatchHeader(
            base_offset,
            0,
            leader_epoch,
            MAGIC,
            0,
            attributes,
            self.count - 1,
            self._base_timestamp,
            self._max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.count,
        )
        return encode_batch(header, body)


def build_batch(
    records: Iterable[Record],
    *,
    codec: int = Codec.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: int = 0,
) -> bytearray:
    """Build a batch of records with offsets from `base_offset` on; their own are ignored."""
    builder = BatchBuilder()
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return builder.finish(
        codec=codec,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        timestamp_type=timestamp_type,
    )


def _corrupt(message: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)
