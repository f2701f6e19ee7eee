"""The configuration of a partition's log: the broker's settings with the topic's overrides."""

from collections.abc import Mapping

from sawlog.broker.metadata_cache import MetadataCache
from sawlog.core.config import BrokerConfig, TopicConfig
from sawlog.core.config_topic import BROKER_SYNONYMS
from sawlog.core.ids import TopicName
from sawlog.storage.cleaner.log_cleaner import CleanerConfig
from sawlog.storage.log_config import LogConfig

MAX_CACHED = 1_000
_CODECS_WITH_LEVELS = ("gzip", "lz4", "zstd")
LOG_SETTINGS = frozenset(
    {
        "producer.id.expiration.ms",
        *(synonym.name for synonyms in BROKER_SYNONYMS.values() for synonym in synonyms),
    }
)
"""The broker settings that a log's configuration depends on."""

CLEANER_SETTINGS = frozenset(
    {
        "log.cleaner.enable",
        "log.cleaner.threads",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.backoff.ms",
    }
)
"""The broker settings of the log cleaner."""


class LogConfigs:
    """A cache of log configurations: topics with the same overrides share one `LogConfig`."""

    def __init__(self, config: BrokerConfig, metadata: MetadataCache) -> None:
        self._config = config
        self._metadata = metadata
        self._cached: dict[tuple[tuple[str, str], ...], LogConfig] = {}

    def broker_changed(self) -> None:
        """Forget all configurations after a change of the broker's settings."""
        self._cached.clear()

    def of_topic(self, name: TopicName) -> LogConfig:
        """Return the configuration of a topic in the image; the broker's defaults if unknown."""
        topic = self._metadata.image.topics.get(name)
        return self.with_overrides(topic.configs if topic is not None else {})

    def with_overrides(self, overrides: Mapping[str, str]) -> LogConfig:
        key = tuple(sorted(overrides.items()))
        config = self._cached.get(key)
        if config is None:
            if len(self._cached) >= MAX_CACHED:
                self._cached.clear()
            config = self._cached[key] = log_config(self._config, overrides)
        return config


def log_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
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
        compression_level=_compression_level(topic),
        cleanup_policy=frozenset(topic["cleanup.policy"]),
        retention_ms=topic["retention.ms"],
        retention_bytes=topic["retention.bytes"],
        file_delete_delay_ms=topic["file.delete.delay.ms"],
        min_cleanable_dirty_ratio=topic["min.cleanable.dirty.ratio"],
        min_compaction_lag_ms=topic["min.compaction.lag.ms"],
        max_compaction_lag_ms=topic["max.compaction.lag.ms"],
        delete_retention_ms=topic["delete.retention.ms"],
        flush_messages=topic["flush.messages"],
        flush_ms=topic["flush.ms"],
        min_insync_replicas=topic["min.insync.replicas"],
        producer_id_expiration_ms=broker["producer.id.expiration.ms"],
    )


def cleaner_config(broker: BrokerConfig) -> CleanerConfig:
    """The settings of the log cleaner."""
    return CleanerConfig(
        enable=broker["log.cleaner.enable"],
        threads=broker["log.cleaner.threads"],
        dedupe_buffer_size=broker["log.cleaner.dedupe.buffer.size"],
        io_buffer_load_factor=broker["log.cleaner.io.buffer.load.factor"],
        io_buffer_size=broker["log.cleaner.io.buffer.size"],
        io_max_bytes_per_second=broker["log.cleaner.io.max.bytes.per.second"],
        backoff_ms=broker["log.cleaner.backoff.ms"],
    )


def _compression_level(topic: TopicConfig) -> int | None:
    codec = topic["compression.type"]
    return topic[f"compression.{codec}.level"] if codec in _CODECS_WITH_LEVELS else None
