"""The whole client against a running broker: Sawlog, and Apache Kafka if Java is installed."""

import time
from collections.abc import Iterator

import pytest

from sawlog.client.admin.admin import Admin, NewTopic
from sawlog.client.admin.configs import (
    Change,
    ConfigSource,
    ConfigSynonym,
    Operation,
    Resource,
    ResourceType,
)
from sawlog.client.admin.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from sawlog.client.consumer.consumer import AT_EARLIEST, AT_LATEST, AtOffset, AtTime, Consumer
from sawlog.client.consumer.fetched_records import ConsumedRecord
from sawlog.client.net.cluster import Cluster
from sawlog.client.producer.producer import Producer
from sawlog.core.config_values import ConfigType
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.protocol.compression import Codec
from support.kafka.shared_brokers import EITHER_BROKER, QUICK_GROUPS, SharedBrokers, unique

POLL_MS = 10_000


@pytest.fixture(scope="module", params=EITHER_BROKER)
def bootstrap(request: pytest.FixtureRequest, shared_brokers: SharedBrokers) -> str:
    return shared_brokers.get(request.param, QUICK_GROUPS).bootstrap


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    with Cluster(bootstrap) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """A new, empty topic with three partitions."""
    name = unique("topic-")
    assert Admin(cluster).create_topics([NewTopic(name, partitions=3)]) == {}
    return name


def part(topic: str, index: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))


def read_all(consumer: Consumer, count: int) -> list[ConsumedRecord]:
    records: list[ConsumedRecord] = []
    while len(records) < count:
        polled = consumer.poll(POLL_MS)
        assert polled, f"{len(records)} of {count} records came"
        records += polled
    return records


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("acks", [1, -1])
def test_produced_records_are_consumed(
    cluster: Cluster, topic: str, codec: Codec, acks: int
) -> None:
    with Producer(cluster, codec=codec, acks=acks, batch_bytes=4_000) as producer:
        deliveries = [
            producer.send(
                topic,
                None if number % 10 == 3 else b"value %d" % number,
                b"key %d" % number if number % 2 else None,
                headers=(("number", b"%d" % number), ("nothing", None)),
                timestamp_ms=1_700_000_000_000 + number,
            )
            for number in range(500)
        ]
    consumer = Consumer(cluster)
    consumer.assign_topic(topic, AT_EARLIEST)
    found = {(r.partition, r.offset): r for r in read_all(consumer, 500)}
    for number, delivery in enumerate(deliveries):
        (_, index), offset, _ = delivery.result()
        record = found[index, offset]
        assert record.value == (None if number % 10 == 3 else b"value %d" % number)
        assert record.key == (b"key %d" % number if number % 2 else None)
        assert record.headers == (("number", b"%d" % number), ("nothing", None))
        assert record.timestamp == 1_700_000_000_000 + number


def test_records_with_acks_0_are_stored(cluster: Cluster, topic: str) -> None:
    with Producer(cluster) as producer:  # after an acknowledgement the leader is known to work
        producer.send(topic, b"0", partition=0)
    with Producer(cluster, acks=0) as producer:
        for number in range(1, 10):
            producer.send(topic, b"%d" % number, partition=0)
    consumer = Consumer(cluster)
    consumer.assign({part(topic, 0): AT_EARLIEST})
    assert [record.value for record in read_all(consumer, 10)] == [b"%d" % n for n in range(10)]


def test_consumer_starts_at_an_offset_a_time_or_an_end(cluster: Cluster, topic: str) -> None:
    with Producer(cluster) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=1, timestamp_ms=1_000 + number * 10)
    consumer = Consumer(cluster)
    starts = {AtOffset(4): 4, AtTime(1_045): 5, AtTime(1_050): 5, AT_EARLIEST: 0, AT_LATEST: 10}
    for start, offset in starts.items():
        consumer.assign({part(topic, 1): start})
        assert consumer.positions == {part(topic, 1): offset}
    with Producer(cluster) as producer:
        producer.send(topic, b"late", partition=1)
    assert [record.value for record in consumer.poll(POLL_MS)] == [b"late"]


def test_an_offset_beyond_the_end_is_out_of_range(cluster: Cluster, topic: str) -> None:
    consumer = Consumer(cluster)
    consumer.assign({part(topic, 0): AtOffset(5)})
    with pytest.raises(KafkaError, match="log starts at 0 and ends before 0") as raised:
        consumer.poll(POLL_MS)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_record_that_is_too_large_fails_and_the_next_one_does_not(
    cluster: Cluster, topic: str
) -> None:
    producer = Producer(cluster)
    with pytest.raises(KafkaError) as raised:
        producer.send(topic, bytes(2_000_000)).result()
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert producer.send(topic, b"small", partition=0).result().offset == 0


def test_topics_are_created_described_and_deleted(cluster: Cluster, topic: str) -> None:
    admin = Admin(cluster)
    (described,), refusals = admin.describe_topics([topic])
    assert list(described.partitions) == [0, 1, 2]
    assert described.has_id
    assert refusals == {}
    assert topic in [listed.name for listed in admin.list_topics()]
    again = admin.create_topics([NewTopic(topic), NewTopic("not a name")])
    assert {name: refusal.code for name, refusal in again.items()} == {
        topic: ErrorCode.TOPIC_ALREADY_EXISTS,
        "not a name": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert admin.delete_topics([topic]) == {}
    assert admin.delete_topics(["nope"])["nope"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_is_validated_without_being_created(cluster: Cluster) -> None:
    admin = Admin(cluster)
    assert admin.create_topics([NewTopic("only-checked", 2)], validate_only=True) == {}
    assert "only-checked" not in [listed.name for listed in admin.list_topics()]


def test_partitions_are_added(cluster: Cluster, topic: str) -> None:
    admin = Admin(cluster)
    assert admin.create_partitions({topic: 5}) == {}
    assert admin.create_partitions({topic: 4})[topic].code is ErrorCode.INVALID_PARTITIONS


def test_configs_are_set_described_and_reset(cluster: Cluster, topic: str) -> None:
    admin = Admin(cluster)
    resource = Resource(ResourceType.TOPIC, topic)

    def own(expected: dict[str, str]) -> dict[str, str | None]:
        """The topic's own configs; Kafka responds before its broker shows a change."""
        deadline = time.monotonic() + POLL_MS / 1_000
        while True:
            entries = admin.describe_configs([resource])[resource]
            found = {e.name: e.value for e in entries if e.source is ConfigSource.TOPIC}
            if found == expected or time.monotonic() > deadline:
                return found

    changes = [
        Change("retention.ms", Operation.SET, "777"),
        Change("cleanup.policy", Operation.APPEND, "compact"),
    ]
    assert admin.alter_configs({resource: changes}) == {}
    expected = {"retention.ms": "777", "cleanup.policy": "delete,compact"}
    assert own(expected) == expected
    wrong = admin.alter_configs({resource: [Change("retention.ms", Operation.SET, "long")]})
    assert wrong[resource].code is ErrorCode.INVALID_CONFIG
    reset = [Change(change.name, Operation.DELETE) for change in changes]
    assert admin.alter_configs({resource: reset}) == {}
    assert own({}) == {}
    (broker,) = admin.describe_cluster().nodes
    names = ["log.retention.hours"]
    of_broker = Resource(ResourceType.BROKER, str(broker.id))
    (entry,) = admin.describe_configs([of_broker], names=names, synonyms=True)[of_broker]
    assert (entry.value, entry.type, entry.is_default) == ("168", ConfigType.INT, True)
    assert entry.synonyms == (ConfigSynonym(entry.name, "168", ConfigSource.DEFAULT),)


def wait_for_config(
    admin: Admin, resource: Resource, name: str, value: str, source: ConfigSource
) -> None:
    """Kafka responds before its broker shows a change."""
    deadline = time.monotonic() + POLL_MS / 1_000
    while True:
        (entry,) = admin.describe_configs([resource], names=[name])[resource]
        if (entry.value, entry.source) == (value, source):
            return
        assert time.monotonic() < deadline, entry


def test_configs_of_brokers_groups_and_loggers_are_changed_and_listed(cluster: Cluster) -> None:
    admin = Admin(cluster)
    (node,) = admin.describe_cluster().nodes
    broker, everyone = (Resource(ResourceType.BROKER, name) for name in (str(node.id), ""))
    loggers = Resource(ResourceType.BROKER_LOGGER, str(node.id))
    group = Resource(ResourceType.GROUP, unique("group-"))
    name, timeout = "log.index.interval.bytes", "consumer.session.timeout.ms"
    for resource, value in ((everyone, "4097"), (broker, "4098")):
        assert admin.alter_configs({resource: [Change(name, Operation.SET, value)]}) == {}
    wait_for_config(admin, broker, name, "4098", ConfigSource.BROKER)
    for resource in (broker, everyone):
        assert admin.alter_configs({resource: [Change(name, Operation.DELETE)]}) == {}
    wait_for_config(admin, broker, name, "4096", ConfigSource.DEFAULT)
    read_only = {broker: [Change("node.id", Operation.SET, "5")]}
    assert admin.alter_configs(read_only)[broker].code is ErrorCode.INVALID_REQUEST
    assert admin.alter_configs({group: [Change(timeout, Operation.SET, "50000")]}) == {}
    wait_for_config(admin, group, timeout, "50000", ConfigSource.GROUP)
    assert group in admin.list_config_resources([ResourceType.GROUP])
    assert admin.alter_configs({group: [Change(timeout, Operation.DELETE)]}) == {}
    listed = admin.list_config_resources()
    assert broker in listed
    assert loggers in listed
    assert everyone not in listed
    (root,) = admin.describe_configs([loggers], names=["root"])[loggers]
    assert admin.alter_configs({loggers: [Change("root", Operation.SET, "ERROR")]}) == {}
    wait_for_config(admin, loggers, "root", "ERROR", ConfigSource.BROKER_LOGGER)
    assert admin.alter_configs({loggers: [Change("root", Operation.SET, root.value)]}) == {}
    missing = {loggers: [Change("no.such", Operation.SET, "ERROR")]}
    assert admin.alter_configs(missing)[loggers].code is ErrorCode.INVALID_CONFIG


def test_offsets_are_listed_and_records_deleted(cluster: Cluster, topic: str) -> None:
    with Producer(cluster) as producer:
        for timestamp_ms in (100, 300, 200):
            producer.send(topic, b"", partition=2, timestamp_ms=timestamp_ms)
    admin = Admin(cluster)
    where = part(topic, 2)
    assert admin.list_offsets({where: LATEST})[where].offset == 3
    assert admin.list_offsets({where: EARLIEST})[where].offset == 0
    found = admin.list_offsets({where: MAX_TIMESTAMP})[where]
    assert (found.offset, found.timestamp) == (1, 300)
    assert admin.delete_records({where: 2}) == {where: 2}
    assert admin.list_offsets({where: EARLIEST})[where].offset == 2
    with pytest.raises(KafkaError) as raised:
        admin.delete_records({where: 9})
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_cluster_is_described(cluster: Cluster, bootstrap: str) -> None:
    described = Admin(cluster).describe_cluster()
    assert described.cluster_id
    assert [str(node.address) for node in described.nodes] == [bootstrap]


def wait_for_logs(admin: Admin, topic: str) -> None:
    """Kafka's metadata have a leader before that has created its log."""
    admin.list_offsets({part(topic, index): LATEST for index in range(3)})


def test_log_directories_have_the_size_of_each_replica(cluster: Cluster, topic: str) -> None:
    with Producer(cluster) as producer:
        producer.send(topic, b"x" * 1_000, partition=1)
    admin = Admin(cluster)
    wait_for_logs(admin, topic)
    (log_dirs,) = admin.describe_log_dirs().values()
    (log_dir,) = log_dirs
    assert log_dir.error is None
    assert log_dir.total_bytes is not None
    assert log_dir.usable_bytes is not None
    assert 0 < log_dir.usable_bytes <= log_dir.total_bytes
    own = [replica for replica in log_dir.replicas if replica.topic == topic]
    assert [(replica.partition, replica.size_bytes > 1_000) for replica in own] == [
        (0, False),
        (1, True),
        (2, False),
    ]
    assert {replica.offset_lag for replica in own} == {0}


def test_log_directories_are_described_for_some_partitions(cluster: Cluster, topic: str) -> None:
    wanted = [part(topic, 2), part(topic, 0), part(topic, 0), part(topic, 9), part("nope", 0)]
    admin = Admin(cluster)
    wait_for_logs(admin, topic)
    ((log_dir,),) = admin.describe_log_dirs(wanted).values()
    assert [(replica.topic, replica.partition) for replica in log_dir.replicas] == [
        (topic, 0),
        (topic, 2),
    ]
    ((without,),) = admin.describe_log_dirs([]).values()
    assert without.path == log_dir.path
    assert without.replicas == []
