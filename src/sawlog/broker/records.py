"""The few cases in which a produced batch must be opened before it is appended.

A compacted topic needs a key in every record; a topic with a codec of its own gets its batches in
that codec. Everything else stays closed from the socket to the file.
"""

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.batches import BatchHeader, check_produced
from sawlog.protocol.compression import Codec
from sawlog.protocol.records import build_batch, iterate
from sawlog.storage.config import LogConfig

MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024
"""A batch that opens to more than this is refused rather than held in memory."""

_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class InvalidRecords(KafkaError):
    """Some records of a batch are refused, each with its place and a reason (KIP-467)."""

    def __init__(self, message: str, records: list[tuple[int, str]]) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)
        self.records = records


def prepare(
    batch: memoryview, header: BatchHeader, config: LogConfig
) -> tuple[memoryview, BatchHeader]:
    """The batch as this topic stores it: keys checked, in the topic's codec."""
    records = list(iterate(batch, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES))
    if "compact" in config.cleanup_policy:
        keyless = [place for place, record in enumerate(records) if record.key is None]
        if keyless:
            reason = "Compacted topic cannot accept message without key"
            raise InvalidRecords(
                "One or more records have been rejected due to "
                f"{len(keyless)} record errors in total, and only showing the first three errors "
                "at most",
                [(place, reason) for place in keyless],
            )
    wanted = _CODECS.get(config.compression_type)
    if wanted is None or wanted == header.codec:
        return batch, header
    rebuilt = memoryview(
        build_batch(
            records,
            codec=wanted,
            base_offset=header.base_offset,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
        )
    )
    return rebuilt, check_produced(rebuilt, max_batch_bytes=config.max_message_bytes)
