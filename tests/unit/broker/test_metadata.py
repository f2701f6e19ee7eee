"""Metadata, DescribeTopicPartitions and DescribeCluster, as a client sees them."""

from itertools import pairwise

import pytest

from sawlog.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from sawlog.protocol.messages.describe_cluster_request import DescribeClusterRequest
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


def test_response_has_brokers_and_cluster_id(machine: SimulatedMachine) -> None:
    response = ask(machine)
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (NODE, "simulated", 9092)
    assert response.controller_id == NODE
    assert len(response.cluster_id or "") == 22
    assert response.topics == []


@pytest.mark.parametrize("version", range(14))
def test_topic_is_described_in_every_version(machine: SimulatedMachine, version: int) -> None:
    (topic,) = ask(machine, "a", version=version).topics
    assert topic.name == "a"
    assert (topic.topic_id != NO_ID) is (version >= 10)
    assert [p.partition_index for p in topic.partitions] == [0, 1, 2]
    for partition in topic.partitions:
        assert (partition.error_code, partition.leader_id) == (0, NODE)
        assert partition.replica_nodes == partition.isr_nodes == [NODE]
        assert partition.leader_epoch == (0 if version >= 7 else -1)
        assert partition.offline_replicas == []


def test_null_or_in_version_0_empty_list_means_all_topics(
    machine: SimulatedMachine,
) -> None:
    assert codes(machine.ask(MetadataRequest(topics=None), 12)) == {"a": 0, "b": 0}
    assert codes(ask(machine, version=0)) == {"a": 0, "b": 0}
    assert codes(ask(machine, version=1)) == {}


def test_unknown_and_invalid_names_get_errors(machine: SimulatedMachine) -> None:
    response = ask(machine, "nope", "a", "bad name", "")
    assert codes(response) == {
        "a": 0,
        "nope": UNKNOWN_TOPIC,
        "bad name": INVALID_TOPIC,
        "": INVALID_TOPIC,
    }
    machine.schedule.run_for(1_000)
    assert "nope" not in machine.broker.metadata.image.topics


def test_topics_are_described_by_id(machine: SimulatedMachine) -> None:
    topic_id = machine.broker.metadata.image.topics["a"].id  # type: ignore[index]
    unknown = b"?" * 16
    response = ask(machine, ids=(topic_id, unknown))
    assert codes(response) == {"a": 0, None: UNKNOWN_ID}
    assert [t.topic_id for t in response.topics if t.name is None] == [unknown]


def test_names_are_ignored_in_a_request_with_an_id(machine: SimulatedMachine) -> None:
    assert codes(ask(machine, "a", ids=(b"?" * 16,))) == {None: UNKNOWN_ID}


@pytest.mark.parametrize("version", [10, 11, 12])
def test_topic_without_name_and_id_is_rejected(machine: SimulatedMachine, version: int) -> None:
    (topic,) = ask(machine, None, version=version).topics
    assert topic.error_code == INVALID_REQUEST


def test_duplicate_name_is_described_once(machine: SimulatedMachine) -> None:
    assert len(ask(machine, "a", "a").topics) == 1


def test_authorized_operations_are_returned_on_request(machine: SimulatedMachine) -> None:
    silent = ask(machine, "a", version=9)
    assert silent.cluster_authorized_operations == NOT_ASKED
    assert silent.topics[0].topic_authorized_operations == NOT_ASKED
    response = ask(
        machine,
        "a",
        version=9,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    assert response.cluster_authorized_operations == 8096
    assert response.topics[0].topic_authorized_operations == 3576


def test_metadata_request_creates_an_unknown_topic() -> None:
    machine = booted(num_partitions="4")
    assert codes(ask(machine, "new", "bad name", allow_auto_topic_creation=True)) == {
        "new": UNKNOWN_TOPIC,
        "bad name": INVALID_TOPIC,
    }
    ask(machine, "new", allow_auto_topic_creation=True)
    machine.schedule.run_for(1_000)
    (topic,) = ask(machine, "new").topics
    assert (topic.error_code, len(topic.partitions)) == (0, 4)


def test_automatic_creation_can_be_disabled() -> None:
    machine = booted(auto_create_topics_enable="false")
    ask(machine, "new", allow_auto_topic_creation=True)
    machine.schedule.run_for(1_000)
    assert codes(ask(machine, "new")) == {"new": UNKNOWN_TOPIC}


def test_cluster_metadata_topic_is_never_created() -> None:
    machine = booted()
    ask(machine, "__cluster_metadata", allow_auto_topic_creation=True)
    machine.schedule.run_for(1_000)
    assert "__cluster_metadata" not in machine.broker.metadata.image.topics


def test_broker_starts_with_topics_named_like_files_of_the_store() -> None:
    machine = booted()
    names = ("store.snapshot.foo", "store.journal.1", "store.snapshot.1.tmp")
    ask(machine, *names, allow_auto_topic_creation=True)
    machine.schedule.run_for(1_000)
    machine.stop()
    machine.boot()
    assert codes(ask(machine, *names)) == dict.fromkeys(names, 0)


def test_automatic_creation_is_limited_per_turn_and_goes_on_with_retries() -> None:
    machine = booted()
    names = [f"t{number}" for number in range(250)]
    made = [len(machine.broker.metadata.image.topics)]
    for _ in range(3):
        answer = codes(ask(machine, *names, allow_auto_topic_creation=True))
        assert set(answer.values()) <= {0, UNKNOWN_TOPIC}
        ask(machine, *names, allow_auto_topic_creation=True)  # topics in creation count
        machine.schedule.run_for(1_000)
        made.append(len(machine.broker.metadata.image.topics))
    assert [after - before for before, after in pairwise(made)] == [100, 100, 50]


def test_failed_automatic_creations_are_logged_once_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = booted(default_replication_factor="3")
    names = [f"t{number}" for number in range(50)]
    for _ in range(2):
        ask(machine, *names, allow_auto_topic_creation=True)
        ask(machine, *names, allow_auto_topic_creation=True)
        machine.schedule.run_for(1_500)
    logged = [r for r in caplog.records if r.message == "topic cannot be auto-created"]
    assert [vars(record)["fields"]["suppressed"] for record in logged] == [0, 99]


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


def test_topics_are_in_the_order_of_names(machine: SimulatedMachine) -> None:
    assert shape(describe(machine, "b", "a")) == ([("a", [0, 1, 2]), ("b", [0, 1])], None)
    assert shape(describe(machine)) == ([("a", [0, 1, 2]), ("b", [0, 1])], None)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_pages_have_all_partitions_together(machine: SimulatedMachine, limit: int) -> None:
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


def test_page_that_ends_with_a_topic_points_to_the_next(machine: SimulatedMachine) -> None:
    assert shape(describe(machine, "a", "b", limit=3)) == ([("a", [0, 1, 2])], ("b", 0))


def test_broker_limits_the_page_size() -> None:
    machine = booted(max_request_partition_size_limit="2")
    assert shape(describe(machine))[1] == ("a", 2)


def test_unknown_topics_get_errors_if_they_are_named(machine: SimulatedMachine) -> None:
    response = describe(machine, "nope", "bad name")
    assert [(t.name, t.error_code) for t in response.topics] == [
        ("bad name", INVALID_TOPIC),
        ("nope", UNKNOWN_TOPIC),
    ]


@pytest.mark.parametrize("cursor", [("zz", 0), ("a", -1)])
def test_invalid_cursor_is_rejected(machine: SimulatedMachine, cursor: tuple[str, int]) -> None:
    response = describe(machine, "a", cursor=cursor)
    assert [t.error_code for t in response.topics] == [INVALID_REQUEST]


# DescribeCluster


@pytest.mark.parametrize("version", [0, 1, 2])
def test_describe_cluster_has_brokers_and_controller(
    machine: SimulatedMachine, version: int
) -> None:
    response = machine.ask(DescribeClusterRequest(), version)
    assert response.error_code == 0
    assert [(b.broker_id, b.host, b.is_fenced) for b in response.brokers] == [
        (NODE, "simulated", False)
    ]
    assert response.controller_id == NODE
    assert response.cluster_id == machine.broker.metadata.image.cluster_id
    assert response.cluster_authorized_operations == -(1 << 31)


def test_describe_cluster_returns_authorized_operations_on_request(
    machine: SimulatedMachine,
) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert machine.ask(request).cluster_authorized_operations == 8096


@pytest.mark.parametrize(
    ("endpoint_type", "code", "text"),
    [
        (2, 114, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint"),
        (7, 115, "Unsupported endpoint type 7"),
    ],
)
def test_describe_cluster_rejects_other_endpoint_types(
    machine: SimulatedMachine, endpoint_type: int, code: int, text: str
) -> None:
    response = machine.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    assert response.error_code == code
    assert response.error_message.startswith(text)
    assert response.brokers == []
