"""`sawlog transactions` and `sawlog consume --isolation` on a running broker."""

from collections.abc import Iterator

import pytest

from sawlog.client.admin.admin import Admin, NewTopic
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.producer.producer import Producer
from sawlog.client.producer.transaction_errors import TransactionFatal
from sawlog.client.producer.transaction_requests import init_transactional_id
from sawlog.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sawlog.protocol.messages.produce_response import ProduceResponse
from sawlog.protocol.records import Record, build_batch
from support.cli.command_line import Sawlog, rows
from support.kafka.shared_brokers import EITHER_BROKER, SharedBrokers, unique

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
_OLD_PRODUCE_VERSION = 11


@pytest.fixture(scope="module", params=EITHER_BROKER)
def bootstrap(request: pytest.FixtureRequest, shared_brokers: SharedBrokers) -> str:
    """A broker that lets old producers write without a transaction at the coordinator."""
    return shared_brokers.get(request.param, UNVERIFIED).bootstrap


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    with Cluster(bootstrap) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = unique("txn-")
    assert Admin(cluster).create_topics([NewTopic(name, partitions=2)]) == {}
    return name


@pytest.fixture
def producer(cluster: Cluster, topic: str) -> Iterator[Producer]:
    """A producer with an open transaction in partition 1; its id is the name of the topic."""
    with Producer(cluster, transactional_id=topic) as producer:
        producer.begin()
        producer.send(topic, b"open", partition=1).result()
        yield producer


def hang(cluster: Cluster, topic: str) -> int:
    """Write to partition 0 as a producer that never told its coordinator; returns its id."""
    name = unique("hanging-")
    admin = Admin(cluster)
    admin.transactions.fence([name])  # makes the coordinator known
    found, _ = admin.transactions.describe([name])
    coordinator = found[name].coordinator
    identity = init_transactional_id(cluster.connection(coordinator), name, 60_000)
    batch = build_batch(
        [Record(0, 1_000, None, b"lost")],
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=0,
        transactional=True,
    )
    data = [PartitionProduceData(index=0, records=batch)]
    request = ProduceRequest(
        transactional_id=name,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )
    leader = cluster.connection(cluster.leader(partition_of(topic, 0)))
    response = leader.request(request, ProduceResponse, highest_version=_OLD_PRODUCE_VERSION)
    assert response.responses[0].partition_responses[0].error_code == 0
    return identity.producer_id


@pytest.mark.usefixtures("producer")
def test_an_open_transaction_is_listed_and_described(sawlog: Sawlog, topic: str) -> None:
    listed = {row[0]: row[1] for row in rows(sawlog("transactions", "list"))[1:]}
    assert listed[topic] == "Ongoing"
    (one,) = sawlog.json("transactions", "list", "--pattern", topic, "--state", "Ongoing")
    assert one["id"] == topic
    assert sawlog.json("transactions", "list", "--pattern", topic, "--state", "Empty") == []
    assert sawlog.json("transactions", "list", "--pattern", topic, "--open-for", "600") == []
    (found,) = sawlog.json("transactions", "describe", topic)
    assert found["partitions"] == [{"topic": topic, "partition": 1}]
    assert (found["state"], found["timeout_ms"]) == ("Ongoing", 60_000)
    assert found["producer_id"] == one["producer_id"]
    assert f"{topic}:1" in sawlog("transactions", "describe", topic)


def test_an_unknown_id_is_an_error_that_names_it(sawlog: Sawlog) -> None:
    sawlog("transactions", "describe", "no-such-id", code=1)
    assert "there is no transactional id 'no-such-id'" in sawlog.stderr


def test_a_fenced_producer_cannot_commit(sawlog: Sawlog, topic: str, producer: Producer) -> None:
    sawlog("transactions", "fence", topic)
    with pytest.raises(TransactionFatal):
        producer.commit()
    found = sawlog("consume", topic, "--from", "beginning", "-n", "1")
    assert found == "open\n"
    everything = ("--from", "beginning", "-e", "--isolation", "read_committed")
    assert sawlog("consume", topic, *everything) == ""


def test_an_invalid_pattern_is_refused_with_its_text(sawlog: Sawlog) -> None:
    sawlog("transactions", "list", "--pattern", "a(", code=1)
    assert "'a(' is not a regular expression (RE2)" in sawlog.stderr


def test_an_unknown_id_is_not_fenced_and_not_created(
    sawlog: Sawlog, topic: str, producer: Producer
) -> None:
    unknown = unique("no-such-id-")
    sawlog("transactions", "fence", unknown, topic, code=1)
    assert f"{topic}: fenced" in sawlog.stderr
    assert f"there is no transactional id '{unknown}'" in sawlog.stderr
    assert sawlog.json("transactions", "list", "--pattern", unknown) == []
    with pytest.raises(TransactionFatal):
        producer.commit()


def test_hanging_transactions_are_found_and_aborted(
    sawlog: Sawlog, cluster: Cluster, topic: str, producer: Producer
) -> None:
    producer_id = hang(cluster, topic)
    find = ("transactions", "find-hanging", "--topic", topic, "--open-for", "0")
    (found,) = sawlog.json(*find)
    assert (found["partition"], found["start_offset"]) == (0, 0)
    assert found["producer_id"] == producer_id
    assert rows(sawlog(*find))[1][:4] == [
        topic, "0", "0", str(producer_id),
    ]  # fmt: skip
    abort = ("transactions", "abort", topic, "--start-offset", "0", "-p")
    sawlog(*abort, "0")
    assert sawlog.json(*find) == []
    sawlog(*abort, "0", code=1)
    assert f"{topic}-0 has no open transaction from offset 0" in sawlog.stderr
    sawlog(*abort, "1", code=1)
    assert "does not hang" in sawlog.stderr
    producer.commit()
    everything = ("--from", "beginning", "-e", "--isolation", "read_committed")
    assert sawlog("consume", topic, *everything) == "open\n"
