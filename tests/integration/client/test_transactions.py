"""Transactions of the client's producer, read by its consumers, on a running broker."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sawlog.client.admin.admin import Admin, NewTopic
from sawlog.client.admin.group_offsets import Committed, GroupMetadata, Identity
from sawlog.client.admin.list_offsets import LATEST, list_offsets
from sawlog.client.arrow.offset_range import read_range
from sawlog.client.consumer.consumer import AT_EARLIEST, Consumer
from sawlog.client.consumer.membership.membership_protocol import GroupSettings
from sawlog.client.consumer.membership.offset_commits import CommitFailed
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.producer.producer import Producer
from sawlog.client.producer.transaction_errors import (
    TransactionAbortable,
    TransactionError,
    TransactionFatal,
    TransactionRetriable,
)
from sawlog.client.producer.transaction_state import IllegalTransactionEvent
from sawlog.core.errors import ErrorCode
from sawlog.core.ids import TopicPartition
from support.client.transactional_topic import stable_end
from support.kafka.kafka_broker import run_tool
from support.kafka.shared_brokers import (
    EITHER_BROKER,
    QUICK_GROUPS,
    SharedBrokers,
    unique,
)

if TYPE_CHECKING:
    from sawlog.client.producer.delivery import Delivery

POLL_MS = 60_000
VERSION_1 = QUICK_GROUPS | {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}


def kafka_with_version_1(shared_brokers: SharedBrokers) -> str:
    """Apache Kafka with transaction version 1, as after an upgrade from 3.x."""
    address = shared_brokers.get("kafka", VERSION_1).bootstrap
    arguments = ("--bootstrap-server", address, "downgrade", "--feature", "transaction.version=1")
    done = run_tool("org.apache.kafka.tools.FeatureCommand", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return address


@pytest.fixture(
    scope="module",
    params=[*EITHER_BROKER, pytest.param("kafka-version-1", marks=pytest.mark.long)],
)
def bootstrap(request: pytest.FixtureRequest, shared_brokers: SharedBrokers) -> str:
    if request.param == "kafka-version-1":
        return kafka_with_version_1(shared_brokers)
    return shared_brokers.get(request.param, QUICK_GROUPS).bootstrap


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    with Cluster(bootstrap, timeout_ms=POLL_MS) as cluster:
        yield cluster


def new_topic(cluster: Cluster, partitions: int = 1) -> str:
    name = unique("txn-")
    assert Admin(cluster).create_topics([NewTopic(name, partitions=partitions)]) == {}
    return name


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return new_topic(cluster, 2)


@pytest.fixture
def producer(cluster: Cluster, topic: str) -> Iterator[Producer]:
    with Producer(cluster, transactional_id=topic) as producer:
        yield producer


def committed_values(cluster: Cluster, topic: str) -> list[bytes | None]:
    """All committed values of the topic, read as records."""
    partitions = [partition_of(topic, index) for index in cluster.topic(topic).partitions]
    ends = {partition: stable_end(cluster, partition) for partition in partitions}
    consumer = Consumer(cluster, isolation="read_committed")
    consumer.assign(dict.fromkeys(partitions, AT_EARLIEST))
    values: list[bytes | None] = []
    while consumer.positions != ends:
        values += [record.value for record in consumer.poll(500)]
    return sorted(values, key=lambda value: value or b"")


def range_values(cluster: Cluster, partition: TopicPartition, start: int, end: int) -> list[bytes]:
    return [
        value
        for chunk in read_range(cluster, partition, start, end, read_committed=True)
        for value in chunk.batch.column("value").to_pylist()
    ]


def test_committed_records_are_read_and_aborted_ones_are_not(
    cluster: Cluster, topic: str, producer: Producer
) -> None:
    for number in range(4):
        producer.begin()
        for partition in (0, 1):
            producer.send(topic, b"%d-%d" % (number, partition), partition=partition)
        if number % 2:
            producer.flush()  # an abort drops records that were not sent
            producer.abort()
        else:
            producer.commit()
    assert committed_values(cluster, topic) == [b"0-0", b"0-1", b"2-0", b"2-1"]
    everything = Consumer(cluster)
    everything.assign({partition_of(topic, 0): AT_EARLIEST})
    found: list[bytes | None] = []
    while len(found) < 4:
        found += [record.value for record in everything.poll(POLL_MS)]
    assert found == [b"0-0", b"1-0", b"2-0", b"3-0"]


def test_an_open_transaction_holds_back_records_and_the_last_stable_offset(
    cluster: Cluster, topic: str, producer: Producer
) -> None:
    where = partition_of(topic, 0)
    with Producer(cluster) as plain:
        plain.send(topic, b"before", partition=0)
    producer.begin()
    producer.send(topic, b"open", partition=0)
    producer.flush()
    with Producer(cluster) as plain:
        plain.send(topic, b"after", partition=0)
    assert list_offsets(cluster, {where: LATEST})[where].offset == 3
    assert list_offsets(cluster, {where: LATEST}, read_committed=True)[where].offset == 1
    consumer = Consumer(cluster, isolation="read_committed")
    consumer.assign({where: AT_EARLIEST})
    assert [record.value for record in consumer.poll(POLL_MS)] == [b"before"]
    assert consumer.poll(100) == []
    assert (consumer.positions[where], consumer.end(where)) == (1, 1)
    producer.commit()
    values: list[bytes | None] = []
    while len(values) < 2:
        values += [record.value for record in consumer.poll(POLL_MS)]
    assert values == [b"open", b"after"]


def test_ranges_of_markers_and_aborted_records_finish_empty(
    cluster: Cluster, topic: str, producer: Producer
) -> None:
    where = partition_of(topic, 0)
    for ends in (producer.commit, producer.abort, producer.commit):
        producer.begin()
        producer.send(topic, b"a", partition=0)
        producer.send(topic, b"b", partition=0)
        producer.flush()
        ends()
    assert stable_end(cluster, where) == 9  # two records and a marker each
    assert range_values(cluster, where, 0, 9) == [b"a", b"b"] * 2
    assert range_values(cluster, where, 2, 3) == []  # a marker
    assert range_values(cluster, where, 2, 6) == []  # a marker and an aborted transaction
    assert range_values(cluster, where, 4, 6) == []  # the end of an aborted transaction
    assert range_values(cluster, where, 1, 7) == [b"b", b"a"]
    consumer = Consumer(cluster, isolation="read_committed")
    consumer.assign({where: AT_EARLIEST})
    rows: list[bytes] = []
    while consumer.positions[where] < 9:
        rows += consumer.poll_arrow(500).column("value").to_pylist()
    assert rows == [b"a", b"b"] * 2


def test_the_context_manager_commits_or_aborts(
    cluster: Cluster, topic: str, producer: Producer
) -> None:
    with producer.transaction():
        producer.send(topic, b"kept")
    dropped: list[Delivery] = []

    def fail() -> None:
        with producer.transaction():
            dropped.append(producer.send(topic, b"dropped"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with pytest.raises(TransactionError, match="aborted before the record was sent"):
        dropped[0].result(0)
    with producer.transaction():
        pass  # nothing to commit
    with producer.transaction():
        producer.send(topic, b"kept too")
    assert committed_values(cluster, topic) == [b"kept", b"kept too"]


def test_calls_in_the_wrong_state_are_refused(topic: str, producer: Producer) -> None:
    with pytest.raises(IllegalTransactionEvent, match="call begin first"):
        producer.send(topic, b"")
    with pytest.raises(IllegalTransactionEvent, match=r"cannot commit .*; call begin first"):
        producer.commit()
    producer.begin()
    with pytest.raises(IllegalTransactionEvent, match=r"cannot begin .*; commit or abort it first"):
        producer.begin()
    producer.abort()
    with pytest.raises(IllegalTransactionEvent, match="cannot abort"):
        producer.abort()


def test_a_second_producer_with_the_id_fences_the_first_and_aborts_its_transaction(
    cluster: Cluster, topic: str, producer: Producer
) -> None:
    producer.begin()
    producer.send(topic, b"of a zombie").result()
    with Producer(cluster, transactional_id=topic) as second:
        second.init_transactions()
        with pytest.raises(TransactionFatal, match="another producer has the transactional id"):
            producer.commit()
        with pytest.raises(TransactionFatal):
            producer.begin()
        with second.transaction():
            second.send(topic, b"of the second")
    assert committed_values(cluster, topic) == [b"of the second"]


def test_a_record_that_is_refused_fails_the_transaction_which_can_be_aborted(
    cluster: Cluster, topic: str, producer: Producer
) -> None:
    producer.begin()
    producer.send(topic, b"small", partition=0).result()
    producer.send(topic, bytes(2_000_000), partition=0)
    with contextlib.suppress(TransactionAbortable):  # the refusal may have arrived
        producer.send(topic, b"after it", partition=1)
    with pytest.raises(TransactionAbortable, match="abort the transaction") as raised:
        producer.commit()
    assert raised.value.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
    with pytest.raises(TransactionAbortable):
        producer.send(topic, b"")
    producer.abort()
    for _ in range(2):
        with producer.transaction():
            producer.send(topic, b"good", partition=0)
    assert committed_values(cluster, topic) == [b"good", b"good"]


def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    cluster: Cluster, topic: str, producer: Producer
) -> None:
    where, group = partition_of(topic, 0), f"group-of-{topic}"

    def committed() -> dict[TopicPartition, Committed]:
        with Consumer(cluster, group=group, isolation="read_committed") as consumer:
            return consumer.committed([where])

    with producer.transaction():
        producer.send_offsets({where: Committed(7, -1, "first")}, group)
        producer.send(topic, b"x", partition=0)
    assert committed() == {where: Committed(7, -1, "first")}
    producer.begin()
    producer.send_offsets({where: 9}, group)
    producer.abort()
    assert committed() == {where: Committed(7, -1, "first")}


def test_a_former_member_cannot_commit_offsets(
    cluster: Cluster, topic: str, producer: Producer
) -> None:
    group = f"group-of-{topic}"
    with Consumer(cluster, group=GroupSettings(group)) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment:
            consumer.poll(100)
        stranger = GroupMetadata(group, Identity("stranger", 1))
        producer.begin()
        with pytest.raises(TransactionAbortable, match="UNKNOWN_MEMBER_ID"):
            producer.send_offsets({partition_of(topic, 0): 1}, stranger)
        producer.abort()
        with producer.transaction():
            producer.send_offsets({partition_of(topic, 0): 1}, consumer.group_metadata)


def test_a_consumer_that_has_not_joined_has_no_metadata_for_transactions(
    cluster: Cluster, topic: str
) -> None:
    with Consumer(cluster, group=f"group-of-{topic}") as consumer:
        consumer.subscribe([topic])
        with pytest.raises(CommitFailed, match="not, or no longer, a member of the group"):
            _ = consumer.group_metadata


def test_a_negative_offset_is_refused_and_leaves_the_transaction_open(
    topic: str, producer: Producer
) -> None:
    with producer.transaction():
        for offset in (-1, Committed(-1, -1, "")):
            with pytest.raises(ValueError, match=f"{topic}-0: an offset must not be negative"):
                producer.send_offsets({partition_of(topic, 0): offset}, f"group-of-{topic}")


def test_offsets_of_an_unknown_topic_are_refused_with_its_name(bootstrap: str) -> None:
    name = unique("no-such-topic-")
    with (
        Cluster(bootstrap, timeout_ms=1_000) as impatient,
        Producer(impatient, transactional_id=name) as producer,
    ):
        producer.begin()
        with pytest.raises(
            TransactionRetriable, match=f": UNKNOWN_TOPIC_OR_PARTITION: {name}-0; call the same"
        ):
            producer.send_offsets({partition_of(name, 0): 1}, name)


def test_records_are_copied_exactly_once_across_aborts(cluster: Cluster, topic: str) -> None:
    """Consume, transform, produce: every second transaction is aborted and done again."""
    copy, group = new_topic(cluster, 2), f"group-of-{topic}"
    with Producer(cluster) as plain:
        plain.send(topic, [b"%03d" % number for number in range(60)])
    attempts = 0
    while True:
        settings = {"auto_commit_ms": None, "isolation": "read_committed"}
        with (
            Consumer(cluster, group=group, **settings) as consumer,  # type: ignore[arg-type]
            Producer(cluster, transactional_id=copy) as producer,
        ):
            consumer.subscribe([topic])
            while not consumer.assignment:
                consumer.poll(0, max_records=0)
            ends = {each: stable_end(cluster, each) for each in consumer.assignment}
            while any(consumer.position(each) < end for each, end in ends.items()):
                records = consumer.poll(POLL_MS, max_records=15)
                producer.begin()
                for record in records:
                    producer.send(copy, record.value)
                producer.send_offsets(consumer.positions, consumer.group_metadata)
                attempts += 1
                if attempts % 2:
                    producer.flush()
                    producer.abort()
                    break  # a new process would begin here
                producer.commit()
            else:
                break
    assert committed_values(cluster, copy) == [b"%03d" % number for number in range(60)]
    assert attempts > 4


@pytest.mark.long
def test_a_transaction_that_times_out_is_aborted_and_its_producer_fenced(
    shared_brokers: SharedBrokers,
) -> None:
    quick = shared_brokers.get("kafka", VERSION_1).bootstrap
    with Cluster(quick, timeout_ms=POLL_MS) as cluster:
        topic = new_topic(cluster)
        with Producer(cluster, transactional_id=topic, transaction_timeout_ms=200) as producer:
            producer.begin()
            producer.send(topic, b"late").result()
            assert stable_end(cluster, partition_of(topic, 0)) == 2  # the marker of the timeout
            with pytest.raises(TransactionFatal, match="longer than its timeout"):
                producer.commit()
        assert committed_values(cluster, topic) == []


def test_a_timeout_above_the_maximum_is_refused(bootstrap: str) -> None:
    with (
        Producer(bootstrap, transactional_id="x", transaction_timeout_ms=10**9) as producer,
        pytest.raises(TransactionFatal, match="INVALID_TRANSACTION_TIMEOUT"),
    ):
        producer.begin()
