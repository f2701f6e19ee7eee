"""A cluster as a client sees it: bootstrap addresses, cached metadata and connections.

The other modules ask it for the leader of a partition or for any broker, and report metadata that
proved stale. For one thread.
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
_REFETCH_MS = 1_000  # minimum time between two fetches of a topic that lacks a partition
_MAIN_CHANNEL = ""


class Dependent(Protocol):
    """An object that works on its own connections and is closed with the cluster."""

    def abandon(self) -> None: ...


class Cluster:
    """`timeout_ms` bounds an operation with all retries, `request_timeout_ms` one request."""

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
        # Topics that lacked a partition, and when they may be fetched again
        self._partition_checks: dict[TopicName, Deadline] = {}
        self._was_reached = False
        self._dependents: weakref.WeakSet[Dependent] = weakref.WeakSet()

    def close(self) -> None:
        for dependent in list(self._dependents):
            dependent.abandon()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def sibling(self) -> "Cluster":
        """Return a Cluster with the same settings and its own connections, for another thread."""
        return Cluster(
            self._bootstrap_setting,
            client_id=self._client_id,
            timeout_ms=self.timeout_ms,
            request_timeout_ms=self.request_timeout_ms,
            monotonic_s=self._monotonic_s,
        )

    def replace_bootstrap(self, bootstrap: Sequence[str]) -> None:
        """Use these addresses, besides those of known brokers, for new connections."""
        self._bootstrap_setting = bootstrap
        self._bootstrap = parse_addresses(bootstrap)

    def close_with(self, dependent: Dependent) -> None:
        """Abandon `dependent` when this cluster is closed."""
        self._dependents.add(dependent)

    @property
    def was_reached(self) -> bool:
        """Whether metadata was ever received."""
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
        """Return an open connection to any broker, or open one."""
        for (channel, _), connection in self._connections.items():
            if channel == _MAIN_CHANNEL and connection.is_usable:
                return connection
        known = [node.address for node in self._nodes.values()]
        random.shuffle(known)
        reasons: list[str] = []
        for address in dict.fromkeys([*known, *self._bootstrap]):
            try:
                return self._connection_to(address)
            except ClientError as error:  # try the next address
                reasons.append(str(error))
        raise NoBrokerReachable(
            f"no broker can be reached: {'; '.join(reasons)}. Is one running, and is the address"
            " right?"
        )

    def prefer_controller(self) -> None:
        """Send requests that any broker answers to the controller from now on: it decides about
        reassignments and elections, and other brokers show its changes a moment later. One that
        cannot be reached changes nothing."""
        metadata = self.retry(lambda: self.fetch_metadata([]))
        controller = metadata.nodes.get(metadata.controller)
        if controller is None:
            return
        try:
            preferred = self._connection_to(controller.address)
        except ClientError:
            return
        self._connections = {(_MAIN_CHANNEL, controller.address): preferred, **self._connections}

    def connection(self, node_id: NodeId, channel: str = _MAIN_CHANNEL) -> Connection:
        """Return a connection to this broker.

        Requests that wait long use a channel of their own, since responses come in order.
        """
        node = self._nodes.get(node_id)
        if node is None:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"broker {node_id} is not a live broker"
            )
        return self._connection_to(node.address, channel)

    def request_any(self, request: Message, response_class: type[Response]) -> Response:
        """Send an idempotent request to any broker, with retries."""
        return self.retry(lambda: self.any_connection().request(request, response_class))

    def fetch_metadata(
        self, topics: Iterable[str] | None, *, create_missing: bool = False
    ) -> Metadata:
        """Fetch and cache the metadata of these topics, or of all; one try."""
        wanted = (
            None if topics is None else [MetadataRequestTopic(name=name) for name in sorted(topics)]
        )
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create_missing)
        response = self.any_connection().request(request, MetadataResponse)
        if response.error_code:
            raise kafka_error(response.error_code, "the broker refused the metadata request")
        metadata = read_metadata(response)
        self._nodes = metadata.nodes
        self._was_reached = True
        self._topics.update(metadata.topics)
        self._refreshed_s.update(dict.fromkeys(metadata.topics, self._monotonic_s()))
        for name in metadata.errors:
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
        """Return the cached topic, or fetch it; KafkaError if it does not exist.

        It is fetched again if it lacks the partition `with_partition`. If the cached topic is
        older than `max_age_ms`, one refresh is tried; the cached one is used if that fails.
        """
        known = self._topics.get(TopicName(name))
        if known is None or self._should_refetch_for(known, with_partition):
            return self.retry(
                lambda: self._fetch_topic(TopicName(name), create_missing), deadline=deadline
            )
        if (self._monotonic_s() - self._refreshed_s[known.name]) * 1_000 > max_age_ms:
            return self._refresh(known, create_missing)
        return known

    def leader(self, partition: TopicPartition, *, deadline: Deadline | None = None) -> NodeId:
        """Return the leader; KafkaError without such a partition, or (retriable) leader."""
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
        """Whether the partition is in the cached metadata."""
        topic = self._topics.get(partition.topic)
        return topic is not None and partition.partition in topic.partitions

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[NodeId, list[TopicPartition]]:
        """Group partitions by leader."""
        groups: dict[NodeId, list[TopicPartition]] = defaultdict(list)
        for partition in sorted(partitions):
            groups[self.leader(partition)].append(partition)
        return dict(sorted(groups.items()))

    def by_known_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[NodeId | None, list[TopicPartition]]:
        """Group partitions by leader in the cached metadata, without a request.

        Those without a live leader, or not in the metadata, are under None.
        """
        groups: dict[NodeId | None, list[TopicPartition]] = defaultdict(list)
        for partition in sorted(partitions):
            topic = self._topics.get(partition.topic)
            found = None if topic is None else topic.partitions.get(partition.partition)
            leader = None if found is None or found.leader not in self._nodes else found.leader
            groups[leader].append(partition)
        return dict(groups)

    def forget(self, topics: Iterable[str]) -> None:
        """Drop topics from the cache because their metadata proved stale."""
        for name in topics:
            self._topics.pop(TopicName(name), None)

    def retry(
        self,
        attempt: Callable[[], Result],
        *,
        topics: Iterable[str] = (),
        deadline: Deadline | None = None,
    ) -> Result:
        """Call `attempt` until it succeeds, with fresh metadata of `topics` for each retry.

        If no broker was ever reached, all addresses are tried only once.
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
        """Whether the partition is missing and the topic was not fetched for that just now."""
        if partition is None or partition in known.partitions:
            return False
        next_check = self._partition_checks.get(known.name)
        if next_check is not None and not next_check.has_passed:
            return False
        self._partition_checks[known.name] = Deadline(_REFETCH_MS, self._monotonic_s)
        return True

    def _refresh(self, known: Topic, create_missing: bool) -> Topic:
        try:
            return self._fetch_topic(known.name, create_missing)
        except (KafkaError, ClientError) as error:
            if not is_retriable(error):
                raise
            self._topics[known.name] = known
            # Without this every call would try a refresh.
            self._refreshed_s[known.name] = self._monotonic_s()
            return known

    def _fetch_topic(self, name: TopicName, create_missing: bool) -> Topic:
        metadata = self.fetch_metadata([name], create_missing=create_missing)
        refused = metadata.errors.get(name)
        if refused is None:
            return metadata.topics[name]
        if refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not create_missing:
            raise NoSuchTopic(refused.message)
        raise refused


def as_cluster(where: Cluster | str | Sequence[str]) -> Cluster:
    """Return a Cluster unchanged, or make one of addresses."""
    return where if isinstance(where, Cluster) else Cluster(where)


class NoSuchTopic(KafkaError):
    """The cluster has no such topic or partition; not retriable."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)

    @property
    def is_retriable(self) -> bool:
        return False
