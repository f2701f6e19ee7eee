"""The broker settings that have a meaning here, with Kafka's names, types, defaults and limits.

Sawlog's own are at the top. Where a default differs from Kafka's, the line says what it is.
"""

from sawlog.core.config_values import read_table

BROKER_SETTINGS = read_table("""
flush.policy STRING commit oneof:commit,os :: commit: acks=all waits until records are flushed; \
os: the system flushes when it likes, as Apache Kafka does.
node.id INT - >=0 :: This broker's number in the cluster.
broker.id INT -1 :: An older name for node.id, which wins.
broker.rack STRING - :: The rack of this broker, for spreading replicas; where not set they are \
spread over host names.
listeners LIST PLAINTEXT://:9092 :: The address to listen on, as PLAINTEXT://host:port.
advertised.listeners LIST - :: The address that clients are told, where it is another one.
socket.send.buffer.bytes INT 102400 :: SO_SNDBUF of a connection; -1: the system's.
socket.receive.buffer.bytes INT 102400 :: SO_RCVBUF of a connection; -1: the system's.
socket.request.max.bytes INT 104857600 >=1 :: The largest request that is read.
socket.listen.backlog.size INT 50 >=1 :: How many connections may wait to be accepted.
max.connections INT 2147483647 >=0 :: How many connections there may be; the next is closed at \
once.
max.connections.per.ip INT 2147483647 >=0 :: How many connections there may be from one address.
connections.max.idle.ms LONG 600000 :: A connection that is silent for so long is closed.
queued.max.request.bytes LONG -1 :: Requests under way take this much memory, then reading \
stops; -1: 256 MiB.
message.max.bytes INT 1048588 >=0 :: The default of a topic's max.message.bytes.
num.partitions INT 1 >=1 :: Partitions of a topic that does not say.
default.replication.factor INT 1 >=1 :: Replicas of a partition of a topic that does not say.
auto.create.topics.enable BOOLEAN true :: Does asking for a topic make it?
delete.topic.enable BOOLEAN true :: May topics be deleted?
min.insync.replicas INT 1 >=1 :: The default of a topic's min.insync.replicas.
unclean.leader.election.enable BOOLEAN false :: The default of a topic's \
unclean.leader.election.enable.
fetch.max.bytes INT 57671680 >=1024 :: The most bytes in one fetch response, whatever the client \
asks for.
max.incremental.fetch.session.cache.slots INT 1000 >=0 :: How many fetch sessions are kept.
max.request.partition.size.limit INT 2000 >=1 :: The most partitions in one \
DescribeTopicPartitions response.
compression.type STRING producer oneof:uncompressed,zstd,lz4,snappy,gzip,producer :: The default \
of a topic's compression.type.
log.segment.bytes INT 1073741824 >=1048576 :: The default of a topic's segment.bytes.
log.roll.ms LONG - >=1 :: The default of a topic's segment.ms.
log.roll.hours INT 168 >=1 :: The same in hours, where log.roll.ms is not set.
log.roll.jitter.ms LONG - >=0 :: The default of a topic's segment.jitter.ms.
log.roll.jitter.hours INT 0 >=0 :: The same in hours, where log.roll.jitter.ms is not set.
log.retention.ms LONG - >=1|-1 :: The default of a topic's retention.ms.
log.retention.minutes INT - >=1|-1 :: The same in minutes, where log.retention.ms is not set.
log.retention.hours INT 168 >=1|-1 :: The same in hours, where neither is set.
log.retention.check.interval.ms LONG 300000 >=1 :: How often old segments are looked for.
log.retention.bytes LONG -1 :: The default of a topic's retention.bytes.
log.cleanup.policy LIST delete oneof:compact,delete :: The default of a topic's cleanup.policy.
log.index.size.max.bytes INT 10485760 >=4 :: The default of a topic's segment.index.bytes.
log.index.interval.bytes INT 4096 >=0 :: The default of a topic's index.interval.bytes.
log.flush.interval.messages LONG 9223372036854775807 >=1 :: The default of a topic's \
flush.messages.
log.flush.interval.ms LONG - :: The default of a topic's flush.ms.
log.flush.scheduler.interval.ms LONG 9223372036854775807 :: The same, where \
log.flush.interval.ms is not set.
log.message.timestamp.type STRING CreateTime oneof:CreateTime,LogAppendTime :: The default of a \
topic's message.timestamp.type.
log.message.timestamp.before.max.ms LONG 9223372036854775807 >=0 :: The default of a topic's \
message.timestamp.before.max.ms.
log.message.timestamp.after.max.ms LONG 3600000 >=0 :: The default of a topic's \
message.timestamp.after.max.ms.
producer.id.expiration.ms INT 86400000 >=1 :: The sequences of a producer that is silent for so \
long are forgotten.
group.consumer.assignment.interval.ms INT 1000 >=0 :: A consumer group gets a new target \
assignment no sooner than this after the last one.
group.consumer.assignors LIST uniform,range :: The server-side assignors on offer; the first is \
the default.
group.consumer.heartbeat.interval.ms INT 5000 >=1 :: How often a member of a consumer group shows \
that it lives.
group.consumer.max.size INT 2147483647 >=1 :: The most members of a consumer group.
group.consumer.migration.policy STRING bidirectional \
anycase:DISABLED,DOWNGRADE,UPGRADE,BIDIRECTIONAL :: May a group change between the classic and \
the consumer protocol while members roll?
group.consumer.regex.refresh.interval.ms INT 600000 >=10000 :: How often a pattern is matched \
against the topics again, at the most.
group.consumer.session.timeout.ms INT 45000 >=1 :: A member of a consumer group that is silent \
for so long is out.
group.coordinator.rebalance.protocols LIST classic,consumer,streams \
oneof:consumer,classic,share,streams :: The protocols that groups may use.
group.initial.rebalance.delay.ms INT 3000 :: How long a new classic group waits for more members \
before its first rebalance.
group.max.session.timeout.ms INT 1800000 :: The longest session time-out that a classic member \
may ask for.
group.max.size INT 2147483647 >=1 :: The most members of a classic group.
group.min.session.timeout.ms INT 6000 :: The shortest session time-out that a classic member may \
ask for.
offset.metadata.max.bytes INT 4096 :: The longest text that may be committed with an offset.
offsets.retention.check.interval.ms LONG 600000 >=1 :: How often expired offsets are looked for.
offsets.retention.minutes INT 10080 >=1 :: Offsets of a group without members, or of a topic that \
it left, are kept for so long.
offsets.topic.num.partitions INT 50 >=1 :: Partitions of the topic that groups live in, when it \
is made.
offsets.topic.replication.factor SHORT 3 >=1 :: Replicas of that topic; no more than there are \
brokers.
offsets.topic.segment.bytes INT 104857600 >=1 :: Segment size of that topic.
""")
