"""Broker settings that have an effect, with Kafka's names, types, defaults and limits.

Sawlog's own settings are at the top.
"""

from collections.abc import Mapping

from sawlog.core.config_values import ConfigError, Value, read_table

_MIB = 1 << 20

FLUSH_BEFORE_COMMIT = "commit"
"""The value of `flush.policy` with which only flushed records are committed: an acknowledged one is
on the disk of every in-sync replica."""

BROKER_SETTINGS = read_table("""
flush.policy STRING commit oneof:commit,os :: commit: acks=all waits until records are flushed; \
os: the operating system decides when to flush, as with Apache Kafka.
zookeeper.connect STRING - :: The ZooKeeper ensemble, as HOST:PORT[,HOST:PORT...][/chroot]; \
without it, the coordination store is embedded in the data directory.
zookeeper.connection.timeout.ms INT - >=1 :: How long a start waits for ZooKeeper; if not set, \
zookeeper.session.timeout.ms.
zookeeper.session.timeout.ms INT 18000 >=1 :: ZooKeeper ends the session of a broker that it has \
not heard of for this long.
zookeeper.digest.credentials PASSWORD - :: user:password for ZooKeeper; new nodes are accessible \
with it only.
node.id INT - >=0 :: The broker's id in the cluster.
broker.id INT -1 :: The older name of node.id; node.id takes precedence.
broker.rack STRING - :: The rack of the broker, over which replicas are spread; if not set, \
the host name.
listeners LIST PLAINTEXT://:9092 :: The address to listen on, as PLAINTEXT://host:port.
advertised.listeners LIST - :: The address that clients connect to, if different.
socket.send.buffer.bytes INT 102400 :: SO_SNDBUF of a connection; -1: the system's default.
socket.receive.buffer.bytes INT 102400 :: SO_RCVBUF of a connection; -1: the system's default.
socket.request.max.bytes INT 104857600 >=1 :: The largest request that is accepted.
socket.listen.backlog.size INT 50 >=1 :: The length of the queue of connections to accept.
max.connections INT 2147483647 >=0 :: The maximum number of connections; more are closed at \
once.
max.connections.per.ip INT 2147483647 >=0 :: The maximum number of connections per address.
connections.max.idle.ms LONG 600000 :: A connection that is idle for this long is closed.
queued.max.request.bytes LONG -1 :: Memory for requests that are being received; beyond it \
reads are paused; -1: 256 MiB.
message.max.bytes INT 1048588 >=0 :: The default of a topic's max.message.bytes.
num.partitions INT 1 >=1 :: The default number of partitions of a new topic.
default.replication.factor INT 1 >=1 :: The default replication factor of a new topic.
auto.create.topics.enable BOOLEAN true :: Whether a request for a missing topic creates it.
delete.topic.enable BOOLEAN true :: Whether topics can be deleted.
min.insync.replicas INT 1 >=1 :: The default of a topic's min.insync.replicas.
replica.lag.time.max.ms LONG 30000 :: A follower that was not caught up with its leader for this \
long leaves the in-sync set.
replica.high.watermark.checkpoint.interval.ms LONG 5000 :: How often high watermarks that \
moved are written to disk.
replica.selector.class STRING - oneof:org.apache.kafka.common.replica.LeaderSelector,\
org.apache.kafka.common.replica.RackAwareReplicaSelector :: RackAwareReplicaSelector lets \
consumers read from an in-sync replica in their own rack (KIP-392).
unclean.leader.election.enable BOOLEAN false :: The default of a topic's \
unclean.leader.election.enable.
auto.leader.rebalance.enable BOOLEAN true :: Whether the controller moves leaders back to the \
first replicas of their partitions.
leader.imbalance.check.interval.seconds LONG 300 >=1 :: How often the controller looks for such \
leaders.
controlled.shutdown.enable BOOLEAN true :: Whether a stopping broker first lets the controller \
move its leaders to other in-sync replicas.
fetch.max.bytes INT 57671680 >=1024 :: The maximum size of a fetch response, whatever the client \
requests.
max.incremental.fetch.session.cache.slots INT 1000 >=0 :: The maximum number of fetch sessions.
max.request.partition.size.limit INT 2000 >=1 :: The maximum number of partitions in \
a DescribeTopicPartitions response.
compression.type STRING producer oneof:uncompressed,zstd,lz4,snappy,gzip,producer :: The default \
of a topic's compression.type.
compression.gzip.level INT -1 1..9|-1 :: The default of a topic's compression.gzip.level.
compression.lz4.level INT 9 1..17 :: The default of a topic's compression.lz4.level.
compression.zstd.level INT 3 -131072..22 :: The default of a topic's compression.zstd.level.
log.segment.bytes INT 1073741824 >=1048576 :: The default of a topic's segment.bytes.
log.roll.ms LONG - >=1 :: The default of a topic's segment.ms.
log.roll.hours INT 168 >=1 :: The same in hours, if log.roll.ms is not set.
log.roll.jitter.ms LONG - >=0 :: The default of a topic's segment.jitter.ms.
log.roll.jitter.hours INT 0 >=0 :: The same in hours, if log.roll.jitter.ms is not set.
log.retention.ms LONG - >=1|<0 :: The default of a topic's retention.ms.
log.retention.minutes INT - >=1|<0 :: The same in minutes, if log.retention.ms is not set.
log.retention.hours INT 168 >=1|<0 :: The same in hours, if neither is set.
log.retention.check.interval.ms LONG 300000 >=1 :: The interval between checks for old segments.
log.retention.bytes LONG -1 :: The default of a topic's retention.bytes.
log.cleanup.policy LIST delete oneof:compact,delete :: The default of a topic's cleanup.policy.
log.cleaner.enable BOOLEAN true :: Whether topics with cleanup.policy=compact are compacted.
log.cleaner.threads INT 1 >=0 :: How many logs are compacted at a time, each in its own process.
log.cleaner.dedupe.buffer.size LONG 134217728 :: The memory for the keys of dirty records, of all \
threads together.
log.cleaner.io.buffer.load.factor DOUBLE 0.9 0..1 :: How much of this memory is used.
log.cleaner.io.buffer.size INT 524288 >=0 :: How much is read and written at a time, by all \
threads together.
log.cleaner.io.max.bytes.per.second DOUBLE 1.7976931348623157E308 >=1 :: The maximum rate of reads \
and writes of the log cleaner.
log.cleaner.backoff.ms LONG 15000 >=0 :: The interval between checks for dirty logs.
log.cleaner.min.cleanable.ratio DOUBLE 0.5 0..1 :: The default of a topic's \
min.cleanable.dirty.ratio.
log.cleaner.min.compaction.lag.ms LONG 0 >=0 :: The default of a topic's min.compaction.lag.ms.
log.cleaner.max.compaction.lag.ms LONG 9223372036854775807 >=1 :: The default of a topic's \
max.compaction.lag.ms.
log.cleaner.delete.retention.ms LONG 86400000 >=0 :: The default of a topic's delete.retention.ms.
log.segment.delete.delay.ms LONG 60000 >=0 :: The default of a topic's file.delete.delay.ms.
log.index.size.max.bytes INT 10485760 >=4 :: The default of a topic's segment.index.bytes.
log.index.interval.bytes INT 4096 >=0 :: The default of a topic's index.interval.bytes.
log.flush.interval.messages LONG 9223372036854775807 >=1 :: The default of a topic's \
flush.messages.
log.flush.interval.ms LONG - :: The default of a topic's flush.ms.
log.flush.scheduler.interval.ms LONG 9223372036854775807 :: The same, if \
log.flush.interval.ms is not set.
log.message.timestamp.type STRING CreateTime oneof:CreateTime,LogAppendTime :: The default of a \
topic's message.timestamp.type.
log.message.timestamp.before.max.ms LONG 9223372036854775807 >=0 :: The default of a topic's \
message.timestamp.before.max.ms.
log.message.timestamp.after.max.ms LONG 3600000 >=0 :: The default of a topic's \
message.timestamp.after.max.ms.
producer.id.expiration.ms INT 86400000 >=1 :: The state of a producer that is inactive for this \
long is removed.
replica.fetch.backoff.ms INT 1000 >=0 :: How long a follower waits after an error before it \
fetches a partition again; after a lost connection or a change of leader it begins with 20 ms.
replica.fetch.max.bytes INT 1048576 >=0 :: The maximum number of bytes that a follower fetches of \
a partition at a time; a larger first batch is fetched all the same.
replica.fetch.min.bytes INT 1 :: The minimum number of bytes that a follower waits for, up to \
replica.fetch.wait.max.ms.
replica.fetch.response.max.bytes INT 10485760 >=0 :: The maximum size of a response to a follower.
replica.fetch.wait.max.ms INT 500 :: How long a follower's fetch waits at the leader for records.
replication.quota.window.num INT 11 >=1 :: The number of windows over which the rate of throttled \
replication is measured.
replication.quota.window.size.seconds INT 1 >=1 :: The length of such a window.
replica.socket.timeout.ms INT 30000 :: A follower's request without a response for this long has \
failed.
group.consumer.assignment.interval.ms INT 1000 >=0 :: The minimum time between two target \
assignments of a consumer group.
group.consumer.assignors LIST uniform,range :: The server-side assignors; the first is the \
default.
group.consumer.heartbeat.interval.ms INT 5000 >=1 :: The heartbeat interval of the members of a \
consumer group.
group.consumer.max.assignment.interval.ms INT 15000 >=0 :: The maximum assignment interval \
of a consumer group.
group.consumer.max.heartbeat.interval.ms INT 15000 >=1 :: The maximum heartbeat interval \
of a consumer group.
group.consumer.max.session.timeout.ms INT 60000 >=1 :: The maximum session timeout \
of a consumer group.
group.consumer.min.assignment.interval.ms INT 0 >=0 :: The minimum assignment interval \
of a consumer group.
group.consumer.min.heartbeat.interval.ms INT 5000 >=1 :: The minimum heartbeat interval \
of a consumer group.
group.consumer.min.session.timeout.ms INT 45000 >=1 :: The minimum session timeout \
of a consumer group.
group.consumer.max.size INT 2147483647 >=1 :: The maximum number of members of a consumer group.
group.consumer.migration.policy STRING bidirectional \
anycase:DISABLED,DOWNGRADE,UPGRADE,BIDIRECTIONAL :: Whether a group may switch between the \
classic and the consumer protocol during a rolling restart of its members.
group.consumer.regex.refresh.interval.ms INT 600000 >=10000 :: The regular expression of a \
subscription is evaluated again after this time at the latest.
group.consumer.session.timeout.ms INT 45000 >=1 :: A member of a consumer group without a \
heartbeat for this long is removed.
group.coordinator.rebalance.protocols LIST classic,consumer,streams \
oneof:consumer,classic,share,streams :: The group protocols that are enabled.
group.initial.rebalance.delay.ms INT 3000 :: How long a new classic group waits for more members \
before its first rebalance.
group.max.session.timeout.ms INT 1800000 :: The maximum session timeout of a classic member.
group.max.size INT 2147483647 >=1 :: The maximum number of members of a classic group.
group.min.session.timeout.ms INT 6000 :: The minimum session timeout of a classic member.
offset.metadata.max.bytes INT 4096 :: The maximum size of the metadata committed with an offset.
offsets.retention.check.interval.ms LONG 600000 >=1 :: The interval between checks for \
expired offsets.
offsets.retention.minutes INT 10080 >=1 :: How long the offsets of a group without members, or \
of a topic it no longer subscribes to, are kept.
offsets.topic.num.partitions INT 50 >=1 :: The number of partitions of __consumer_offsets when it \
is created.
offsets.topic.replication.factor SHORT 3 >=1 :: The replication factor of __consumer_offsets, at \
most the number of brokers.
offsets.topic.segment.bytes INT 104857600 >=1 :: The segment size of __consumer_offsets.
request.timeout.ms INT 30000 :: How long a broker waits for the response of another broker about a \
transaction.
transaction.max.timeout.ms INT 900000 >=1 :: The longest transaction.timeout.ms that a producer \
may ask for.
transactional.id.expiration.ms INT 604800000 >=1 :: How long an unused transactional id is kept.
transaction.abort.timed.out.transaction.cleanup.interval.ms INT 10000 >=1 :: How often the \
coordinator looks for transactions that have exceeded their timeout.
transaction.remove.expired.transaction.cleanup.interval.ms INT 3600000 >=1 :: How often the \
coordinator removes expired transactional ids.
transaction.partition.verification.enable BOOLEAN true :: Whether a leader asks the coordinator \
before the first batch of a transaction of a client that adds partitions itself (KIP-890).
transaction.two.phase.commit.enable BOOLEAN false :: Two-phase commit (KIP-939) is not \
supported.
transaction.state.log.num.partitions INT 50 >=1 :: The number of partitions of \
__transaction_state when it is created.
transaction.state.log.replication.factor SHORT 3 >=1 :: The replication factor of \
__transaction_state, at most the number of brokers.
transaction.state.log.min.isr INT 2 >=1 :: The min.insync.replicas of __transaction_state when \
it is created, at most its replication factor.
transaction.state.log.segment.bytes INT 104857600 >=1 :: The segment size of __transaction_state.
add.partitions.to.txn.retry.backoff.ms INT 20 >=1 :: The interval in which a leader adds a \
partition again while the previous transaction of the producer is being completed.
add.partitions.to.txn.retry.backoff.max.ms INT 100 >=0 :: How long it does so.
""")


def check_cleaner(values: Mapping[str, Value]) -> None:
    """Raise ConfigError if the log cleaner could not make progress with these settings."""
    name = "log.cleaner.dedupe.buffer.size"
    size, threads = values[name], values["log.cleaner.threads"]
    assert isinstance(size, int)
    assert isinstance(threads, int)
    if size // max(1, threads) <= _MIB:
        message = f"{name} must be at least 1MB per cleaner thread."
        raise ConfigError(name, str(size), f"more than {_MIB} for each thread", message)


def check_transactions(values: Mapping[str, Value]) -> None:
    """Raise ConfigError if two-phase commit (KIP-939) is enabled."""
    name = "transaction.two.phase.commit.enable"
    if values[name]:
        message = f"{name}: Sawlog does not support two-phase commit (KIP-939): remove it."
        raise ConfigError(name, "true", "false", message)
