"""CreateTopics, DeleteTopics and CreatePartitions, as a client sees them."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from sawlog.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from sawlog.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sawlog.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from sawlog.simulation.simulated_broker import NODE, SimulatedMachine
from support.broker.requests import NAMED, TOPIC, answers, batch_of, machine_with_topic, produce

NO_ID = bytes(16)
Answers = dict[str | None, tuple[int, str | None]]


@pytest.fixture
def machine() -> SimulatedMachine:
    return booted()


def booted(**settings: str) -> SimulatedMachine:
    machine = SimulatedMachine(1, **settings)
    machine.boot()
    return machine


def new(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    *,
    on: Sequence[tuple[int, Sequence[int]]] = (),
    configs: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=-1 if on else partitions,
        replication_factor=-1 if on else factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(nodes))
            for index, nodes in on
        ],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )


def create(machine: SimulatedMachine, *topics: CreatableTopic, **more: Any) -> Answers:
    version = more.pop("version", 7)
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=1_000, **more)
    response = machine.ask(request, version)
    return {t.name: (t.error_code, t.error_message) for t in response.topics}


def names(machine: SimulatedMachine) -> list[str]:
    return sorted(machine.broker.metadata.image.topics)


# CreateTopics


@pytest.mark.parametrize("version", range(2, 8))
def test_created_topic_has_its_replicas_when_the_response_is_sent(
    machine: SimulatedMachine, version: int
) -> None:
    assert create(machine, new("t", 3), version=version) == {"t": (0, None)}
    assert sorted(machine.broker.replicas.by_partition) == [("t", 0), ("t", 1), ("t", 2)]


def test_response_describes_the_created_topic(machine: SimulatedMachine) -> None:
    request = CreateTopicsRequest(
        topics=[new("t", 3, configs={"retention.ms": "5000"})], timeout_ms=1_000
    )
    (topic,) = machine.ask(request).topics
    assert topic.topic_id == machine.broker.metadata.image.topics["t"].id  # type: ignore[index]
    assert (topic.num_partitions, topic.replication_factor) == (3, 1)
    configs = {c.name: (c.value, c.config_source) for c in topic.configs}
    assert configs["retention.ms"] == ("5000", 1)
    assert configs["cleanup.policy"] == ("delete", 5)
    assert "internal.segment.bytes" not in configs
    assert [c.name for c in topic.configs] == sorted(configs)


def test_minus_one_means_the_defaults_of_the_broker() -> None:
    machine = booted(num_partitions="4")
    create(machine, new("t", -1, -1))
    assert len(machine.broker.metadata.image.topics["t"].partitions) == 4  # type: ignore[index]


def test_each_creation_succeeds_or_fails_on_its_own(machine: SimulatedMachine) -> None:
    create(machine, new("old"), new("dot.ted"))
    answers = create(
        machine,
        new("good"),
        new("old"),
        new("dot_ted"),
        new("twice"),
        new("twice"),
        new("bad name"),
        new("__cluster_metadata"),
        new("many", 1, 3),
        new("none", 1, 0),
        new("zero", 0),
    )
    assert {name: code for name, (code, _) in answers.items()} == {
        "good": 0,
        "old": 36,
        "dot_ted": 17,
        "twice": 42,
        "bad name": 17,
        "__cluster_metadata": 42,
        "many": 38,
        "none": 38,
        "zero": 37,
    }
    assert answers["old"][1] == "Topic 'old' already exists."
    assert answers["dot_ted"][1] == "Topic 'dot_ted' collides with existing topic: dot.ted"
    assert answers["twice"][1] == "Duplicate topic name."
    assert names(machine) == ["dot.ted", "good", "old"]


@pytest.mark.parametrize(
    ("configs", "text"),
    [
        ({"foo": "1"}, "Unknown topic config name: foo"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        ({"segment.bytes": "1"}, "Invalid value 1 for configuration segment.bytes: Value must be"),
    ],
)
def test_invalid_configs_are_rejected(
    machine: SimulatedMachine, configs: dict[str, str | None], text: str
) -> None:
    code, message = create(machine, new("t", configs=configs))["t"]
    assert code == 40
    assert (message or "").startswith(text)
    assert names(machine) == []


def test_manual_assignment_is_used(machine: SimulatedMachine) -> None:
    assert create(machine, new("t", on=[(1, [NODE]), (0, [NODE])])) == {"t": (0, None)}
    assert len(machine.broker.metadata.image.topics["t"].partitions) == 2  # type: ignore[index]


@pytest.mark.parametrize(
    ("on", "text"),
    [
        ([(0, [])], "The manual partition assignment includes an empty replica list."),
        ([(0, [99])], "The manual partition assignment includes broker 99, but no such broker"),
        ([(0, [1, 1])], "The manual partition assignment includes the broker 1 more than once."),
        ([(0, [1]), (0, [1])], "Found multiple manual partition assignments for partition 0"),
        ([(1, [1])], "partitions should be a consecutive 0-based integer sequence"),
    ],
)
def test_invalid_assignments_are_rejected(
    machine: SimulatedMachine, on: list[tuple[int, list[int]]], text: str
) -> None:
    code, message = create(machine, new("t", on=on))["t"]
    assert code == 39
    assert (message or "").startswith(text)


def test_manual_assignment_excludes_counts(machine: SimulatedMachine) -> None:
    both = new("t", on=[(0, [NODE])])
    both.num_partitions = 1
    assert create(machine, both)["t"] == (
        42,
        "A manual partition assignment was specified, but numPartitions was not set to -1.",
    )


def test_validate_only_creates_nothing(machine: SimulatedMachine) -> None:
    answers = create(machine, new("good", 2), new("bad", 1, 3), validate_only=True)
    assert [answers["good"][0], answers["bad"][0]] == [0, 38]
    machine.schedule.run_for(1_000)
    assert names(machine) == []


def test_too_many_partitions_reject_the_whole_request(machine: SimulatedMachine) -> None:
    text = "Excessively large number of partitions per request."
    assert create(machine, new("big", 10_001), new("small")) == {
        "big": (44, text),
        "small": (44, text),
    }


def test_negative_partition_count_does_not_reduce_the_sum(machine: SimulatedMachine) -> None:
    answers = create(machine, new("big", 6_000), new("more", 6_000), new("trick", -5_000))
    assert {code for code, _ in answers.values()} == {44}


def test_creation_that_takes_too_long_times_out(machine: SimulatedMachine) -> None:
    request = CreateTopicsRequest(topics=[new("t")], timeout_ms=0)
    (topic,) = machine.ask(request).topics
    assert topic.error_code in (0, 7)
    machine.schedule.run_for(1_000)
    assert names(machine) == ["t"]


def test_topics_survive_a_kill(machine: SimulatedMachine) -> None:
    create(machine, new("t", 2, configs={"retention.ms": "5"}))
    machine.kill()
    machine.boot()
    topic = machine.broker.metadata.image.topics["t"]  # type: ignore[index]
    assert topic.configs == {"retention.ms": "5"}
    assert [p.leader_epoch for p in topic.partitions] == [1, 1]


# DeleteTopics


def delete(
    machine: SimulatedMachine,
    *names: str,
    states: Sequence[tuple[str | None, bytes]] = (),
    version: int = 6,
) -> list[tuple[str | None, int, str | None]]:
    if version >= 6:
        states = [*((name, NO_ID) for name in names), *states]
        names = ()
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in states],
        topic_names=list(names),
        timeout_ms=1_000,
    )
    responses = machine.ask(request, version).responses
    return [(r.name, r.error_code, r.error_message) for r in responses]


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_name(machine: SimulatedMachine, version: int) -> None:
    create(machine, new("a", 3), new("b"))
    assert delete(machine, "a", version=version) == [("a", 0, None)]
    assert names(machine) == ["b"]
    assert sorted(machine.broker.replicas.by_partition) == [("b", 0)]


def test_topics_are_deleted_by_id(machine: SimulatedMachine) -> None:
    create(machine, new("a"))
    topic_id = machine.broker.metadata.image.topics["a"].id  # type: ignore[index]
    assert delete(machine, states=[(None, topic_id)]) == [("a", 0, None)]
    assert names(machine) == []


def test_each_deletion_succeeds_or_fails_on_its_own(machine: SimulatedMachine) -> None:
    create(machine, new("a"), new("b"), new("c"))
    c = machine.broker.metadata.image.topics["c"].id  # type: ignore[index]
    answers = delete(
        machine,
        "a",
        "nope",
        "b",
        "b",
        "c",
        states=[(None, b"?" * 16), (None, NO_ID), ("x", b"!" * 16), (None, c)],
    )
    assert sorted(answers, key=str) == sorted(
        [
            ("a", 0, None),
            ("nope", 3, "This server does not host this topic-partition."),
            ("b", 42, "Duplicate topic name."),
            ("c", 42, "The provided topic name maps to an ID that was already supplied."),
            (None, 100, "This server does not host this topic ID."),
            (None, 42, "Neither topic name nor id were specified."),
            ("x", 42, "You may not specify both topic name and topic id."),
        ],
        key=str,
    )
    assert names(machine) == ["b", "c"]


@pytest.mark.parametrize(("version", "code"), [(2, 42), (3, 73), (6, 73)])
def test_deletion_can_be_disabled(version: int, code: int) -> None:
    machine = booted(delete_topic_enable="false")
    create(machine, new("a"))
    assert [answer[:2] for answer in delete(machine, "a", version=version)] == [("a", code)]
    assert names(machine) == ["a"]


def test_deleted_topic_can_be_created_again_at_once(machine: SimulatedMachine) -> None:
    for _ in range(3):
        assert create(machine, new("t", 2)) == {"t": (0, None)}
        assert delete(machine, "t") == [("t", 0, None)]
    assert machine.broker.replicas.by_partition == {}


# CreatePartitions


def grow(
    machine: SimulatedMachine,
    *topics: tuple[str, int, list[list[int]] | None],
    version: int = 3,
    **more: bool,
) -> Answers:
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if chosen is None
                else [CreatePartitionsAssignment(broker_ids=nodes) for nodes in chosen],
            )
            for name, count, chosen in topics
        ],
        timeout_ms=1_000,
        **more,
    )
    response = machine.ask(request, version)
    return {r.name: (r.error_code, r.error_message) for r in response.results}


@pytest.mark.parametrize("version", range(4))
def test_new_partitions_have_replicas_when_the_response_is_sent(
    machine: SimulatedMachine, version: int
) -> None:
    create(machine, new("t", 2))
    assert grow(machine, ("t", 5, None), version=version) == {"t": (0, None)}
    assert len(machine.broker.replicas) == 5


def test_each_growth_succeeds_or_fails_on_its_own(machine: SimulatedMachine) -> None:
    create(machine, *(new(name, 2) for name in "abcdef"))
    assert grow(
        machine,
        ("a", 3, [[NODE]]),
        ("b", 2, None),
        ("c", 1, None),
        ("d", 4, [[NODE]]),
        ("e", 3, [[99]]),
        ("f", 3, None),
        ("f", 4, None),
        ("nope", 3, None),
    ) == {
        "a": (0, None),
        "b": (37, "Topic already has 2 partition(s)."),
        "c": (37, "The topic c currently has 2 partition(s); 1 would not be an increase."),
        "d": (
            39,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        "e": (
            39,
            "The manual partition assignment includes broker 99, but no such broker is registered.",
        ),
        "f": (42, "Duplicate topic name."),
        "nope": (3, None),
    }


def test_validate_only_adds_no_partitions(machine: SimulatedMachine) -> None:
    create(machine, new("t", 2))
    assert grow(machine, ("t", 5, None), validate_only=True) == {"t": (0, None)}
    machine.schedule.run_for(1_000)
    assert len(machine.broker.replicas) == 2


def test_recreated_topic_is_empty_even_if_a_directory_was_lost() -> None:
    machine = machine_with_topic(partitions=2)
    machine.ask(produce(batch_of(machine, b"a"), batch_of(machine, b"a")), NAMED)
    machine.disk.remove_directory(f"{TOPIC}-0")
    machine.ask(DeleteTopicsRequest([DeleteTopicState(TOPIC)], timeout_ms=10_000))
    topic = CreatableTopic(TOPIC, 2, 1)
    assert machine.ask(CreateTopicsRequest([topic], timeout_ms=10_000)).topics[0].error_code == 0
    response = machine.ask(produce(batch_of(machine, b"b"), batch_of(machine, b"b")), NAMED)
    assert answers(response) == [(0, 0), (0, 0)]
