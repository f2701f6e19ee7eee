"""Fetches for many partitions where some cannot be asked for: the others are, and nobody is asked
in vain twice."""

from sawlog.client.consumer.fetcher import Fetcher, FetchLimits
from sawlog.client.errors import NoBrokerReachable
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.connection import Connection
from sawlog.client.net.leader_requests import partition_of
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.fetch_response import FetchResponse
from support.client.scripted_broker import Act, ScriptedBroker

LIMITS = FetchLimits(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, partition_max_bytes=1 << 20)
GUARD_MS = 10_000


class DeafCluster(Cluster):
    """No connection can be made, after a while that is not waited for here."""

    tries = 0

    def any_connection(self) -> Connection:
        self.tries += 1
        raise NoBrokerReachable("silence")


def test_where_nobody_answers_one_try_is_enough() -> None:
    cluster = DeafCluster("127.0.0.1:1")
    fetcher = Fetcher(cluster, LIMITS, read_committed=False)
    fetcher.send({partition_of(topic, index): 0 for topic in "abc" for index in range(3)})
    assert cluster.tries == 1
    fetcher.raise_failure()  # it may heal


def test_what_is_known_is_asked_for_where_the_rest_cannot_be_found_out() -> None:
    with ScriptedBroker(logs=1, more=2) as broker, Cluster(broker.bootstrap) as cluster:
        broker.stand(ApiKey.FETCH, FetchResponse())
        cluster.topic("logs")
        broker.stand(ApiKey.METADATA, Act.CLOSE)
        fetcher = Fetcher(cluster, LIMITS, read_committed=False)
        wanted = [partition_of("more", 0), partition_of("more", 1), partition_of("logs", 0)]
        fetcher.send(dict.fromkeys(wanted, 0))
        assert fetcher.has_in_flight
        while fetcher.has_in_flight:
            fetcher.wait(GUARD_MS)
            fetcher.take_responses()
        (asked,) = broker.asked(ApiKey.FETCH)
        assert [topic.topic_id[:4] for topic in asked.topics] == [b"logs"]
        assert len(broker.asked(ApiKey.METADATA)) == 2


def test_partitions_without_a_leader_are_looked_up_together() -> None:
    with ScriptedBroker(logs=4) as broker, Cluster(broker.bootstrap) as cluster:
        broker.leader = -1
        fetcher = Fetcher(cluster, LIMITS, read_committed=False)
        fetcher.send({partition_of("logs", index): 0 for index in range(4)})
        assert len(broker.asked(ApiKey.METADATA)) == 1
        fetcher.raise_failure()
