"""A single broker on the embedded store: images, topics, leader epochs over restarts."""

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
from support.cluster.member import TIMEOUT_MS, SingleBroker


@pytest.fixture
def broker() -> SingleBroker:
    return SingleBroker()


def topic(broker: SingleBroker, name: str = "t") -> TopicImage:
    return broker.image.topics[TopicName(name)]


def node(broker: SingleBroker, path: str) -> Node | None:
    results: list[Node | StoreError] = []
    broker.store.get(path, results.append)
    assert broker.schedule.run(lambda: bool(results))
    return results[0] if isinstance(results[0], Node) else None


def children(broker: SingleBroker, path: str) -> list[str]:
    results: list[list[str] | StoreError] = []
    broker.store.children(path, results.append)
    assert broker.schedule.run(lambda: bool(results))
    assert isinstance(results[0], list)
    return results[0]


def test_the_first_image_shows_the_broker_as_controller(broker: SingleBroker) -> None:
    assert len(broker.images) == 1
    assert broker.image.controller_id == 0
    assert broker.image.brokers[NodeId(0)].host == "host0"
    assert broker.member.is_controller


def test_the_cluster_id_survives_a_restart(broker: SingleBroker) -> None:
    cluster_id = broker.image.cluster_id
    assert len(cluster_id) == 22
    broker.restart()
    assert broker.image.cluster_id == cluster_id


def test_a_new_topic_has_leaders(broker: SingleBroker) -> None:
    assert broker.create("t", 3, configs={"retention.ms": "5"}) is None
    image = topic(broker)
    assert [p.leader for p in image.partitions] == [0, 0, 0]
    assert [(p.leader_epoch, p.isr, p.replicas) for p in image.partitions] == [(0, (0,), (0,))] * 3
    assert image.configs == {"retention.ms": "5"}
    assert broker.image.topic_by_id(image.id) is image
    assert broker.image.partition("t", 2) is image.partitions[2]
    assert broker.image.partition("t", 3) is None


def test_creating_a_hundred_partitions_takes_two_writes(broker: SingleBroker) -> None:
    broker.create("t", 100)
    intent, state = node(broker, "/brokers/topics/t"), None
    for index in (0, 99):
        state = node(broker, f"/brokers/topics/t/partitions/{index}/state")
        assert intent is not None
        assert state is not None
        assert state.stat.created == intent.stat.created + 1


def test_nodes_have_kafkas_format(broker: SingleBroker) -> None:
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


def test_a_restarted_broker_leads_with_a_new_epoch(broker: SingleBroker) -> None:
    broker.create("t", 2)
    broker.restart()
    assert [p.leader_epoch for p in topic(broker).partitions] == [1, 1]
    assert len(broker.images) == 1, "the first image is complete"
    broker.stop()
    broker.restart()
    assert [(p.leader, p.leader_epoch) for p in topic(broker).partitions] == [(0, 2), (0, 2)]


def test_deleting_a_topic_deletes_all_its_nodes(broker: SingleBroker) -> None:
    broker.create("t", 3)
    assert broker.delete("t") is None
    assert broker.image.topics == {}
    assert broker.image.names == {}
    for path in ("/brokers/topics", "/config/topics", "/admin/delete_topics"):
        assert children(broker, path) == []


def test_a_recreated_topic_has_another_id(broker: SingleBroker) -> None:
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


def test_many_topics_are_created_at_once(broker: SingleBroker) -> None:
    results: list[KafkaError | None] = []
    for number in range(50):
        planned = broker.topics.plan(NewTopic(f"t{number}", 2))
        broker.topics.create(planned, TIMEOUT_MS, results.append)
    assert broker.schedule.run(lambda: len(results) == 50)
    assert results == [None] * 50
    assert len(broker.image.topics) == 50


def test_the_second_of_two_concurrent_creations_fails(broker: SingleBroker) -> None:
    results: list[KafkaError | None] = []
    for _ in range(2):
        broker.topics.create(broker.topics.plan(NewTopic("t")), TIMEOUT_MS, results.append)
    assert broker.schedule.run(lambda: len(results) == 2)
    errors = [error for error in results if error is not None]
    assert [error.code for error in errors] == [ErrorCode.TOPIC_ALREADY_EXISTS]


def test_partitions_are_added(broker: SingleBroker) -> None:
    broker.create("t", 2)
    before = topic(broker)
    replicas = broker.topics.plan_partitions(before, 5, None)
    error = broker.settle(
        lambda done: broker.topics.add_partitions(before, replicas, TIMEOUT_MS, done)
    )
    assert error is None
    assert topic(broker).partitions[:2] == before.partitions
    assert [p.leader for p in topic(broker).partitions] == [0] * 5


def test_adding_partitions_to_a_changed_topic_is_rejected(broker: SingleBroker) -> None:
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


def test_concurrent_config_changes_are_all_applied(broker: SingleBroker) -> None:
    broker.create("t", 1, configs={"retention.ms": "5"})
    results: list[KafkaError | None] = []
    for key in ("flush.ms", "flush.messages", "segment.ms"):
        broker.topics.alter_configs(
            topic(broker),
            lambda old, key=key: {**old, key: "7"},
            TIMEOUT_MS,
            results.append,
        )
    assert broker.schedule.run(lambda: len(results) == 3)
    assert results == [None, None, None]
    assert topic(broker).configs == {
        "retention.ms": "5",
        "flush.ms": "7",
        "flush.messages": "7",
        "segment.ms": "7",
    }
    broker.restart()
    assert len(topic(broker).configs) == 4


def test_a_rejected_config_change_changes_nothing(broker: SingleBroker) -> None:
    broker.create("t")

    def reject(_: object) -> dict[str, str]:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "no")

    error = broker.settle(
        lambda done: broker.topics.alter_configs(topic(broker), reject, TIMEOUT_MS, done)
    )
    assert error is not None
    assert error.code is ErrorCode.INVALID_CONFIG
    assert topic(broker).configs == {}


def test_images_share_unchanged_topics(broker: SingleBroker) -> None:
    broker.create("a")
    before = broker.image
    broker.create("b")
    assert topic(broker, "a") is before.topics[TopicName("a")]
    assert before.brokers is broker.image.brokers
    assert [after and after.name for _, after in changed_topics(before, broker.image)] == ["b"]
    assert list(changed_topics(broker.image, broker.image)) == []
    everything = list(changed_topics(EMPTY_IMAGE, broker.image))
    assert sorted(after.name for _, after in everything if after is not None) == ["a", "b"]


def test_waiting_for_an_image_times_out(broker: SingleBroker) -> None:
    called: list[bool] = []
    broker.member.when(lambda image: False, 500, called.append)
    broker.schedule.run_for(499)
    assert called == []
    broker.schedule.run_for(1)
    assert called == [False]
    broker.member.when(lambda image: True, 500, called.append)
    assert called == [False], "never from inside the call"
    broker.schedule.run_for(1)
    assert called == [False, True]


def test_stop_ends_all_waits(broker: SingleBroker) -> None:
    called: list[bool] = []
    broker.member.when(lambda image: False, 60_000, called.append)
    broker.stop()
    assert called == [False]


def test_a_topic_cannot_be_created_on_a_full_disk(broker: SingleBroker) -> None:
    broker.disk.free_bytes = 0
    error = broker.create("t")
    assert error is not None
    assert error.is_retriable
    broker.disk.free_bytes = None
    assert broker.create("t") is None


def test_the_controller_retries_after_a_full_disk(broker: SingleBroker) -> None:
    """The last free bytes take the topic's node, but not the states of its partitions."""
    broker.create("first")
    broker.disk.free_bytes = 600
    error = broker.create("t", 20)
    assert error is not None
    assert error.code is ErrorCode.REQUEST_TIMED_OUT
    assert "t" not in broker.image.topics
    broker.disk.free_bytes = None
    broker.schedule.run_for(5_000)
    assert len(topic(broker).partitions) == 20


def test_a_leader_without_a_registration_is_not_in_the_image() -> None:
    broker = SingleBroker()
    broker.create("t")
    view = broker.member._view
    view.keep_brokers([])
    image: MetadataImage = view.image(broker.image)
    assert image.topics[TopicName("t")].partitions[0].leader == NO_NODE


def test_a_listener_that_raises_does_not_affect_the_others(
    broker: SingleBroker, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[str] = []

    def fail(*_: object) -> bool:
        raise RuntimeError("a bug in a callback")

    def has_topic(image: MetadataImage) -> bool:
        return TopicName("t") in image.topics

    broker.member._on_image = fail  # the broker's own, which is called first
    broker.member.when(lambda image: has_topic(image) and fail(), TIMEOUT_MS, fail)
    broker.member.when(has_topic, TIMEOUT_MS, fail)
    broker.member.when(has_topic, TIMEOUT_MS, lambda _: called.append("last"))
    assert broker.create("t") is None
    assert called == ["last"]
    assert caplog.text.count("a bug in a callback") >= 3
