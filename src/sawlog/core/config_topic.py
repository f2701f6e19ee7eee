"""The settings of a topic, and the broker settings that each takes its default from.

A default in this file is used only if none of the setting's `BROKER_SYNONYMS` has a value; else the
default comes from `config_broker.py` or `config_accepted.py`. Settings without a description are
stored and described, and have no effect yet.
"""

from typing import NamedTuple

from sawlog.core.config_values import read_table

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


class Synonym(NamedTuple):
    """A broker setting for the same property as a topic setting, perhaps in another unit."""

    name: str
    unit_ms: int = 1

    def in_ms(self, value: int) -> int:
        """Convert to milliseconds; negative values mean "no limit" in any unit."""
        return value * self.unit_ms if value > 0 else value


TOPIC_SETTINGS = read_table("""
segment.bytes INT 1073741824 >=1048576 :: A segment is rolled before it grows beyond this size.
segment.ms LONG 604800000 >=1 :: A segment is rolled when it is this old.
segment.jitter.ms LONG 0 >=0 :: The maximum random time that is subtracted from segment.ms.
segment.index.bytes INT 10485760 >=4 :: A segment is rolled when an index reaches this size.
flush.messages LONG 9223372036854775807 >=1 :: Under flush.policy=os: flush after this many records.
flush.ms LONG 9223372036854775807 >=0 :: Under flush.policy=os: flush after this time.
retention.bytes LONG -1 :: The oldest segments of a larger partition are deleted; -1: no limit.
retention.ms LONG 604800000 >=-1 :: Segments older than this are deleted; -1: no limit.
max.message.bytes INT 1048588 >=0 :: The largest record batch that is accepted.
index.interval.bytes INT 4096 >=0 :: The log has an index entry about every this many bytes.
delete.retention.ms LONG 86400000 >=0 :: How long a compacted topic keeps a tombstone after the \
first compaction that has seen it.
min.compaction.lag.ms LONG 0 >=0 :: Younger records are not compacted.
max.compaction.lag.ms LONG 9223372036854775807 >=1 :: A log with older dirty records is compacted \
however little of it is dirty.
file.delete.delay.ms LONG 60000 >=0 :: How long the files of a deleted segment stay.
min.cleanable.dirty.ratio DOUBLE 0.5 0..1 :: A log is compacted when more than this part of it is \
dirty.
cleanup.policy LIST delete oneof:compact,delete :: delete: old segments are deleted; \
compact: records need a key, and the last one of each key stays.
unclean.leader.election.enable BOOLEAN false :: Whether a replica that is not in sync may \
become leader.
min.insync.replicas INT 1 >=1 :: acks=all is rejected when fewer replicas are in sync.
compression.type STRING producer oneof:uncompressed,zstd,lz4,snappy,gzip,producer :: The codec of \
stored batches; producer: as the producer sent them.
compression.gzip.level INT -1 1..9|-1 :: The level if compression.type is gzip; -1: 6.
compression.lz4.level INT 9 1..17 :: The level if compression.type is lz4; 9: the fast compressor.
compression.zstd.level INT 3 -131072..22 :: The level if compression.type is zstd.
preallocate BOOLEAN false
message.timestamp.type STRING CreateTime oneof:CreateTime,LogAppendTime :: Whether \
the producer or the broker sets the timestamps of records.
message.timestamp.before.max.ms LONG 9223372036854775807 >=0 :: How old a record's timestamp may be.
message.timestamp.after.max.ms LONG 3600000 >=0 :: How far a record's timestamp may be ahead of \
the broker's clock.
leader.replication.throttled.replicas LIST "" throttled :: The leaders, as partition:broker or * \
for all, that send their out-of-sync followers at most leader.replication.throttled.rate together.
follower.replication.throttled.replicas LIST "" throttled :: The followers, as partition:broker or \
* for all, that fetch at most follower.replication.throttled.rate together until they are in sync.
remote.storage.enable BOOLEAN false
local.retention.ms LONG -2 >=-2
local.retention.bytes LONG -2 >=-2
remote.log.copy.disable BOOLEAN false
remote.log.delete.on.disable BOOLEAN false
internal.segment.bytes INT - >=1 :: Overrides segment.bytes without its minimum, for tests.
""")

HIDDEN_SETTINGS = frozenset({"internal.segment.bytes"})
"""Settings that are not described unless they were set."""

REMOVED_TOPIC_SETTINGS = frozenset(
    {
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.difference.max.ms",
    }
)
"""Settings of Kafka before 4.0, which old scripts may still set."""

_PREFIXED = {
    "log.": (
        "segment.bytes",
        "retention.bytes",
        "index.interval.bytes",
        "cleanup.policy",
        "preallocate",
        "message.timestamp.type",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
        "local.retention.ms",
        "local.retention.bytes",
    ),
    "log.cleaner.": ("delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms"),
    "": (
        "unclean.leader.election.enable",
        "min.insync.replicas",
        "compression.type",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
    ),
}

BROKER_SYNONYMS: dict[str, tuple[Synonym, ...]] = {
    "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", HOUR_MS)),
    "segment.jitter.ms": (
        Synonym("log.roll.jitter.ms"),
        Synonym("log.roll.jitter.hours", HOUR_MS),
    ),
    "segment.index.bytes": (Synonym("log.index.size.max.bytes"),),
    "flush.messages": (Synonym("log.flush.interval.messages"),),
    "flush.ms": (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    "retention.ms": (
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", MINUTE_MS),
        Synonym("log.retention.hours", HOUR_MS),
    ),
    "max.message.bytes": (Synonym("message.max.bytes"),),
    "file.delete.delay.ms": (Synonym("log.segment.delete.delay.ms"),),
    "min.cleanable.dirty.ratio": (Synonym("log.cleaner.min.cleanable.ratio"),),
} | {name: (Synonym(prefix + name),) for prefix, names in _PREFIXED.items() for name in names}
"""In order of precedence: the first one with a value counts."""
