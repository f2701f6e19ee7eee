"""What a topic's settings mean for its logs, with Apache Kafka's defaults.

A plain value: parsing, validation and the synonyms of the broker's own settings belong to
`core/config`. A log is given a new one whenever the topic's configuration changes.
"""

from dataclasses import dataclass

FOREVER = 2**63 - 1
"""Kafka's Long.MAX_VALUE: a limit that is never reached."""

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of one topic; the comment names the setting where it reads differently."""

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

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    retention_ms: int = 7 * 24 * 3600 * 1000  # -1: for ever
    retention_bytes: int = -1  # -1: without limit
    file_delete_delay_ms: int = 60_000

    flush_messages: int = FOREVER
    flush_ms: int = FOREVER

    min_insync_replicas: int = 1
    unclean_leader_election: bool = False  # unclean.leader.election.enable
    producer_id_expiration_ms: int = 86_400_000  # producer.id.expiration.ms, the broker's
