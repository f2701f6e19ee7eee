"""The names of the broker settings that Apache Kafka 4.3 can change while it runs (KIP-226)."""

from sawlog.core.config_throttle import THROTTLED_RATES
from sawlog.core.config_values import read_table


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LISTENER_SETTINGS = _names("""
listener.security.protocol.map
listeners
principal.builder.class
sasl.enabled.mechanisms
sasl.jaas.config
sasl.kerberos.kinit.cmd
sasl.kerberos.min.time.before.relogin
sasl.kerberos.principal.to.local.rules
sasl.kerberos.service.name
sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor
sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds
sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter
sasl.mechanism.inter.broker.protocol
ssl.cipher.suites
ssl.client.auth
ssl.enabled.protocols
ssl.endpoint.identification.algorithm
ssl.engine.factory.class
ssl.keymanager.algorithm
ssl.protocol
ssl.provider
ssl.secure.random.implementation
ssl.trustmanager.algorithm
""")
"""Of one broker: brokers have different listeners."""

LISTENER_PREFIX_SETTINGS = _names("""
ssl.key.password
ssl.keystore.certificate.chain
ssl.keystore.key
ssl.keystore.location
ssl.keystore.password
ssl.keystore.type
ssl.truststore.certificates
ssl.truststore.location
ssl.truststore.password
ssl.truststore.type
""")
"""Dynamic only with the prefix `listener.name.<listener>.`."""

LISTENER_OR_CLUSTER_SETTINGS = _names("""
max.connection.creation.rate
max.connections
num.network.threads
""")
"""May have the prefix of a listener in the settings of all brokers."""

THREAD_COUNTS = _names("""
background.threads
log.cleaner.threads
num.io.threads
num.network.threads
num.recovery.threads.per.data.dir
num.replica.fetchers
""")
"""A change may at most halve or double them, and leaves at least one."""

PER_BROKER_SETTINGS = LISTENER_SETTINGS | LISTENER_PREFIX_SETTINGS | {"cordoned.log.dirs"}
"""Cannot be set for all brokers."""

CLUSTER_SETTINGS = THREAD_COUNTS | _names("""
compression.gzip.level
compression.lz4.level
compression.type
compression.zstd.level
config.providers
follower.fetch.last.tiered.offset.enable
group.consumer.assignment.interval.ms
group.coordinator.cached.buffer.max.bytes
group.share.assignment.interval.ms
group.streams.assignment.interval.ms
log.cleaner.backoff.ms
log.cleaner.dedupe.buffer.size
log.cleaner.delete.retention.ms
log.cleaner.io.buffer.load.factor
log.cleaner.io.buffer.size
log.cleaner.io.max.bytes.per.second
log.cleaner.max.compaction.lag.ms
log.cleaner.min.cleanable.ratio
log.cleaner.min.compaction.lag.ms
log.cleanup.policy
log.flush.interval.messages
log.flush.interval.ms
log.index.interval.bytes
log.index.size.max.bytes
log.local.retention.bytes
log.local.retention.ms
log.message.timestamp.after.max.ms
log.message.timestamp.before.max.ms
log.message.timestamp.type
log.preallocate
log.retention.bytes
log.retention.ms
log.roll.jitter.ms
log.roll.ms
log.segment.bytes
log.segment.delete.delay.ms
max.connection.creation.rate
max.connections
max.connections.per.ip
max.connections.per.ip.overrides
message.max.bytes
metric.reporters
min.insync.replicas
producer.id.expiration.ms
remote.fetch.max.wait.ms
remote.list.offsets.request.timeout.ms
remote.log.index.file.cache.total.size.bytes
remote.log.manager.copier.thread.pool.size
remote.log.manager.copy.max.bytes.per.second
remote.log.manager.expiration.thread.pool.size
remote.log.manager.fetch.max.bytes.per.second
remote.log.manager.follower.thread.pool.size
remote.log.reader.threads
share.coordinator.cached.buffer.max.bytes
transaction.partition.verification.enable
unclean.leader.election.enable
""")
DYNAMIC_SETTINGS = PER_BROKER_SETTINGS | CLUSTER_SETTINGS

QUOTA_SETTINGS = read_table("""
leader.replication.throttled.rate LONG 9223372036854775807 >=0
follower.replication.throttled.rate LONG 9223372036854775807 >=0
replica.alter.log.dirs.io.max.bytes.per.second LONG 9223372036854775807 >=0
""")
"""Settings that are dynamic only: a properties file cannot have them."""

EFFECTIVE_QUOTA_SETTINGS = frozenset(THROTTLED_RATES)
"""Those of them that have an effect: a broker has one log directory, so no replica moves there."""
