"""Bootstrap, metadata and leaders, with peers that fail on purpose."""

import pytest

from sawlog.client.errors import NoBrokerReachable, RequestTimedOut
from sawlog.client.net.cluster import Cluster, NoSuchTopic
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from support.client.scripted_broker import NODE_ID, Act, ScriptedBroker


def partition(topic: str, index: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))


def metadata_with(code: ErrorCode, name: str = "logs") -> MetadataResponse:
    return MetadataResponse(topics=[MetadataResponseTopic(error_code=code, name=name)])


def test_one_reachable_bootstrap_address_is_enough() -> None:
    with (
        ScriptedBroker() as gone,
        ScriptedBroker(logs=2) as broker,
        Cluster([gone.bootstrap, broker.bootstrap]) as cluster,
    ):
        gone.stop_listening()
        assert len(cluster.topic("logs").partitions) == 2


def test_no_broker_reachable_names_all_addresses() -> None:
    with ScriptedBroker() as first, ScriptedBroker() as second:
        first.stop_listening()
        second.stop_listening()
        cluster = Cluster([first.bootstrap, second.bootstrap])
        with pytest.raises(NoBrokerReachable) as raised:
            cluster.topic("logs")
        assert first.bootstrap in str(raised.value)
        assert second.bootstrap in str(raised.value)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"<!DOCTYPE HTML>\r\n"])
def test_an_http_server_is_recognised_and_tried_once(answer: bytes) -> None:
    with ScriptedBroker() as web, Cluster(web.bootstrap) as cluster:
        web.reply(ApiKey.API_VERSIONS, answer)
        with pytest.raises(NoBrokerReachable) as raised:
            cluster.topic("logs")
    assert str(raised.value) == (
        f"no broker can be reached: {web.bootstrap} is an HTTP server; expected a Kafka listener."
        " Is one running, and is the address right?"
    )


def test_metadata_is_cached() -> None:
    with ScriptedBroker(logs=3) as broker, Cluster(broker.bootstrap) as cluster:
        assert cluster.leader(partition("logs", 2)) == NODE_ID
        assert cluster.leader(partition("logs", 0)) == NODE_ID
        assert len(broker.requests_for(ApiKey.METADATA)) == 1
        cluster.forget(["logs"])
        cluster.topic("logs")
        assert len(broker.requests_for(ApiKey.METADATA)) == 2


def test_an_unknown_topic_is_not_retried() -> None:
    with ScriptedBroker() as broker, Cluster(broker.bootstrap) as cluster:
        with pytest.raises(NoSuchTopic, match="no topic 'nope'"):
            cluster.topic("nope")
        assert len(broker.requests_for(ApiKey.METADATA)) == 1


def test_an_unknown_partition_is_an_error_with_the_known_ones() -> None:
    with (
        ScriptedBroker(logs=3) as broker,
        Cluster(broker.bootstrap) as cluster,
        pytest.raises(NoSuchTopic, match="partitions 0 to 2, not 3"),
    ):
        cluster.leader(partition("logs", 3))


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_partition_added_later_is_found() -> None:
    with ScriptedBroker(logs=3) as broker, Cluster(broker.bootstrap) as cluster:
        cluster.topic("logs")
        broker.partition_counts["logs"] = 6
        assert cluster.leader(partition("logs", 5)) == NODE_ID
        assert len(cluster.topic("logs").partitions) == 6
        assert len(broker.requests_for(ApiKey.METADATA)) == 2


def test_a_missing_partition_is_looked_up_once_a_second() -> None:
    clock = Clock()
    with (
        ScriptedBroker(logs=3) as broker,
        Cluster(broker.bootstrap, monotonic_s=clock) as cluster,
    ):
        cluster.topic("logs")
        for passed_s, asked in [(0.0, 2), (0.5, 2), (0.6, 3), (0.1, 3)]:
            clock.now_s += passed_s
            with pytest.raises(NoSuchTopic):
                cluster.leader(partition("logs", 3))
            assert len(broker.requests_for(ApiKey.METADATA)) == asked


def test_a_topic_older_than_max_age_is_refreshed() -> None:
    clock = Clock()
    with (
        ScriptedBroker(logs=3) as broker,
        Cluster(broker.bootstrap, monotonic_s=clock) as cluster,
    ):
        cluster.topic("logs")
        broker.partition_counts["logs"] = 6
        clock.now_s += 59
        assert len(cluster.topic("logs", max_age_ms=60_000).partitions) == 3
        clock.now_s += 2
        assert len(cluster.topic("logs").partitions) == 3
        assert len(cluster.topic("logs", max_age_ms=60_000).partitions) == 6
        assert len(broker.requests_for(ApiKey.METADATA)) == 2


@pytest.mark.parametrize("failure", [Act.CLOSE, metadata_with(ErrorCode.LEADER_NOT_AVAILABLE)])
def test_old_metadata_is_used_while_a_refresh_fails(failure: Act) -> None:
    clock = Clock()
    with (
        ScriptedBroker(logs=3) as broker,
        Cluster(broker.bootstrap, monotonic_s=clock) as cluster,
    ):
        cluster.topic("logs")
        broker.reply(ApiKey.METADATA, failure)
        clock.now_s += 61
        for _ in range(3):
            assert len(cluster.topic("logs", max_age_ms=60_000).partitions) == 3
        assert len(broker.requests_for(ApiKey.METADATA)) == 2


def test_a_topic_that_is_being_created_is_waited_for() -> None:
    with ScriptedBroker(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        broker.reply(ApiKey.METADATA, metadata_with(ErrorCode.LEADER_NOT_AVAILABLE))
        assert cluster.topic("logs").name == "logs"


def test_a_partition_without_a_leader_is_a_retriable_error() -> None:
    with ScriptedBroker(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        broker.leader = -1
        with pytest.raises(KafkaError) as raised:
            cluster.leader(partition("logs", 0))
        assert raised.value.is_retriable


def test_a_lost_connection_is_reopened() -> None:
    with ScriptedBroker(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        cluster.topic("logs")
        cluster.forget(["logs"])
        broker.reply(ApiKey.METADATA, Act.CLOSE)
        assert cluster.topic("logs").name == "logs"


def test_retries_end_with_the_timeout() -> None:
    with (
        ScriptedBroker(logs=1) as broker,
        Cluster(broker.bootstrap, timeout_ms=150, request_timeout_ms=20) as cluster,
    ):
        broker.always_reply(ApiKey.METADATA, Act.SILENCE)
        with pytest.raises(RequestTimedOut):
            cluster.topic("logs")


def test_an_unknown_error_code_is_named_in_the_message() -> None:
    with ScriptedBroker() as broker, Cluster(broker.bootstrap) as cluster:
        broker.reply(ApiKey.METADATA, MetadataResponse(error_code=4_242))
        with pytest.raises(KafkaError, match="4242"):
            cluster.fetch_metadata(None)


def test_a_broker_that_left_the_cluster_is_not_connected_to() -> None:
    with ScriptedBroker(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        cluster.topic("logs")
        with pytest.raises(KafkaError, match="broker 99 is not a live broker"):
            cluster.connection(NodeId(99))


def test_channels_to_a_broker_have_their_own_connections() -> None:
    with ScriptedBroker(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        cluster.topic("logs")
        node = NodeId(NODE_ID)
        assert cluster.connection(node) is cluster.connection(node)
        assert cluster.connection(node, "fetch") is not cluster.connection(node)


def test_metadata_without_brokers_counts_as_reached() -> None:
    """A cluster that is starting returns none; after that the client waits for it."""
    with ScriptedBroker() as broker, Cluster(broker.bootstrap) as cluster:
        assert not cluster.was_reached
        broker.reply(ApiKey.METADATA, MetadataResponse(brokers=[], cluster_id="c"))
        cluster.fetch_metadata([])
        assert cluster.was_reached
