"""One poll of all topics: ends, missing topics and silent brokers, each for itself."""

from sawlog.client.admin.admin import Admin
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.errors import ErrorCode
from sawlog.core.ids import TopicName
from sawlog.pipeline.landing.configuration.topic_selection import TopicSelection
from sawlog.pipeline.landing.planning.topic_poller import METADATA_EVERY_S, TopicPoller
from support.pipeline.landing import create_topic, send
from support.server.broker_process import SawlogServer

COMMITTED, UNCOMMITTED = frozenset({True}), frozenset({False})


def named(*names: str) -> TopicSelection:
    return TopicSelection(names)


def test_a_poll_has_the_ends_of_all_topics_and_the_errors_of_missing_ones(
    broker: SawlogServer, topic: str
) -> None:
    one, other, missing = (TopicName(f"{topic}-{name}") for name in ("one", "other", "missing"))
    create_topic(broker.bootstrap, one, 2)
    create_topic(broker.bootstrap, other, 1)
    send(broker.bootstrap, one, [b"a", b"b", b"c"])
    with Cluster(broker.bootstrap) as cluster:
        poller = TopicPoller(cluster)
        polled = poller.poll(
            {named(one): COMMITTED, named(other): UNCOMMITTED, named(missing): COMMITTED}
        )
    assert polled.ends == {
        True: {partition_of(one, 0): 2, partition_of(one, 1): 1},
        False: {partition_of(other, 0): 0},
    }
    assert set(polled.topics) == {one, other}
    assert [error.code for error in polled.errors.values()] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]
    assert polled.is_answered


def test_a_topic_deleted_between_two_polls_does_not_hide_the_ends_of_the_others(
    broker: SawlogServer, topic: str
) -> None:
    gone, stays = TopicName(f"{topic}-gone"), TopicName(f"{topic}-stays")
    now_s = 0.0
    for name in (gone, stays):
        create_topic(broker.bootstrap, name, 1)
    with Cluster(broker.bootstrap) as cluster:
        poller = TopicPoller(cluster, monotonic_s=lambda: now_s)
        wanted = {named(gone): COMMITTED, named(stays): COMMITTED}
        poller.poll(wanted)
        assert not Admin(cluster).delete_topics([gone])
        send(broker.bootstrap, stays, [b"a"])
        polled = poller.poll(wanted)
        assert polled.ends == {True: {partition_of(stays, 0): 1}}
        assert polled.is_answered
        now_s += METADATA_EVERY_S
        assert set(poller.poll(wanted).errors) == {gone}


def test_new_partitions_are_found(broker: SawlogServer, topic: str) -> None:
    now_s = 0.0
    create_topic(broker.bootstrap, topic, 1)
    with Cluster(broker.bootstrap) as cluster:
        poller = TopicPoller(cluster, monotonic_s=lambda: now_s)
        assert len(poller.poll({named(topic): COMMITTED}).ends[True]) == 1
        assert not Admin(cluster).create_partitions({topic: 3})
        now_s += METADATA_EVERY_S
        assert len(poller.poll({named(topic): COMMITTED}).ends[True]) == 3


def test_topics_that_match_a_pattern_are_found_beside_named_ones(
    broker: SawlogServer, topic: str
) -> None:
    now_s = 0.0
    one, two, other = (TopicName(f"{topic}-{name}") for name in ("m1", "m2", "other"))
    create_topic(broker.bootstrap, one, 1)
    create_topic(broker.bootstrap, other, 1)
    with Cluster(broker.bootstrap) as cluster:
        poller = TopicPoller(cluster, monotonic_s=lambda: now_s)
        wanted = {
            TopicSelection(pattern=f"{topic}-m."): COMMITTED,
            named(one, f"{topic}-missing"): UNCOMMITTED,
        }
        polled = poller.poll(wanted)
        assert set(polled.topics) == {one}
        assert set(polled.errors) == {f"{topic}-missing"}
        assert {level: len(ends) for level, ends in polled.ends.items()} == {True: 1, False: 1}
        create_topic(broker.bootstrap, two, 2)
        assert set(poller.poll(wanted).topics) == {one}, "metadata is fetched every second"
        now_s += METADATA_EVERY_S
        polled = poller.poll(wanted)
        assert set(polled.topics) == {one, two}
        assert len(polled.ends[True]) == 3


def test_silent_brokers_are_no_error() -> None:
    with Cluster("127.0.0.1:1") as cluster:
        polled = TopicPoller(cluster).poll({named("t"): COMMITTED})
    assert not polled.is_answered
    assert (polled.topics, polled.errors, polled.ends) == ({}, {}, {})
