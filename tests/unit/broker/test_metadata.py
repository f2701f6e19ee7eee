"""Metadata and DescribeTopicPartitions, as a client sees them."""

from itertools import pairwise

import pytest

from sawlog.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from sawlog.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from sawlog.protocol.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
)
from sawlog.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from sawlog.protocol.messages.metadata_response import MetadataResponse
from sawlog.simulation.simulated_broker import NODE, SimulatedMachine

UNKNOWN_TOPIC, INVALID_TOPIC, INVALID_REQUEST, UNKNOWN_ID = 3, 17, 42, 100
NO_ID = bytes(16)
NOT_ASKED = -(1 << 31)


def booted(**settings: str) -> SimulatedMachine:
    machine = SimulatedMachine(1, **settings)
    machine.boot()
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in (("a", 3), ("b", 2))
    ]
    machine.ask(CreateTopicsRequest(topics=topics, timeout_ms=1_000))
    return machine


@pytest.fixture(scope="module")
def machine() -> SimulatedMachine:
    return booted()


def ask(
    machine: SimulatedMachine,
    *names: str | None,
    version: int = 12,
    ids: tuple[bytes, ...] = (),
    **more: bool,
) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    topics += [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
    more.setdefault("allow_auto_topic_creation", version < 4)
    response: MetadataResponse = machine.ask(MetadataRequest(topics=topics, **more), version)
    return response


def codes(response: MetadataResponse) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in response.topics}


def test_brokers_and_the_cluster_are_told(machine: SimulatedMachine) -> None:
    response = ask(machine)
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (NODE, "simulated", 9092)
    assert response.controller_id == NODE
    assert len(response.cluster_id or "") == 22
    assert response.topics == []


@pytest.mark.parametrize("version", range(14))
def test_a_topic_is_described_in_every_version(machine: SimulatedMachine, version: int) -> None:
    (topic,) = ask(machine, "a", version=version).topics
    assert topic.name == "a"
    assert (topic.topic_id != NO_ID) is (version >= 10)
    assert [p.partition_index for p in topic.partitions] == [0, 1, 2]
    for partition in topic.partitions:
        assert (partition.error_code, partition.leader_id) == (0, NODE)
        assert partition.replica_nodes == partition.isr_nodes == [NODE]
        assert partition.leader_epoch == (0 if version >= 7 else -1)
        assert partition.offline_replicas == []


def test_null_means_all_topics_and_in_version_0_an_empty_list_does(
    machine: SimulatedMachine,
) -> None:
    assert codes(machine.ask(MetadataRequest(topics=None), 12)) == {"a": 0, "b": 0}
    assert codes(ask(machine, version=0)) == {"a": 0, "b": 0}
    assert codes(ask(machine, version=1)) == {}


def test_what_is_not_there_is_told(machine: SimulatedMachine) -> None:
    response = ask(machine, "nope", "a", "bad name", "")
    assert codes(response) == {
        "a": 0,
        "nope": UNKNOWN_TOPIC,
        "bad name": INVALID_TOPIC,
        "": INVALID_TOPIC,
    }
    machine.schedule.run_for(1_000)
    assert "nope" not in machine.broker.metadata.image.topics


def test_topics_are_found_by_id(machine: SimulatedMachine) -> None:
    topic_id = machine.broker.metadata.image.topics["a"].id  # type: ignore[index]
    unknown = b"?" * 16
    response = ask(machine, ids=(topic_id, unknown))
    assert codes(response) == {"a": 0, None: UNKNOWN_ID}
    assert [t.topic_id for t in response.topics if t.name is None] == [unknown]


def test_with_an_id_in_the_request_names_are_not_looked_at(machine: SimulatedMachine) -> None:
    assert codes(ask(machine, "a", ids=(b"?" * 16,))) == {None: UNKNOWN_ID}


@pytest.mark.parametrize("version", [10, 11, 12])
def test_a_topic_without_name_and_id_is_refused(machine: SimulatedMachine, version: int) -> None:
    (topic,) = ask(machine, None, version=version).topics
    assert topic.error_code == INVALID_REQUEST


def test_a_name_asked_twice_is_told_once(machine: SimulatedMachine) -> None:
    assert len(ask(machine, "a", "a").topics) == 1


def test_operations_are_told_only_when_asked_for(machine: SimulatedMachine) -> None:
    silent = ask(machine, "a", version=9)
    assert silent.cluster_authorized_operations == NOT_ASKED
    assert silent.topics[0].topic_authorized_operations == NOT_ASKED
    asked = ask(
        machine,
        "a",
        version=9,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    assert asked.cluster_authorized_operations == 8096
    assert asked.topics[0].topic_authorized_operations == 3576


def test_asking_for_a_topic_makes_it() -> None:
    machine = booted(num_partitions="4")
    assert codes(ask(machine, "new", "bad name", allow_auto_topic_creation=True)) == {
        "new": UNKNOWN_TOPIC,
        "bad name": INVALID_TOPIC,
    }
    ask(machine, "new", allow_auto_topic_creation=True)
    machine.schedule.run_for(1_000)
    (topic,) = ask(machine, "new").topics
    assert (topic.error_code, len(topic.partitions)) == (0, 4)


def test_asking_for_a_topic_does_not_make_it_where_that_is_off() -> None:
    machine = booted(auto_create_topics_enable="false")
    ask(machine, "new", allow_auto_topic_creation=True)
    machine.schedule.run_for(1_000)
    assert codes(ask(machine, "new")) == {"new": UNKNOWN_TOPIC}


def test_asking_does_not_make_the_topic_that_nobody_may_make() -> None:
    machine = booted()
    ask(machine, "__cluster_metadata", allow_auto_topic_creation=True)
    machine.schedule.run_for(1_000)
    assert "__cluster_metadata" not in machine.broker.metadata.image.topics


def test_topics_named_as_files_of_the_store_do_not_keep_the_broker_from_starting() -> None:
    machine = booted()
    names = ("store.snapshot.foo", "store.journal.1", "store.snapshot.1.tmp")
    ask(machine, *names, allow_auto_topic_creation=True)
    machine.schedule.run_for(1_000)
    machine.stop()
    machine.boot()
    assert codes(ask(machine, *names)) == dict.fromkeys(names, 0)


def test_asking_for_many_topics_makes_some_and_the_next_request_the_others() -> None:
    machine = booted()
    names = [f"t{number}" for number in range(250)]
    made = [len(machine.broker.metadata.image.topics)]
    for _ in range(3):
        answer = codes(ask(machine, *names, allow_auto_topic_creation=True))
        assert set(answer.values()) <= {0, UNKNOWN_TOPIC}
        ask(machine, *names, allow_auto_topic_creation=True)  # what is under way still counts
        machine.schedule.run_for(1_000)
        made.append(len(machine.broker.metadata.image.topics))
    assert [after - before for before, after in pairwise(made)] == [100, 100, 50]


def test_topics_that_cannot_be_made_are_logged_once_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = booted(default_replication_factor="3")
    names = [f"t{number}" for number in range(50)]
    for _ in range(2):
        ask(machine, *names, allow_auto_topic_creation=True)
        ask(machine, *names, allow_auto_topic_creation=True)
        machine.schedule.run_for(1_500)
    told = [r for r in caplog.records if r.message == "topic not made on demand"]
    assert [vars(record)["fields"]["others"] for record in told] == [0, 99]


# DescribeTopicPartitions


def describe(
    machine: SimulatedMachine,
    *names: str,
    limit: int = 2000,
    cursor: tuple[str, int] | None = None,
) -> DescribeTopicPartitionsResponse:
    response: DescribeTopicPartitionsResponse = machine.ask(
        DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=cursor and Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
    )
    return response


def shape(
    response: DescribeTopicPartitionsResponse,
) -> tuple[list[tuple[str | None, list[int]]], tuple[str, int] | None]:
    cursor = response.next_cursor
    return (
        [(t.name, [p.partition_index for p in t.partitions]) for t in response.topics],
        cursor and (cursor.topic_name, cursor.partition_index),
    )


def test_topics_come_in_the_order_of_names(machine: SimulatedMachine) -> None:
    assert shape(describe(machine, "b", "a")) == ([("a", [0, 1, 2]), ("b", [0, 1])], None)
    assert shape(describe(machine)) == ([("a", [0, 1, 2]), ("b", [0, 1])], None)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_pages_put_together_are_everything(machine: SimulatedMachine, limit: int) -> None:
    seen: list[tuple[str | None, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(10):
        topics, cursor = shape(describe(machine, limit=limit, cursor=cursor))
        page = [(name, index) for name, indexes in topics for index in indexes]
        assert len(page) <= limit
        seen += page
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


def test_a_page_that_ends_with_a_topic_points_at_the_next(machine: SimulatedMachine) -> None:
    assert shape(describe(machine, "a", "b", limit=3)) == ([("a", [0, 1, 2])], ("b", 0))


def test_the_brokers_own_limit_counts_too() -> None:
    machine = booted(max_request_partition_size_limit="2")
    assert shape(describe(machine))[1] == ("a", 2)


def test_unknown_topics_are_told_where_they_were_named(machine: SimulatedMachine) -> None:
    response = describe(machine, "nope", "bad name")
    assert [(t.name, t.error_code) for t in response.topics] == [
        ("bad name", INVALID_TOPIC),
        ("nope", UNKNOWN_TOPIC),
    ]


@pytest.mark.parametrize("cursor", [("zz", 0), ("a", -1)])
def test_a_cursor_that_cannot_be_is_refused(
    machine: SimulatedMachine, cursor: tuple[str, int]
) -> None:
    response = describe(machine, "a", cursor=cursor)
    assert [t.error_code for t in response.topics] == [INVALID_REQUEST]
