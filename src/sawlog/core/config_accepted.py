"""Broker settings of Apache Kafka 4.3 that are accepted without effect, so that its files work.

Each is checked for its type and limits. A setting that gets an effect moves to `config_broker.py`.
"""

from sawlog.core.config_values import read_table

ACCEPTED_SETTINGS = read_table("""
alter.config.policy.class.name CLASS -
alter.log.dirs.replication.quota.window.num INT 11 >=1
alter.log.dirs.replication.quota.window.size.seconds INT 1 >=1
authorizer.class.name STRING ""
background.threads INT 10 >=1
broker.heartbeat.interval.ms INT 2000
broker.session.timeout.ms INT 9000
client.quota.callback.class CLASS -
config.providers LIST ""
connection.failed.authentication.delay.ms INT 100 >=0
connections.max.reauth.ms LONG 0
controller.listener.names LIST -
controller.performance.always.log.threshold.ms LONG 2000 >=0
controller.performance.sample.period.ms LONG 60000 >=100
controller.quorum.append.linger.ms INT 25 >=0
controller.quorum.auto.join.enable BOOLEAN false
controller.quorum.bootstrap.servers LIST ""
controller.quorum.election.backoff.max.ms INT 1000 >=0
controller.quorum.election.timeout.ms INT 1000 >=0
controller.quorum.fetch.max.bytes INT 1048576 >=1
controller.quorum.fetch.snapshot.max.bytes INT 1048576 >=1
controller.quorum.fetch.timeout.ms INT 2000 >=0
controller.quorum.request.timeout.ms INT 2000 >=0
controller.quorum.retry.backoff.ms INT 20 >=0
controller.quorum.voters LIST ""
controller.quota.window.num INT 11 >=1
controller.quota.window.size.seconds INT 1 >=1
controller.socket.timeout.ms INT 30000
cordoned.log.dirs LIST ""
create.topic.policy.class.name CLASS -
delegation.token.expiry.check.interval.ms LONG 3600000 >=1
delegation.token.expiry.time.ms LONG 86400000 >=1
delegation.token.max.lifetime.ms LONG 604800000 >=1
delegation.token.secret.key PASSWORD -
delete.records.purgatory.purge.interval.requests INT 1
early.start.listeners LIST -
fetch.purgatory.purge.interval.requests INT 1000
follower.fetch.last.tiered.offset.enable BOOLEAN false
group.coordinator.append.linger.ms INT -1 >=-1
group.coordinator.background.threads INT 2 >=1
group.coordinator.cached.buffer.max.bytes INT 1048588 >=524288
group.coordinator.threads INT 4 >=1
group.share.assignment.interval.ms INT 1000 >=0
group.share.assignors LIST simple
group.share.delivery.count.limit INT 5 2..10
group.share.heartbeat.interval.ms INT 5000 >=1
group.share.initialize.retry.interval.ms INT 30000 >=1
group.share.max.assignment.interval.ms INT 15000 >=0
group.share.max.delivery.count.limit INT 10 5..25
group.share.max.heartbeat.interval.ms INT 15000 >=1
group.share.max.partition.max.record.locks INT 4000 2000..10000
group.share.max.record.lock.duration.ms INT 60000 30000..3600000
group.share.max.session.timeout.ms INT 60000 >=1
group.share.max.share.sessions INT 2000 >=1
group.share.max.size INT 200 1..1000
group.share.min.assignment.interval.ms INT 0 >=0
group.share.min.delivery.count.limit INT 2 2..5
group.share.min.heartbeat.interval.ms INT 5000 >=1
group.share.min.partition.max.record.locks INT 100 100..2000
group.share.min.record.lock.duration.ms INT 15000 1000..30000
group.share.min.session.timeout.ms INT 45000 >=1
group.share.partition.max.record.locks INT 2000 100..10000
group.share.persister.class.name STRING org.apache.kafka.server.share.persister.DefaultStatePersister
group.share.record.lock.duration.ms INT 30000 1000..3600000
group.share.session.timeout.ms INT 45000 >=1
group.streams.assignment.interval.ms INT 1000 >=0
group.streams.heartbeat.interval.ms INT 5000 >=1
group.streams.initial.rebalance.delay.ms INT 3000 >=0
group.streams.max.assignment.interval.ms INT 15000 >=0
group.streams.max.heartbeat.interval.ms INT 15000 >=1
group.streams.max.session.timeout.ms INT 60000 >=1
group.streams.max.size INT 2147483647 >=1
group.streams.max.standby.replicas INT 2 >=0
group.streams.min.assignment.interval.ms INT 0 >=0
group.streams.min.heartbeat.interval.ms INT 5000 >=1
group.streams.min.session.timeout.ms INT 45000 >=1
group.streams.num.standby.replicas INT 0 >=0
group.streams.session.timeout.ms INT 45000 >=1
initial.broker.registration.timeout.ms INT 60000
inter.broker.listener.name STRING -
internal.metadata.delete.delay.millis LONG 60000
internal.metadata.log.segment.bytes INT -
internal.metadata.max.batch.size.in.bytes INT 8388608
kafka.metrics.polling.interval.secs INT 10 >=1
kafka.metrics.reporters LIST ""
listener.security.protocol.map STRING SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
log.dir LIST /tmp/kafka-logs
log.dir.failure.timeout.ms LONG 30000 >=1
log.dirs LIST -
log.flush.offset.checkpoint.interval.ms INT 60000 >=0
log.flush.start.offset.checkpoint.interval.ms INT 60000 >=0
log.initial.task.delay.ms LONG 30000 >=0
log.local.retention.bytes LONG -2 >=-2
log.local.retention.ms LONG -2 >=-2
log.preallocate BOOLEAN false
max.connection.creation.rate INT 2147483647 >=0
max.connections.per.ip.overrides STRING ""
metadata.log.dir STRING -
metadata.log.max.record.bytes.between.snapshots LONG 20971520 >=1
metadata.log.max.snapshot.interval.ms LONG 3600000 >=0
metadata.log.segment.bytes INT 1073741824 >=8388608
metadata.log.segment.ms LONG 604800000
metadata.max.idle.interval.ms INT 500 >=0
metadata.max.retention.bytes LONG 104857600
metadata.max.retention.ms LONG 604800000
metric.reporters LIST org.apache.kafka.common.metrics.JmxReporter
metrics.num.samples INT 2 >=1
metrics.recording.level STRING INFO
metrics.sample.window.ms LONG 30000 >=1
num.io.threads INT 8 >=1
num.network.threads INT 3 >=1
num.recovery.threads.per.data.dir INT 2 >=1
num.replica.alter.log.dirs.threads INT -
num.replica.fetchers INT 1 >=1
offsets.commit.timeout.ms INT 5000 >=1
offsets.load.buffer.size INT 5242880 >=1
offsets.topic.compression.codec INT 0
principal.builder.class CLASS org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
process.roles LIST - oneof:broker,controller
producer.id.expiration.check.interval.ms INT 600000 >=1
producer.purgatory.purge.interval.requests INT 1000
queued.max.requests INT 500 >=1
quota.window.num INT 11 >=1
quota.window.size.seconds INT 1 >=1
remote.fetch.max.wait.ms INT 500 >=1
remote.list.offsets.request.timeout.ms LONG 30000 >=1
remote.log.index.file.cache.total.size.bytes LONG 1073741824 >=1
remote.log.index.file.cache.ttl.ms LONG 900000 >=-1
remote.log.manager.copier.thread.pool.size INT 10 >=1
remote.log.manager.copy.max.bytes.per.second LONG 9223372036854775807 >=1
remote.log.manager.copy.quota.window.num INT 11 >=1
remote.log.manager.copy.quota.window.size.seconds INT 1 >=1
remote.log.manager.expiration.thread.pool.size INT 10 >=1
remote.log.manager.fetch.max.bytes.per.second LONG 9223372036854775807 >=1
remote.log.manager.fetch.quota.window.num INT 11 >=1
remote.log.manager.fetch.quota.window.size.seconds INT 1 >=1
remote.log.manager.follower.thread.pool.size INT 2 >=1
remote.log.manager.task.interval.ms LONG 30000 >=1
remote.log.manager.task.retry.backoff.max.ms LONG 30000 >=1
remote.log.manager.task.retry.backoff.ms LONG 500 >=1
remote.log.manager.task.retry.jitter DOUBLE 0.2 0..0.5
remote.log.manager.thread.pool.size INT 2 >=1
remote.log.metadata.custom.metadata.max.bytes INT 128 >=0
remote.log.metadata.manager.class.name STRING org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager nonempty
remote.log.metadata.manager.class.path STRING -
remote.log.metadata.manager.impl.prefix STRING rlmm.config. nonempty
remote.log.metadata.manager.listener.name STRING - nonempty
remote.log.reader.max.pending.tasks INT 100 >=1
remote.log.reader.threads INT 10 >=1
remote.log.storage.manager.class.name STRING - nonempty
remote.log.storage.manager.class.path STRING -
remote.log.storage.manager.impl.prefix STRING rsm.config. nonempty
remote.log.storage.system.enable BOOLEAN false
replica.socket.receive.buffer.bytes INT 65536
sasl.client.callback.handler.class CLASS -
sasl.enabled.mechanisms LIST GSSAPI
sasl.jaas.config PASSWORD -
sasl.kerberos.kinit.cmd STRING /usr/bin/kinit
sasl.kerberos.min.time.before.relogin LONG 60000
sasl.kerberos.principal.to.local.rules LIST DEFAULT
sasl.kerberos.service.name STRING -
sasl.kerberos.ticket.renew.jitter DOUBLE 0.05
sasl.kerberos.ticket.renew.window.factor DOUBLE 0.8
sasl.login.callback.handler.class CLASS -
sasl.login.class CLASS -
sasl.login.connect.timeout.ms INT -
sasl.login.read.timeout.ms INT -
sasl.login.refresh.buffer.seconds SHORT 300
sasl.login.refresh.min.period.seconds SHORT 60
sasl.login.refresh.window.factor DOUBLE 0.8
sasl.login.refresh.window.jitter DOUBLE 0.05
sasl.login.retry.backoff.max.ms LONG 10000
sasl.login.retry.backoff.ms LONG 100
sasl.mechanism.controller.protocol STRING GSSAPI
sasl.mechanism.inter.broker.protocol STRING GSSAPI
sasl.oauthbearer.assertion.algorithm STRING RS256 anycase:ES256,RS256
sasl.oauthbearer.assertion.claim.aud STRING -
sasl.oauthbearer.assertion.claim.exp.seconds INT 300 0..86400
sasl.oauthbearer.assertion.claim.iss STRING -
sasl.oauthbearer.assertion.claim.jti.include BOOLEAN false
sasl.oauthbearer.assertion.claim.nbf.seconds INT 60 0..3600
sasl.oauthbearer.assertion.claim.sub STRING -
sasl.oauthbearer.assertion.file STRING -
sasl.oauthbearer.assertion.private.key.file STRING -
sasl.oauthbearer.assertion.private.key.passphrase PASSWORD -
sasl.oauthbearer.assertion.template.file STRING -
sasl.oauthbearer.client.credentials.client.id STRING -
sasl.oauthbearer.client.credentials.client.secret PASSWORD -
sasl.oauthbearer.clock.skew.seconds INT 30
sasl.oauthbearer.expected.audience LIST ""
sasl.oauthbearer.expected.issuer STRING -
sasl.oauthbearer.jwks.endpoint.refresh.ms LONG 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG 100
sasl.oauthbearer.jwks.endpoint.url STRING -
sasl.oauthbearer.jwt.retriever.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope STRING -
sasl.oauthbearer.scope.claim.name STRING scope
sasl.oauthbearer.sub.claim.name STRING sub
sasl.oauthbearer.token.endpoint.url STRING -
sasl.server.callback.handler.class CLASS -
sasl.server.max.receive.size INT 524288
security.inter.broker.protocol STRING PLAINTEXT oneof:PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL
security.providers STRING -
server.max.startup.time.ms LONG 9223372036854775807 >=0
share.coordinator.append.linger.ms INT -1 >=-1
share.coordinator.cached.buffer.max.bytes INT 1048588 >=524288
share.coordinator.cold.partition.snapshot.interval.ms INT 300000 >=1
share.coordinator.load.buffer.size INT 5242880 >=1
share.coordinator.snapshot.update.records.per.snapshot INT 500 0..500
share.coordinator.state.topic.compression.codec INT 0
share.coordinator.state.topic.min.isr SHORT 2 >=1
share.coordinator.state.topic.num.partitions INT 50 >=1
share.coordinator.state.topic.prune.interval.ms INT 300000 >=1
share.coordinator.state.topic.replication.factor SHORT 3 >=1
share.coordinator.state.topic.segment.bytes INT 104857600 >=1
share.coordinator.threads INT 1 >=1
share.coordinator.write.timeout.ms INT 5000 >=1
share.fetch.purgatory.purge.interval.requests INT 1000
socket.connection.setup.timeout.max.ms LONG 30000
socket.connection.setup.timeout.ms LONG 10000
ssl.allow.dn.changes BOOLEAN false
ssl.allow.san.changes BOOLEAN false
ssl.cipher.suites LIST ""
ssl.client.auth STRING none oneof:required,requested,none
ssl.enabled.protocols LIST TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm STRING https
ssl.engine.factory.class CLASS -
ssl.key.password PASSWORD -
ssl.keymanager.algorithm STRING SunX509
ssl.keystore.certificate.chain PASSWORD -
ssl.keystore.key PASSWORD -
ssl.keystore.location STRING -
ssl.keystore.password PASSWORD -
ssl.keystore.type STRING JKS
ssl.principal.mapping.rules STRING DEFAULT
ssl.protocol STRING TLSv1.3
ssl.provider STRING -
ssl.secure.random.implementation STRING -
ssl.trustmanager.algorithm STRING PKIX
ssl.truststore.certificates PASSWORD -
ssl.truststore.location STRING -
ssl.truststore.password PASSWORD -
ssl.truststore.type STRING JKS
telemetry.max.bytes INT 1048576 >=1
transaction.state.log.load.buffer.size INT 5242880 >=1
unclean.leader.election.interval.ms LONG 300000 >=1
unstable.api.versions.enable BOOLEAN false
unstable.feature.versions.enable BOOLEAN false
""")  # noqa: E501
