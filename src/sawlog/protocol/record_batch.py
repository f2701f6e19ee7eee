"""The header of a record batch (magic 2): reading, validation, CRC-32C, offset assignment.

A batch passes through the broker without being decoded; only its 61-byte header is read. No
function keeps a reference to the buffer. `records.py` decodes the records of a batch.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ports import Buffer
from sawlog.protocol.checksum import crc32c

_LAYOUT = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">8xi")
_MAGIC = struct.Struct(">16xb")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_TIMESTAMPS = struct.Struct(">hiqq")
_TIMESTAMP = struct.Struct(">q")
_LENGTH_FIELD = struct.Struct(">i")

HEADER_SIZE = 61
MAGIC = 2
_PREFIX_SIZE = 12  # base offset and length, which `length` does not include
_UP_TO_MAGIC_SIZE = 17
_LENGTH_POSITION = 8
_LEADER_EPOCH_POSITION = 12
_CRC_POSITION = 17
_CRC_START = 21  # attributes: the first byte that the CRC covers
_MAX_TIMESTAMP_POSITION = 35
_MIN_LENGTH = 14  # of a magic 0 message, the smallest that Kafka's reader accepts

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40  # base_timestamp is the delete horizon of tombstones (KIP-534)
_HIGHEST_CODEC = 4
_SEQUENCES = 1 << 31

_read = _LAYOUT.unpack_from
_new = tuple.__new__


class BatchHeader(NamedTuple):
    """The fields of a batch's header in wire order."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # tuple.count is not used

    @property
    def size(self) -> int:
        """The size of the whole batch, including the 12 bytes that `length` does not count."""
        return self.length + _PREFIX_SIZE

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """The codec's number; see `compression.Codec`."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """0: CreateTime, set by the producer; 1: LogAppendTime, set by the broker."""
        return 1 if self.attributes & LOG_APPEND_TIME else 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """The last sequence, which wraps around at 2^31; -1 without sequences."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCES


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header without validation; CORRUPT_MESSAGE if it is truncated."""
    try:
        return _new(BatchHeader, _read(buffer, position))
    except struct.error:
        raise _corrupt(
            f"a batch header has {HEADER_SIZE} bytes, but {max(0, len(buffer) - position)} are left"
        ) from None


def is_transactional(buffer: Buffer) -> bool:
    """Whether the bytes begin with a transactional batch; nothing else is validated."""
    return len(buffer) >= HEADER_SIZE and buffer[_CRC_START + 1] & TRANSACTIONAL != 0


def crc_matches(buffer: Buffer, header: BatchHeader, position: int = 0) -> bool:
    """Whether the batch at `position` is complete and has the CRC of its header."""
    end = position + header.length + _PREFIX_SIZE
    if header.length < HEADER_SIZE - _PREFIX_SIZE or end > len(buffer):
        return False
    return bool(crc32c(memoryview(buffer)[position + _CRC_START : end]) == header.crc)


def check_crc(buffer: Buffer, header: BatchHeader, position: int = 0) -> None:
    """Raise CORRUPT_MESSAGE if the CRC does not match."""
    if not crc_matches(buffer, header, position):
        raise _corrupt(f"the batch does not match its CRC {header.crc:#010x}")


def batches_in(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and header of each batch; a truncated last one is ignored.

    CORRUPT_MESSAGE if there is no magic 2 batch at a position. CRCs are not checked.
    """
    end = len(buffer)
    while end - position >= HEADER_SIZE:
        header = read_header(buffer, position)
        if header.length < HEADER_SIZE - _PREFIX_SIZE or header.magic != MAGIC:
            raise _corrupt(
                f"no batch at position {position}: length {header.length}, magic {header.magic}"
            )
        if header.length + _PREFIX_SIZE > end - position:
            return
        yield position, header
        position += header.length + _PREFIX_SIZE


def check_produced(records: memoryview | None, *, max_batch_bytes: int) -> BatchHeader:
    """Validate the single batch that a producer may send for a partition; return its header.

    Error codes and the order of checks are those of Apache Kafka 4. The caller checks what needs
    more than the header: timestamp bounds, keys, producer state, transactions.
    """
    if records is None or len(records) < HEADER_SIZE:
        raise _no_single_batch(records)
    header = _new(BatchHeader, _read(records, 0))
    if header.magic != MAGIC or header.length + _PREFIX_SIZE != len(records):
        raise _no_single_batch(records)
    if header.base_offset != 0:
        raise _invalid(f"the base offset of a produced batch must be 0, not {header.base_offset}")
    if len(records) > max_batch_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {len(records)} bytes, the topic's limit is {max_batch_bytes}"
            " (max.message.bytes)",
        )
    if crc32c(records[_CRC_START:]) != header.crc:
        raise _corrupt(f"the batch does not match its CRC {header.crc:#010x}")
    if (
        header.count <= 0
        or header.last_offset_delta != header.count - 1
        or header.attributes & (CONTROL | LOG_APPEND_TIME)
        or header.attributes & CODEC_MASK > _HIGHEST_CODEC
        or (header.producer_id >= 0 and header.base_sequence < 0)
    ):
        raise _first_error(header)
    return header


def stamp(batch: memoryview, base_offset: int, leader_epoch: int) -> None:
    """Set the base offset and leader epoch in place; the CRC does not cover them."""
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, _LEADER_EPOCH_POSITION, leader_epoch)


def stamp_append_time(batch: memoryview, timestamp_ms: int) -> None:
    """Set LogAppendTime in place, with a new CRC. `batch` has nothing after the batch.

    Only the timestamp type and the maximum timestamp change: with LogAppendTime, readers use the
    maximum timestamp for all records.
    """
    attributes, delta, base_timestamp, _ = _TIMESTAMPS.unpack_from(batch, _CRC_START)
    _TIMESTAMPS.pack_into(
        batch, _CRC_START, attributes | LOG_APPEND_TIME, delta, base_timestamp, timestamp_ms
    )
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(batch[_CRC_START:]))


def set_max_timestamp(batch: memoryview, timestamp_ms: int) -> None:
    """Set the maximum timestamp in place, with a new CRC. `batch` has nothing after the batch."""
    _TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_POSITION, timestamp_ms)
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(batch[_CRC_START:]))


def encode_batch(header: BatchHeader, body: Buffer) -> bytearray:
    """Return a batch with the fields of `header`, except that length and CRC are those of `body`,
    which is compressed as the attributes say."""
    batch = bytearray(_LAYOUT.pack(*header)) + body
    _LENGTH_FIELD.pack_into(batch, _LENGTH_POSITION, len(batch) - _PREFIX_SIZE)
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[_CRC_START:]))
    return batch


def _no_single_batch(records: memoryview | None) -> KafkaError:
    """Return why the bytes are not exactly one magic 2 batch, in the order of Kafka's checks."""
    available = 0 if records is None else len(records)
    if records is None or available < _PREFIX_SIZE:
        return _invalid("expected exactly one record batch for the partition, found none")
    (length,) = _LENGTH.unpack_from(records)
    if length < _MIN_LENGTH:
        return _corrupt(f"the batch has an invalid length of {length} bytes")
    if available < _UP_TO_MAGIC_SIZE:
        return _invalid(
            "expected exactly one record batch for the partition, found a truncated one"
        )
    (magic,) = _MAGIC.unpack_from(records)
    if not 0 <= magic <= MAGIC:
        return _corrupt(f"unknown magic {magic}: expected {MAGIC}")
    if length + _PREFIX_SIZE > available:
        return _invalid(f"the batch is truncated: {available} of {length + _PREFIX_SIZE} bytes")
    if magic != MAGIC:
        return _invalid(f"message format {magic} is not supported: expected magic {MAGIC}")
    if length + _PREFIX_SIZE < available:
        return _invalid(
            "expected exactly one record batch for the partition, found"
            f" {available - length - _PREFIX_SIZE} bytes after the first"
        )
    return _corrupt(f"the batch has {length + _PREFIX_SIZE} bytes, less than its header")


def _first_error(header: BatchHeader) -> KafkaError:
    """Return the first error of a batch with a valid CRC, in the order of Kafka's checks."""
    codec = header.attributes & CODEC_MASK
    if codec > _HIGHEST_CODEC:
        return KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"unknown codec {codec}: expected 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)",
        )
    if header.last_offset_delta < 0:
        return _invalid(f"the last offset delta {header.last_offset_delta} is negative")
    if header.count <= 0:
        return _invalid(f"the record count is {header.count}: expected at least one")
    if header.last_offset_delta != header.count - 1:
        return _invalid(
            f"the last offset delta of {header.count} records must be {header.count - 1},"
            f" not {header.last_offset_delta}"
        )
    if header.attributes & CONTROL:
        return _invalid("producers cannot write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        return _invalid(
            f"producer {header.producer_id} sent the negative sequence {header.base_sequence}"
        )
    return KafkaError(
        ErrorCode.INVALID_TIMESTAMP, "producers cannot set the timestamp type LogAppendTime"
    )


def _corrupt(message: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
