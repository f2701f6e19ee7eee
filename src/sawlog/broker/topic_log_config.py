"""From settings to what the storage works with: a topic's configuration as a `LogConfig`."""

from collections.abc import Mapping

from sawlog.core.config import BrokerConfig, TopicConfig
from sawlog.storage.log_config import LogConfig


def log_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """What a topic with these settings of its own gets on this broker."""
    topic = TopicConfig(broker, overrides)
    return LogConfig(
        segment_bytes=topic.segment_bytes,
        segment_ms=topic["segment.ms"],
        segment_jitter_ms=topic["segment.jitter.ms"],
        segment_index_bytes=topic["segment.index.bytes"],
        index_interval_bytes=topic["index.interval.bytes"],
        max_message_bytes=topic["max.message.bytes"],
        timestamp_type=topic["message.timestamp.type"],
        timestamp_before_max_ms=topic["message.timestamp.before.max.ms"],
        timestamp_after_max_ms=topic["message.timestamp.after.max.ms"],
        compression_type=topic["compression.type"],
        cleanup_policy=frozenset(topic["cleanup.policy"]),
        retention_ms=topic["retention.ms"],
        retention_bytes=topic["retention.bytes"],
        file_delete_delay_ms=topic["file.delete.delay.ms"],
        flush_messages=topic["flush.messages"],
        flush_ms=topic["flush.ms"],
        min_insync_replicas=topic["min.insync.replicas"],
        unclean_leader_election=topic["unclean.leader.election.enable"],
        producer_id_expiration_ms=broker["producer.id.expiration.ms"],
    )
