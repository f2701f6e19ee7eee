"""Validation and conversion of produced batches that need their records decoded.

A compacted topic needs a key in every record; a topic with a `compression.type` other than
`producer` stores its batches in that codec. All other batches are appended without being decoded.
"""

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.compression import Codec
from sawlog.protocol.record_batch import BatchHeader, check_produced
from sawlog.protocol.records import build_batch, iterate
from sawlog.storage.log_config import LogConfig

MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024
MAX_RECORDS = 100_000
"""A larger batch is rejected: decoding it would block all other clients."""

_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class InvalidRecords(KafkaError):
    """Some records of a batch are invalid; each with its position and a reason (KIP-467)."""

    def __init__(self, message: str, records: list[tuple[int, str]]) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)
        self.records = records


def prepare(
    batch: memoryview, header: BatchHeader, config: LogConfig
) -> tuple[memoryview, BatchHeader]:
    """Return the batch with its keys checked, in the topic's codec."""
    if header.count > MAX_RECORDS:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"A batch of this topic may have at most {MAX_RECORDS} records, not {header.count}.",
        )
    if "compact" in config.cleanup_policy:
        _check_keys(batch)
    wanted = _CODECS.get(config.compression_type)
    if wanted is None or wanted == header.codec:
        return batch, header
    rebuilt = memoryview(
        build_batch(
            iterate(batch, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES),
            codec=wanted,
            base_offset=header.base_offset,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
        )
    )
    return rebuilt, check_produced(rebuilt, max_batch_bytes=config.max_message_bytes)


def _check_keys(batch: memoryview) -> None:
    reason = "Compacted topic cannot accept message without key"
    records = iterate(batch, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES)
    keyless = [(position, reason) for position, record in enumerate(records) if record.key is None]
    if keyless:
        raise InvalidRecords(
            f"One or more records have been rejected due to {len(keyless)} record errors in "
            "total, and only showing the first three errors at most",
            keyless,
        )
