"""Validation and conversion of produced batches by their records.

Kafka reads the records of every batch. Sawlog reads those of topics that need it
(`LogConfig.reads_records`) and of headers with a suspect timestamp; other batches are appended
unread, with a maximum timestamp within the topic's limit: retention and time index use no other.
A batch that is read is checked completely: if anything is wrong, nothing of it is appended.
"""

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.compression import Codec, compress, decompress
from sawlog.protocol.record_batch import (
    HEADER_SIZE,
    TRANSACTIONAL,
    BatchHeader,
    encode_batch,
    read_header,
    set_max_timestamp,
)
from sawlog.protocol.record_validation import RecordScan, scan_records
from sawlog.protocol.records import NO_TIMESTAMP, Record, iterate
from sawlog.storage.log_config import CREATE_TIME, FOREVER, LogConfig

MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024
MAX_RECORDS = 100_000
"""A larger batch is rejected: reading it would block all other clients."""

_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class InvalidRecords(KafkaError):
    """Some records of a batch are invalid; each with its position and a reason (KIP-467)."""

    def __init__(self, code: ErrorCode, count: int, records: list[tuple[int, str]]) -> None:
        position, reason = records[0]
        super().__init__(
            code,
            f"{len(records)} of {count} records are invalid; the first is record {position}:"
            f" {reason}",
        )
        self.records = records


def prepare(
    batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int
) -> tuple[memoryview, BatchHeader]:
    """Check the records of a batch; return it in the topic's codec, with the right maximum
    timestamp. It is changed in place, or a new one."""
    if header.count > MAX_RECORDS:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of this topic may have at most {MAX_RECORDS} records, not {header.count}",
        )
    body = _decompress(batch, header)
    scan = scan_records(body, header.count)
    max_timestamp = _check_records(batch, header, scan, config, now_ms)
    wanted = _CODECS.get(config.compression_type, header.codec)
    if wanted != header.codec:
        return _convert(body, header._replace(max_timestamp=max_timestamp), wanted, config)
    if max_timestamp != header.max_timestamp:
        set_max_timestamp(batch, max_timestamp)
        header = read_header(batch)
    return batch, header


def _decompress(batch: memoryview, header: BatchHeader) -> bytes:
    try:
        return decompress(header.codec, batch[HEADER_SIZE:], MAX_DECOMPRESSED_BYTES)
    except KafkaError as error:
        if error.code is not ErrorCode.CORRUPT_MESSAGE:
            raise
        # CORRUPT_MESSAGE makes producers retry; the CRC matches, so that would not help.
        raise KafkaError(ErrorCode.INVALID_RECORD, error.message) from None


def _check_records(
    batch: memoryview, header: BatchHeader, scan: RecordScan, config: LogConfig, now_ms: int
) -> int:
    """Raise InvalidRecords, or return the maximum timestamp. Records are decoded only if the scan
    does not already show that all are valid."""
    has_bounds = config.timestamp_type == CREATE_TIME
    oldest = header.base_timestamp + scan.min_timestamp_delta
    newest = header.base_timestamp + scan.max_timestamp_delta
    earliest, latest = _bounds(config, now_ms)
    is_valid = not scan.misplaced and not ("compact" in config.cleanup_policy and scan.keyless)
    if is_valid and (not has_bounds or earliest <= oldest <= newest <= latest):
        return max(newest, NO_TIMESTAMP) if has_bounds else header.max_timestamp

    errors: list[tuple[int, str]] = []
    code = ErrorCode.INVALID_RECORD
    max_timestamp = NO_TIMESTAMP
    records = iterate(batch, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES)
    for position, record in enumerate(records):
        reason = _fault(record, position, config)
        if not reason and has_bounds and record.timestamp != NO_TIMESTAMP:
            if not earliest <= record.timestamp <= latest:
                code = ErrorCode.INVALID_TIMESTAMP
                reason = f"timestamp {record.timestamp} is not within [{earliest}, {latest}]"
            max_timestamp = max(max_timestamp, record.timestamp)
        if reason:
            errors.append((position, reason))
    if errors:
        raise InvalidRecords(code, header.count, errors)
    return max_timestamp


def _bounds(config: LogConfig, now_ms: int) -> tuple[int, int]:
    """The first and last timestamp that a record may have."""
    latest = min(now_ms + config.timestamp_after_max_ms, FOREVER)
    return now_ms - config.timestamp_before_max_ms, latest


def _fault(record: Record, position: int, config: LogConfig) -> str:
    """Why a record is invalid, apart from its timestamp; empty if it is not."""
    if record.offset != position:
        return f"offset delta {record.offset} instead of {position}"
    if record.key is None and "compact" in config.cleanup_policy:
        return "a record of a compacted topic needs a key"
    return ""


def _convert(
    body: bytes, header: BatchHeader, codec: int, config: LogConfig
) -> tuple[memoryview, BatchHeader]:
    """Compress the records in the topic's codec. Their bytes stay as they are; so do the fields of
    the header, except for attributes without a meaning."""
    attributes = header.attributes & TRANSACTIONAL | codec
    compressed = compress(codec, body, config.compression_level)
    batch = memoryview(encode_batch(header._replace(attributes=attributes), compressed))
    if len(batch) > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {len(batch)} bytes after conversion to"
            f" compression.type={config.compression_type}, the topic's limit is"
            f" {config.max_message_bytes} (max.message.bytes)",
        )
    return batch, read_header(batch)
