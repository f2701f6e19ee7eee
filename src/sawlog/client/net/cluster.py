"""A cluster as a client reaches it: bootstrap, metadata kept until it proves wrong, connections.

Everything above asks here for the leader of a partition or for any broker, and tells when an
answer showed that what is kept has gone stale. For one thread.
"""

import random
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, Self, TypeVar

from sawlog.client.errors import ClientError, NoBrokerReachable, kafka_error
from sawlog.client.net.addresses import Address, parse_addresses
from sawlog.client.net.connection import DEFAULT_REQUEST_TIMEOUT_MS, Connection, Response
from sawlog.client.net.metadata import Metadata, Node, Topic, read_metadata
from sawlog.client.net.retries import Deadline, is_retriable, retry
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId, TopicName, TopicPartition
from sawlog.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from sawlog.protocol.messages.metadata_response import MetadataResponse
from sawlog.protocol.schema import Message

Result = TypeVar("Result")

DEFAULT_TIMEOUT_MS = 60_000
_AGAIN_MS = 1_000  # so often at most a topic is asked for since it lacks a partition
_MAIN_CHANNEL = ""


class Dependent(Protocol):
    """Works in a thread of its own on a sibling of a cluster, and ends with the cluster."""

    def abandon(self) -> None: ...


class Cluster:
    """`timeout_ms` bounds an operation with all its tries, `request_timeout_ms` one request."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        client_id: str = "sawlog",
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
        request_timeout_ms: float = DEFAULT_REQUEST_TIMEOUT_MS,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bootstrap_setting = bootstrap
        self._bootstrap = parse_addresses(bootstrap)
        self._client_id = client_id
        self.timeout_ms = timeout_ms
        self.request_timeout_ms = request_timeout_ms
        self._monotonic_s = monotonic_s
        self._connections: dict[tuple[str, Address], Connection] = {}
        self._nodes: dict[NodeId, Node] = {}
        self._topics: dict[TopicName, Topic] = {}
        self._refreshed_s: dict[TopicName, float] = {}
        self._partition_checks: dict[
            TopicName, Deadline
        ] = {}  # asked for in vain, not again before
        self._was_reached = False
        self._dependents: weakref.WeakSet[Dependent] = weakref.WeakSet()

    def close(self) -> None:
        for dependent in list(self._dependents):
            dependent.abandon()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def sibling(self) -> "Cluster":
        """The same cluster by connections of its own: for another thread."""
        return Cluster(
            self._bootstrap_setting,
            client_id=self._client_id,
            timeout_ms=self.timeout_ms,
            request_timeout_ms=self.request_timeout_ms,
            monotonic_s=self._monotonic_s,
        )

    def close_with(self, dependent: Dependent) -> None:
        """Has it ended before the connections are closed."""
        self._dependents.add(dependent)

    @property
    def was_reached(self) -> bool:
        """Whether a broker ever told of its cluster."""
        return self._was_reached

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def now_ms(self) -> float:
        return self._monotonic_s() * 1_000

    def deadline(self, timeout_ms: float | None = None) -> Deadline:
        """Return a deadline after `timeout_ms`, or after the timeout of an operation."""
        return Deadline(self.timeout_ms if timeout_ms is None else timeout_ms, self._monotonic_s)

    def any_connection(self) -> Connection:
        """One that is open already, else one to any broker that lets us in."""
        for (channel, _), connection in self._connections.items():
            if channel == _MAIN_CHANNEL and connection.is_usable:
                return connection
        known = [node.address for node in self._nodes.values()]
        random.shuffle(known)
        reasons: list[str] = []
        for address in dict.fromkeys([*known, *self._bootstrap]):
            try:
                return self._connection_to(address)
            except ClientError as error:  # not there, or no broker: the next may be one
                reasons.append(str(error))
        raise NoBrokerReachable(
            f"no broker can be reached: {'; '.join(reasons)}. Is one running, and is the address"
            " right?"
        )

    def connection(self, node_id: NodeId, channel: str = _MAIN_CHANNEL) -> Connection:
        """To this very broker. What waits long there takes a lane of its own, since answers come
        in order.
        """
        node = self._nodes.get(node_id)
        if node is None:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"broker {node_id} is not among the live ones"
            )
        return self._connection_to(node.address, channel)

    def request_any(self, request: Message, response_class: type[Response]) -> Response:
        """One request to any broker, with tries until the deadline where no answer comes."""
        return self.retry(lambda: self.any_connection().request(request, response_class))

    def fetch_metadata(
        self, topics: Iterable[str] | None, *, create_missing: bool = False
    ) -> Metadata:
        """Asks for these topics, or for all, and keeps what comes back. One try."""
        wanted = (
            None if topics is None else [MetadataRequestTopic(name=name) for name in sorted(topics)]
        )
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create_missing)
        answer = self.any_connection().request(request, MetadataResponse)
        if answer.error_code:
            raise kafka_error(answer.error_code, "the broker has no metadata to give")
        metadata = read_metadata(answer)
        self._nodes = metadata.nodes
        self._was_reached = True
        self._topics.update(metadata.topics)
        self._refreshed_s.update(dict.fromkeys(metadata.topics, self._monotonic_s()))
        for name in metadata.refusals:
            self._topics.pop(name, None)
        return metadata

    def topic(
        self,
        name: str,
        *,
        create_missing: bool = False,
        deadline: Deadline | None = None,
        with_partition: int | None = None,
        max_age_ms: float = float("inf"),
    ) -> Topic:
        """The topic as far as known; asked for where it is not. No such topic: KafkaError.

        Topics grow: it is asked for again where it lacks the partition `having`, and where what is
        known is older than `max_age_ms`, with one try, since it may well be true still.
        """
        known = self._topics.get(TopicName(name))
        if known is None or (
            with_partition is not None and self._should_refetch_for(known, with_partition)
        ):
            return self.retry(
                lambda: self._fetch_topic(TopicName(name), create_missing), deadline=deadline
            )
        if (self._monotonic_s() - self._refreshed_s[known.name]) * 1_000 > max_age_ms:
            return self._refresh(known, create_missing)
        return known

    def leader(self, partition: TopicPartition, *, deadline: Deadline | None = None) -> NodeId:
        """KafkaError where there is no such partition, or no leader now (which is retriable)."""
        topic = self.topic(partition.topic, deadline=deadline, with_partition=partition.partition)
        found = topic.partitions.get(partition.partition)
        if found is None:
            raise NoSuchTopic(
                f"the topic {partition.topic!r} has the partitions 0 to"
                f" {len(topic.partitions) - 1}, not {partition.partition}"
            )
        if found.leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader now")
        return found.leader

    def knows_leader(self, partition: TopicPartition) -> bool:
        """Whether its leader can be told without asking."""
        topic = self._topics.get(partition.topic)
        return topic is not None and partition.partition in topic.partitions

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[NodeId, list[TopicPartition]]:
        """The partitions grouped by where they are to be asked for."""
        groups: dict[NodeId, list[TopicPartition]] = defaultdict(list)
        for partition in sorted(partitions):
            groups[self.leader(partition)].append(partition)
        return dict(sorted(groups.items()))

    def forget(self, topics: Iterable[str]) -> None:
        """What is kept of them was seen to be wrong."""
        for name in topics:
            self._topics.pop(TopicName(name), None)

    def retry(
        self,
        attempt: Callable[[], Result],
        *,
        topics: Iterable[str] = (),
        deadline: Deadline | None = None,
    ) -> Result:
        """RetryPolicy until the deadline, with fresh metadata of these topics before another try.

        As long as no broker was ever reached, one round of all addresses is enough.
        """
        names = list(topics)

        def before_retry(error: Exception) -> None:
            if isinstance(error, NoBrokerReachable) and not self.was_reached:
                raise error
            self.forget(names)

        return retry(attempt, deadline or self.deadline(), before_retry=before_retry)

    def _connection_to(self, address: Address, channel: str = _MAIN_CHANNEL) -> Connection:
        connection = self._connections.get((channel, address))
        if connection is None or not connection.is_usable:
            connection = self._connections[channel, address] = Connection(
                address, client_id=self._client_id, request_timeout_ms=self.request_timeout_ms
            )
        return connection

    def _should_refetch_for(self, known: Topic, partition: int | None) -> bool:
        """Whether to ask for it: not for every call that names a wrong one."""
        if partition is None or partition in known.partitions:
            return False
        asked = self._partition_checks.get(known.name)
        if asked is not None and not asked.has_passed:
            return False
        self._partition_checks[known.name] = Deadline(_AGAIN_MS, self._monotonic_s)
        return True

    def _refresh(self, known: Topic, create_missing: bool) -> Topic:
        try:
            return self._fetch_topic(known.name, create_missing)
        except (KafkaError, ClientError) as error:
            if not is_retriable(error):
                raise
            self._topics[known.name] = known
            self._refreshed_s[known.name] = (
                self._monotonic_s()
            )  # else it is asked for by every call
            return known

    def _fetch_topic(self, name: TopicName, create_missing: bool) -> Topic:
        metadata = self.fetch_metadata([name], create_missing=create_missing)
        refused = metadata.refusals.get(name)
        if refused is None:
            return metadata.topics[name]
        if refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not create_missing:
            raise NoSuchTopic(refused.message)
        raise refused


def as_cluster(where: Cluster | str | Sequence[str]) -> Cluster:
    """A cluster as it is, or the one behind addresses."""
    return where if isinstance(where, Cluster) else Cluster(where)


class NoSuchTopic(KafkaError):
    """The cluster knows no such topic or partition; asking again would not help soon."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)

    @property
    def is_retriable(self) -> bool:
        return False
