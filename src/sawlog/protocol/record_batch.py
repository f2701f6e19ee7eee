"""The record batch (magic 2) as a header over bytes that stay closed.

A batch travels from socket to file to socket as it is: here its 61-byte header is read, judged and
stamped, and its CRC-32C computed. Nothing here keeps a reference to the buffer it was shown. What
is inside a batch is the business of `records`.
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

HEADER_SIZE = 61
MAGIC = 2
_PREFIX_SIZE = 12  # base offset and length: what `length` does not count
_UP_TO_MAGIC_SIZE = 17
_LEADER_EPOCH_POSITION = 12
_CRC_POSITION = 17
_CRC_START = 21  # attributes: the first byte that the CRC covers
_SMALLEST_LENGTH = 14  # of a magic 0 message, the smallest that Kafka's reader takes for a message

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40  # base_timestamp is the time after which tombstones may go (KIP-534)
_HIGHEST_CODEC = 4
_SEQUENCES = 1 << 31

_read = _LAYOUT.unpack_from
_new = tuple.__new__


class BatchHeader(NamedTuple):
    """The fields of a batch's header in the order of the wire."""

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
    count: int  # type: ignore[assignment]  # tuple.count is of no use here

    @property
    def size(self) -> int:
        """Of the whole batch, the 12 bytes in front of what `length` counts included."""
        return self.length + _PREFIX_SIZE

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """The number of the codec; `compression.Codec` names it where it is one."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """0: the producer set the timestamps; 1: the broker did, when it appended."""
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
        """Sequences count to 2^31 - 1 and begin again at 0; -1 where there are none."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCES


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header as it stands there, unjudged; CORRUPT_MESSAGE where 61 bytes are not left."""
    try:
        return _new(BatchHeader, _read(buffer, position))
    except struct.error:
        raise _corrupt(
            f"a batch header has {HEADER_SIZE} bytes, there are {max(0, len(buffer) - position)}"
        ) from None


def crc_matches(buffer: Buffer, header: BatchHeader, position: int = 0) -> bool:
    """Whether the batch at `position`, whole in `buffer`, has the CRC that its header states."""
    end = position + header.length + _PREFIX_SIZE
    if header.length < HEADER_SIZE - _PREFIX_SIZE or end > len(buffer):
        return False
    return bool(crc32c(memoryview(buffer)[position + _CRC_START : end]) == header.crc)


def check_crc(buffer: Buffer, header: BatchHeader, position: int = 0) -> None:
    """CORRUPT_MESSAGE where the bytes are not those that the CRC was computed over."""
    if not crc_matches(buffer, header, position):
        raise _corrupt(f"the batch does not match its CRC {header.crc:#010x}")


def batches_in(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch in order; a last one that is cut off is left out.

    CORRUPT_MESSAGE where something else than a magic 2 batch stands. CRCs are not looked at.
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
    """The header of the one batch that a producer may send for a partition, all it shows in order.

    Refused with the codes and in the order of Apache Kafka 4. What needs more than the header (the
    topic's timestamp bounds, keys, producer state, transactions) is left to the caller.
    """
    if records is None or len(records) < HEADER_SIZE:
        raise _no_single_batch(records)
    header = _new(BatchHeader, _read(records, 0))
    if header.magic != MAGIC or header.length + _PREFIX_SIZE != len(records):
        raise _no_single_batch(records)
    if header.base_offset != 0:
        raise _invalid(f"the base offset of a produced batch is 0, not {header.base_offset}")
    if len(records) > max_batch_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {len(records)} bytes, the topic takes {max_batch_bytes}"
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
        raise _refusal(header)
    return header


def stamp(batch: memoryview, base_offset: int, leader_epoch: int) -> None:
    """Writes what the leader decides, in place; the CRC does not cover it."""
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, _LEADER_EPOCH_POSITION, leader_epoch)


def stamp_append_time(batch: memoryview, timestamp_ms: int) -> None:
    """Makes the time of the append every record's timestamp, in place, with a new CRC.

    `batch` is the batch and nothing after it. Only the type and the highest timestamp change:
    readers take that one for all records of a batch of this type.
    """
    attributes, delta, base_timestamp, _ = _TIMESTAMPS.unpack_from(batch, _CRC_START)
    _TIMESTAMPS.pack_into(
        batch, _CRC_START, attributes | LOG_APPEND_TIME, delta, base_timestamp, timestamp_ms
    )
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(batch[_CRC_START:]))


def _no_single_batch(records: memoryview | None) -> KafkaError:
    """Why these bytes are not exactly one whole magic 2 batch, as Kafka's reader would find out."""
    available = 0 if records is None else len(records)
    if records is None or available < _PREFIX_SIZE:
        return _invalid("a partition needs exactly one record batch, there is none")
    (length,) = _LENGTH.unpack_from(records)
    if length < _SMALLEST_LENGTH:
        return _corrupt(f"the batch says it is {length} bytes long, which none can be")
    if available < _UP_TO_MAGIC_SIZE:
        return _invalid("a partition needs exactly one record batch, there is none whole")
    (magic,) = _MAGIC.unpack_from(records)
    if not 0 <= magic <= MAGIC:
        return _corrupt(f"a batch has magic {MAGIC}, not {magic}")
    if length + _PREFIX_SIZE > available:
        return _invalid(
            f"the batch says it is {length + _PREFIX_SIZE} bytes long, there are {available}"
        )
    if magic != MAGIC:
        return _invalid(f"a batch must have magic {MAGIC}; the old format {magic} is not taken")
    if length + _PREFIX_SIZE < available:
        return _invalid(
            "a partition takes exactly one record batch in a request; there are"
            f" {available - length - _PREFIX_SIZE} bytes after the first"
        )
    return _corrupt(f"the batch says it is {length + _PREFIX_SIZE} bytes long, less than a header")


def _refusal(header: BatchHeader) -> KafkaError:
    """The first of a closed batch's faults in Kafka's order; its CRC is right already."""
    codec = header.attributes & CODEC_MASK
    if codec > _HIGHEST_CODEC:
        return KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"codec {codec} is none of 0 (none), 1 (gzip), 2 (snappy), 3 (lz4), 4 (zstd)",
        )
    if header.last_offset_delta < 0:
        return _invalid(f"the last offset delta is {header.last_offset_delta}, below 0")
    if header.count <= 0:
        return _invalid(f"the batch says it has {header.count} records; it needs at least one")
    if header.last_offset_delta != header.count - 1:
        return _invalid(
            f"{header.count} records need the last offset delta {header.count - 1},"
            f" not {header.last_offset_delta}"
        )
    if header.attributes & CONTROL:
        return _invalid("only brokers write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        return _invalid(
            f"producer {header.producer_id} sent the sequence {header.base_sequence}, below 0"
        )
    return KafkaError(
        ErrorCode.INVALID_TIMESTAMP, "only brokers set the timestamp type LogAppendTime"
    )


def _corrupt(message: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
