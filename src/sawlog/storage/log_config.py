"""The settings of a topic that its logs use, with Apache Kafka's defaults.

Parsing, validation and the synonyms among broker settings are in `core/config`. A log gets a new
LogConfig whenever the configuration of its topic changes.
"""

from dataclasses import dataclass, field

FOREVER = 2**63 - 1
"""Kafka's Long.MAX_VALUE: a limit that is never reached."""

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of one topic; a comment gives the name of the setting where it differs."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1_048_588

    timestamp_type: str = CREATE_TIME  # message.timestamp.type
    timestamp_before_max_ms: int = FOREVER  # message.timestamp.before.max.ms
    timestamp_after_max_ms: int = 3_600_000  # message.timestamp.after.max.ms (KIP-1030)
    compression_type: str = "producer"
    compression_level: int | None = None  # compression.<type>.level; None: the codec has none

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    retention_ms: int = 7 * 24 * 3600 * 1000  # -1: no limit
    retention_bytes: int = -1  # -1: no limit
    file_delete_delay_ms: int = 60_000

    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER
    delete_retention_ms: int = 86_400_000

    flush_messages: int = FOREVER
    flush_ms: int = FOREVER

    min_insync_replicas: int = 1
    producer_id_expiration_ms: int = 86_400_000  # a broker setting
    verifies_transactions: bool = True  # transaction.partition.verification.enable of the broker

    reads_records: bool = field(init=False)
    """Whether the records of all produced batches are read: to check that they have keys, to
    convert them to `compression_type`, or to find old timestamps, which a header does not show."""

    def __post_init__(self) -> None:
        reads_records = (
            self.compression_type != "producer"
            or "compact" in self.cleanup_policy
            or (self.timestamp_type == CREATE_TIME and self.timestamp_before_max_ms != FOREVER)
        )
        object.__setattr__(self, "reads_records", reads_records)
