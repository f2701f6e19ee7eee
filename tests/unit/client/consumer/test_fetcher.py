"""Which partitions are fetched from which leader, and what errors do. No socket."""

from collections.abc import Callable
from typing import Any

import pytest

from sawlog.client.consumer.fetcher import Fetcher, FetchLimits
from sawlog.client.errors import ConnectionLost, NoBrokerReachable
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.protocol.messages.fetch_response import FetchResponse
from support.client.fake_cluster import NO_LEADER, FakeCluster
from support.client.fetch_responses import fetch_response, requested

LIMITS = FetchLimits(max_wait_ms=500, min_bytes=1, max_bytes=1_000, partition_max_bytes=100)
LOGS_0, LOGS_1, LOGS_2 = (partition_of("logs", index) for index in range(3))
BACKOFF_MS = 50


class Harness:
    def __init__(self, *, read_committed: bool = False, **leaders: list[int]) -> None:
        self.cluster = FakeCluster(**leaders)
        self.fetcher = Fetcher(self.cluster, LIMITS, read_committed=read_committed)

    def send(self, wanted: dict[TopicPartition, int], after_ms: float = 0) -> None:
        self.cluster.clock.ms += after_ms
        self.fetcher.send(wanted)

    def respond(self, node: int, respond: Callable[[Any], FetchResponse]) -> list[Any]:
        self.cluster.node(node).respond(respond)
        return self.fetcher.take_responses()

    def sent(self, node: int) -> list[dict[tuple[str, int], int]]:
        return [requested(request) for request in self.cluster.node(node).requests]


def test_each_leader_is_sent_one_fetch_of_its_partitions() -> None:
    harness = Harness(logs=[1, 2, 1], more=[2])
    more = partition_of("more", 0)
    harness.send({LOGS_0: 10, LOGS_1: 11, LOGS_2: 12, more: 13})
    assert harness.sent(1) == [{("logs", 0): 10, ("logs", 2): 12}]
    assert harness.sent(2) == [{("logs", 1): 11, ("more", 0): 13}]


def test_a_leader_has_one_fetch_in_flight() -> None:
    harness = Harness(logs=[1, 1, 2])
    harness.send({LOGS_0: 0})
    harness.send({LOGS_1: 0, LOGS_2: 0})
    assert harness.sent(1) == [{("logs", 0): 0}]
    assert harness.sent(2) == [{("logs", 2): 0}]
    harness.respond(1, fetch_response())
    harness.send({LOGS_1: 0})
    assert harness.sent(1)[1:] == [{("logs", 1): 0}]


def test_a_fetch_has_the_limits_and_isolation_level_and_no_leader_epoch() -> None:
    """Without an epoch the leader accepts the fetch of a consumer with old metadata."""
    harness = Harness(read_committed=True, logs=[1])
    harness.send({LOGS_0: 5})
    (request,) = harness.cluster.node(1).requests
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 1_000)
    assert request.isolation_level == 1
    ((partition,),) = [topic.partitions for topic in request.topics]
    assert partition.partition_max_bytes == 100
    assert (partition.current_leader_epoch, partition.last_fetched_epoch) == (-1, -1)


def test_a_response_is_returned_by_partition_with_its_fetch_offset() -> None:
    harness = Harness(logs=[1, 1])
    harness.send({LOGS_0: 10, LOGS_1: 20})
    found = harness.respond(1, fetch_response(high_watermark=99))
    assert [(each.partition, each.offset) for each in found] == [(LOGS_0, 10), (LOGS_1, 20)]
    assert {each.data.high_watermark for each in found} == {99}
    assert not harness.fetcher.has_in_flight


def test_topics_without_ids_are_fetched_by_name() -> None:
    harness = Harness(logs=[1])
    harness.cluster.has_topic_ids = False
    harness.send({LOGS_0: 10})
    ((_, pending),) = harness.cluster.node(1).in_flight
    assert pending.version == 12
    assert len(harness.respond(1, fetch_response())) == 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_a_moved_partition_is_fetched_from_its_new_leader_after_a_backoff(code: ErrorCode) -> None:
    harness = Harness(logs=[1])
    harness.send({LOGS_0: 10})
    harness.respond(1, fetch_response())
    harness.cluster.leaders["logs"] = [2]
    harness.fetcher.failed(KafkaError(code, ""), ["logs"])
    harness.send({LOGS_0: 10})
    assert harness.sent(2) == []
    harness.send({LOGS_0: 10}, after_ms=BACKOFF_MS)
    assert harness.sent(2) == [{("logs", 0): 10}]
    harness.fetcher.raise_failure()


def test_an_error_of_the_whole_fetch_is_retried() -> None:
    harness = Harness(logs=[1])
    harness.send({LOGS_0: 0})
    code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert harness.respond(1, lambda _: FetchResponse(error_code=code)) == []
    harness.send({LOGS_0: 0}, after_ms=BACKOFF_MS)
    assert len(harness.sent(1)) == 2
    harness.fetcher.raise_failure()


def test_a_lost_connection_is_retried_with_fresh_metadata() -> None:
    harness = Harness(logs=[1])
    harness.send({LOGS_0: 0})
    harness.cluster.node(1).lose(ConnectionLost("reset"))
    assert harness.fetcher.take_responses() == []
    assert not harness.fetcher.has_in_flight
    harness.send({LOGS_0: 0}, after_ms=BACKOFF_MS)
    assert harness.cluster.metadata_fetches == 2
    assert len(harness.sent(1)) == 2


def test_a_fetch_that_cannot_be_sent_is_retried() -> None:
    harness = Harness(logs=[1])
    harness.cluster.send_error = ConnectionLost("reset")
    harness.send({LOGS_0: 0})
    assert not harness.fetcher.has_in_flight
    harness.cluster.send_error = None
    harness.send({LOGS_0: 0}, after_ms=BACKOFF_MS)
    assert harness.sent(1) == [{("logs", 0): 0}]


def test_backoff_doubles_until_data_is_received() -> None:
    harness = Harness(logs=[1])
    error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "")
    waits: list[float] = []
    for _ in range(3):
        harness.fetcher.failed(error, ["logs"])
        assert harness.fetcher._backoff_until is not None
        waits.append(harness.fetcher._backoff_until.remaining_ms)
        harness.cluster.clock.ms += 1_000
    for number, wait_ms in enumerate(waits):
        assert 25 * 2**number <= round(wait_ms, 3) <= 50 * 2**number
    harness.fetcher.succeeded()
    harness.send({LOGS_0: 0})
    assert len(harness.sent(1)) == 1


def test_a_retriable_error_that_outlasts_the_timeout_is_raised_once() -> None:
    harness = Harness(logs=[1])
    error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved")
    harness.fetcher.failed(error, ["logs"])
    harness.cluster.clock.ms += harness.cluster.timeout_ms
    harness.fetcher.failed(error, ["logs"])
    with pytest.raises(KafkaError, match="moved"):
        harness.fetcher.raise_failure()
    harness.fetcher.raise_failure()


def test_a_fatal_error_is_raised_and_does_not_stop_other_partitions() -> None:
    harness = Harness(logs=[1], more=[1])
    harness.fetcher.failed(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no"), ["logs"])
    harness.send({partition_of("more", 0): 0})
    assert harness.sent(1) == [{("more", 0): 0}]
    with pytest.raises(KafkaError, match="no"):
        harness.fetcher.raise_failure()


def test_a_partition_without_a_leader_does_not_hold_back_the_others() -> None:
    harness = Harness(logs=[NO_LEADER, 1])
    harness.send({LOGS_0: 0, LOGS_1: 0})
    assert harness.sent(1) == [{("logs", 1): 0}]
    harness.fetcher.raise_failure()


def test_partitions_without_a_leader_take_one_metadata_request() -> None:
    harness = Harness(logs=[NO_LEADER] * 3)
    harness.send({LOGS_0: 0, LOGS_1: 0, LOGS_2: 0})
    assert harness.cluster.metadata_fetches == 1


def test_an_unreachable_cluster_is_tried_once_for_all_unknown_topics() -> None:
    harness = Harness()
    tries = 0

    def any_connection() -> Any:
        nonlocal tries
        tries += 1
        raise NoBrokerReachable("no broker can be reached")

    harness.cluster.any_connection = any_connection  # type: ignore[method-assign]
    harness.send({partition_of(topic, index): 0 for topic in "abc" for index in range(3)})
    assert tries == 1
    harness.fetcher.raise_failure()  # retriable


def test_known_partitions_are_fetched_while_metadata_cannot_be_had() -> None:
    harness = Harness(logs=[1], more=[1])
    harness.cluster.topic("logs")
    harness.cluster.is_reachable = False
    harness.send({partition_of("more", 0): 0, LOGS_0: 7})
    assert harness.sent(1) == [{("logs", 0): 7}]
