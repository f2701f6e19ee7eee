"""A sole broker on the embedded store: images, topics as intents, leader epochs over restarts."""

import pytest

from sawlog.cluster.metadata_image import (
    EMPTY_IMAGE,
    NO_NODE,
    MetadataImage,
    TopicImage,
    changed_topics,
)
from sawlog.cluster.new_topic import NewTopic
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId, TopicName
from sawlog.core.store import Node, StoreError
from support.cluster.member import TIMEOUT_MS, SoleBroker


@pytest.fixture
def broker() -> SoleBroker:
    return SoleBroker()


def topic(broker: SoleBroker, name: str = "t") -> TopicImage:
    return broker.image.topics[TopicName(name)]


def node(broker: SoleBroker, path: str) -> Node | None:
    answers: list[Node | StoreError] = []
    broker.store.get(path, answers.append)
    assert broker.schedule.run(lambda: bool(answers))
    return answers[0] if isinstance(answers[0], Node) else None


def children(broker: SoleBroker, path: str) -> list[str]:
    answers: list[list[str] | StoreError] = []
    broker.store.children(path, answers.append)
    assert broker.schedule.run(lambda: bool(answers))
    assert isinstance(answers[0], list)
    return answers[0]


def test_the_first_image_shows_the_broker_as_controller(broker: SoleBroker) -> None:
    assert len(broker.images) == 1
    assert broker.image.controller_id == 0
    assert broker.image.brokers[NodeId(0)].host == "host0"
    assert broker.member.is_controller


def test_the_cluster_keeps_its_id(broker: SoleBroker) -> None:
    cluster_id = broker.image.cluster_id
    assert len(cluster_id) == 22
    broker.restart()
    assert broker.image.cluster_id == cluster_id


def test_a_new_topic_shows_with_leaders(broker: SoleBroker) -> None:
    assert broker.create("t", 3, configs={"retention.ms": "5"}) is None
    image = topic(broker)
    assert [p.leader for p in image.partitions] == [0, 0, 0]
    assert [(p.leader_epoch, p.isr, p.replicas) for p in image.partitions] == [(0, (0,), (0,))] * 3
    assert image.configs == {"retention.ms": "5"}
    assert broker.image.topic_by_id(image.id) is image
    assert broker.image.partition("t", 2) is image.partitions[2]
    assert broker.image.partition("t", 3) is None


def test_a_topic_of_a_hundred_partitions_takes_two_writes(broker: SoleBroker) -> None:
    broker.create("t", 100)
    intent, state = node(broker, "/brokers/topics/t"), None
    for index in (0, 99):
        state = node(broker, f"/brokers/topics/t/partitions/{index}/state")
        assert intent is not None
        assert state is not None
        assert state.stat.created == intent.stat.created + 1


def test_nodes_are_those_that_kafka_had(broker: SoleBroker) -> None:
    broker.create("t", 1, configs={"retention.ms": "5"})
    data = {
        path: (found.data if (found := node(broker, path)) else None)
        for path in (
            "/controller_epoch",
            "/config/topics/t",
            "/brokers/topics/t/partitions/0/state",
        )
    }
    assert data["/controller_epoch"] == b"1"
    assert data["/config/topics/t"] == b'{"version":1,"config":{"retention.ms":"5"}}'
    state = data["/brokers/topics/t/partitions/0/state"]
    assert state is not None
    assert state.startswith(b'{"version":1,"leader":0,"leader_epoch":0,"isr":[0]')


def test_a_restarted_broker_leads_under_a_new_epoch(broker: SoleBroker) -> None:
    broker.create("t", 2)
    broker.restart()
    assert [p.leader_epoch for p in topic(broker).partitions] == [1, 1]
    assert len(broker.images) == 1, "the first image shows the election already"
    broker.stop()
    broker.restart()
    assert [(p.leader, p.leader_epoch) for p in topic(broker).partitions] == [(0, 2), (0, 2)]


def test_a_deleted_topic_leaves_nothing_behind(broker: SoleBroker) -> None:
    broker.create("t", 3)
    assert broker.delete("t") is None
    assert broker.image.topics == {}
    assert broker.image.names == {}
    for path in ("/brokers/topics", "/config/topics", "/admin/delete_topics"):
        assert children(broker, path) == []


def test_a_topic_made_again_is_another_one(broker: SoleBroker) -> None:
    broker.create("t", 2)
    old = broker.image
    broker.delete("t")
    broker.create("t", 1)
    new = broker.image
    assert topic(broker).id != old.topics[TopicName("t")].id
    pairs = [
        (before and before.id, after and after.id) for before, after in changed_topics(old, new)
    ]
    assert pairs == [(old.topics[TopicName("t")].id, None), (None, topic(broker).id)]


def test_many_topics_at_once_all_show(broker: SoleBroker) -> None:
    answers: list[KafkaError | None] = []
    for number in range(50):
        planned = broker.topics.plan(NewTopic(f"t{number}", 2))
        broker.topics.create(planned, TIMEOUT_MS, answers.append)
    assert broker.schedule.run(lambda: len(answers) == 50)
    assert answers == [None] * 50
    assert len(broker.image.topics) == 50


def test_of_two_creations_of_one_name_one_is_told_that_it_exists(broker: SoleBroker) -> None:
    answers: list[KafkaError | None] = []
    for _ in range(2):
        broker.topics.create(broker.topics.plan(NewTopic("t")), TIMEOUT_MS, answers.append)
    assert broker.schedule.run(lambda: len(answers) == 2)
    refused = [error for error in answers if error is not None]
    assert [error.code for error in refused] == [ErrorCode.TOPIC_ALREADY_EXISTS]


def test_partitions_are_added_behind_the_old_ones(broker: SoleBroker) -> None:
    broker.create("t", 2)
    before = topic(broker)
    replicas = broker.topics.plan_partitions(before, 5, None)
    error = broker.settle(
        lambda done: broker.topics.add_partitions(before, replicas, TIMEOUT_MS, done)
    )
    assert error is None
    assert topic(broker).partitions[:2] == before.partitions
    assert [p.leader for p in topic(broker).partitions] == [0] * 5


def test_adding_to_a_topic_that_changed_meanwhile_is_refused(broker: SoleBroker) -> None:
    broker.create("t", 1)
    before = topic(broker)
    for count, expected in ((3, None), (2, ErrorCode.INVALID_PARTITIONS)):
        replicas = broker.topics.plan_partitions(before, count, None)
        error = broker.settle(
            lambda done, replicas=replicas: broker.topics.add_partitions(
                before, replicas, TIMEOUT_MS, done
            )
        )
        assert (error and error.code) == expected
    assert len(topic(broker).partitions) == 3


def test_configs_change_and_concurrent_changes_are_joined(broker: SoleBroker) -> None:
    broker.create("t", 1, configs={"retention.ms": "5"})
    answers: list[KafkaError | None] = []
    for key in ("flush.ms", "flush.messages", "segment.ms"):
        broker.topics.alter_configs(
            topic(broker),
            lambda old, key=key: {**old, key: "7"},
            TIMEOUT_MS,
            answers.append,
        )
    assert broker.schedule.run(lambda: len(answers) == 3)
    assert answers == [None, None, None]
    assert topic(broker).configs == {
        "retention.ms": "5",
        "flush.ms": "7",
        "flush.messages": "7",
        "segment.ms": "7",
    }
    broker.restart()
    assert len(topic(broker).configs) == 4


def test_a_change_of_configs_that_is_refused_changes_nothing(broker: SoleBroker) -> None:
    broker.create("t")

    def refuse(_: object) -> dict[str, str]:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "no")

    error = broker.settle(
        lambda done: broker.topics.alter_configs(topic(broker), refuse, TIMEOUT_MS, done)
    )
    assert error is not None
    assert error.code is ErrorCode.INVALID_CONFIG
    assert topic(broker).configs == {}


def test_an_image_shares_what_did_not_change(broker: SoleBroker) -> None:
    broker.create("a")
    before = broker.image
    broker.create("b")
    assert topic(broker, "a") is before.topics[TopicName("a")]
    assert before.brokers is broker.image.brokers
    assert [after and after.name for _, after in changed_topics(before, broker.image)] == ["b"]
    assert list(changed_topics(broker.image, broker.image)) == []
    everything = list(changed_topics(EMPTY_IMAGE, broker.image))
    assert sorted(after.name for _, after in everything if after is not None) == ["a", "b"]


def test_waiting_for_an_image_ends_in_time(broker: SoleBroker) -> None:
    told: list[bool] = []
    broker.member.when(lambda image: False, 500, told.append)
    broker.schedule.run_for(499)
    assert told == []
    broker.schedule.run_for(1)
    assert told == [False]
    broker.member.when(lambda image: True, 500, told.append)
    assert told == [False], "never from inside the call"
    broker.schedule.run_for(1)
    assert told == [False, True]


def test_a_stop_tells_those_who_wait(broker: SoleBroker) -> None:
    told: list[bool] = []
    broker.member.when(lambda image: False, 60_000, told.append)
    broker.stop()
    assert told == [False]


def test_a_full_disk_fails_the_intent_and_leaves_the_rest(broker: SoleBroker) -> None:
    broker.disk.free_bytes = 0
    error = broker.create("t")
    assert error is not None
    assert error.is_retriable
    broker.disk.free_bytes = None
    assert broker.create("t") is None


def test_the_controller_tries_again_when_the_disk_was_full(broker: SoleBroker) -> None:
    """The intent lands with the last bytes of room; its states wait for more."""
    broker.create("first")
    broker.disk.free_bytes = 600
    error = broker.create("t", 20)
    assert error is not None
    assert error.code is ErrorCode.REQUEST_TIMED_OUT
    assert "t" not in broker.image.topics
    broker.disk.free_bytes = None
    broker.schedule.run_for(5_000)
    assert len(topic(broker).partitions) == 20


def test_a_leader_that_is_not_there_does_not_show() -> None:
    broker = SoleBroker()
    broker.create("t")
    view = broker.member._view
    view.keep_brokers([])
    image: MetadataImage = view.image(broker.image)
    assert image.topics[TopicName("t")].partitions[0].leader == NO_NODE


def test_a_listener_that_fails_does_not_keep_others_from_being_told(
    broker: SoleBroker, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    def fail(*_: object) -> bool:
        raise RuntimeError("a bug in a callback")

    def has_topic(image: MetadataImage) -> bool:
        return TopicName("t") in image.topics

    broker.member._on_image = fail  # the broker's own, which is told first
    broker.member.when(lambda image: has_topic(image) and fail(), TIMEOUT_MS, fail)
    broker.member.when(has_topic, TIMEOUT_MS, fail)
    broker.member.when(has_topic, TIMEOUT_MS, lambda _: told.append("last"))
    assert broker.create("t") is None
    assert told == ["last"]
    assert caplog.text.count("a bug in a callback") >= 3
