"""Sends fetches to the leaders of partitions and takes their responses.

Each leader has at most one fetch in flight. After a retriable error (a lost connection, a moved
leader) the next fetch waits for a backoff and fresh metadata, until the cluster's timeout is over.
`assigned_partitions` handles the errors of single partitions, such as OFFSET_OUT_OF_RANGE.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sawlog.client.errors import ClientError, kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.connection import Connection, Pending
from sawlog.client.net.metadata import Topic
from sawlog.client.net.retries import Backoff, Deadline, is_retriable
from sawlog.client.net.wakeup import wait_readable
from sawlog.core.errors import KafkaError
from sawlog.core.ids import NodeId, TopicPartition
from sawlog.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from sawlog.protocol.messages.fetch_response import FetchResponse, PartitionData

_LAST_VERSION_WITH_NAMES = 12
_NO_SESSION_EPOCH = -1
_GRACE_MS = 5_000
_ONE_TRY_MS = 0
_CHANNEL = "fetch"


class FetchLimits(NamedTuple):
    """fetch.max.wait.ms, fetch.min.bytes, fetch.max.bytes and max.partition.fetch.bytes."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


class PartitionFetch(NamedTuple):
    """A partition's part of a fetch response."""

    partition: TopicPartition
    offset: int  # the fetch offset of the request
    data: PartitionData


class _InFlight(NamedTuple):
    """One fetch; the partitions by topic name or id, as the response will have it, and index."""

    connection: Connection
    pending: Pending[FetchResponse]
    requested: dict[tuple[str | bytes, int], tuple[TopicPartition, int]]


class Fetcher:
    """Keeps the last error that is fatal, or lasted too long, for `raise_failure`.

    Such a failure does not stop the fetches of other partitions.
    """

    def __init__(self, cluster: Cluster, limits: FetchLimits, *, read_committed: bool) -> None:
        self._cluster = cluster
        self._limits = limits
        self._read_committed = read_committed
        self._requests: dict[NodeId, _InFlight] = {}
        self._backoff_until: Deadline | None = None
        self._backoff = Backoff()
        self._retry_deadline: Deadline | None = None
        self._failure: KafkaError | ClientError | None = None

    def send(self, wanted: Mapping[TopicPartition, int]) -> None:
        """Fetch these partitions from these offsets, where the leader has no fetch in flight."""
        if self._backoff_until is not None and not self._backoff_until.has_passed:
            return
        by_leader: dict[NodeId, dict[TopicPartition, int]] = defaultdict(dict)
        topics: dict[str, Topic] = {}
        failures: list[tuple[KafkaError | ClientError, str]] = []
        is_reachable = True
        for partition, offset in wanted.items():
            if not is_reachable and not self._cluster.knows_leader(partition):
                continue  # would wait for an unreachable cluster again
            try:
                leader = self._cluster.leader(partition, deadline=Deadline(_ONE_TRY_MS))
            except (KafkaError, ClientError) as error:
                failures.append((error, partition.topic))
                is_reachable = is_reachable and not isinstance(error, ClientError)
            else:
                by_leader[leader][partition] = offset
                topics[partition.topic] = self._cluster.topic(partition.topic)
        for failure, topic in failures:
            self.failed(failure, [topic])
        for node, requested in by_leader.items():
            if node not in self._requests:
                self._send_to(node, requested, topics)

    def wait(self, timeout_ms: float, also: Iterable[int] = ()) -> None:
        """Wait until a response arrives or a descriptor in `also` can be read.

        Returns earlier when a backoff or a request timeout is over.
        """
        waits_ms = [timeout_ms]
        waits_ms += [request.pending.deadline.remaining_ms for request in self._requests.values()]
        if self._backoff_until is not None and not self._backoff_until.has_passed:
            waits_ms.append(self._backoff_until.remaining_ms)
        connections = [request.connection for request in self._requests.values()]
        if all(connection.is_open for connection in connections):
            watched = [*(connection.fileno() for connection in connections), *also]
            wait_readable(watched, min(waits_ms))

    @property
    def has_in_flight(self) -> bool:
        return bool(self._requests)

    def take_responses(self) -> list[PartitionFetch]:
        """Return the responses that have arrived since the last call, by partition."""
        found: list[PartitionFetch] = []
        for node, request in list(self._requests.items()):
            topics = {partition.topic for partition, _ in request.requested.values()}
            try:
                response = request.connection.poll(request.pending)
                if response is None:
                    continue
                del self._requests[node]
                if response.error_code:
                    raise kafka_error(response.error_code, f"broker {node} refused a fetch")
            except (KafkaError, ClientError) as error:
                self._requests.pop(node, None)
                self.failed(error, topics)
            else:
                found += _partition_fetches(request, response)
        return found

    def succeeded(self) -> None:
        """Reset backoff and retry time: data was received."""
        self._backoff_until = self._retry_deadline = None
        self._backoff = Backoff()

    def failed(self, error: KafkaError | ClientError, topics: Iterable[str]) -> None:
        """Back off and forget the topics' metadata, or keep the error for `raise_failure`."""
        if self._retry_deadline is None:
            self._retry_deadline = self._cluster.deadline()
        if not is_retriable(error) or self._retry_deadline.has_passed:
            self.succeeded()
            self.fail(error)
            return
        self._cluster.forget(topics)
        if self._backoff_until is None or self._backoff_until.has_passed:
            self._backoff_until = self._cluster.deadline(self._backoff.next_ms())

    def fail(self, error: KafkaError | ClientError) -> None:
        """Keep an error for `raise_failure`."""
        self._failure = error

    def drop_failure(self) -> None:
        self._failure = None

    def raise_failure(self) -> None:
        """Raise the failure, if there is one, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _send_to(
        self, node: NodeId, wanted: Mapping[TopicPartition, int], known: Mapping[str, Topic]
    ) -> None:
        limits = self._limits
        topics = self._topics(wanted, known)
        has_ids = all(known[topic.topic].has_id for topic in topics)
        try:
            connection = self._cluster.connection(node, _CHANNEL)
            pending = connection.send(
                FetchRequest(
                    max_wait_ms=limits.max_wait_ms,
                    min_bytes=limits.min_bytes,
                    max_bytes=limits.max_bytes,
                    isolation_level=int(self._read_committed),
                    session_epoch=_NO_SESSION_EPOCH,
                    topics=topics,
                ),
                FetchResponse,
                highest_version=None if has_ids else _LAST_VERSION_WITH_NAMES,
                timeout_ms=self._cluster.request_timeout_ms + limits.max_wait_ms + _GRACE_MS,
            )
        except (KafkaError, ClientError) as error:
            self.failed(error, {partition.topic for partition in wanted})
            return
        by_id = pending.version > _LAST_VERSION_WITH_NAMES
        ids = {topic.topic: topic.topic_id for topic in topics}
        requested: dict[tuple[str | bytes, int], tuple[TopicPartition, int]] = {
            (ids[name] if by_id else name, index): (TopicPartition(name, index), offset)
            for (name, index), offset in wanted.items()
        }
        self._requests[node] = _InFlight(connection, pending, requested)

    def _topics(
        self, wanted: Mapping[TopicPartition, int], known: Mapping[str, Topic]
    ) -> list[FetchTopic]:
        topics: dict[str, FetchTopic] = {}
        for (name, index), offset in wanted.items():
            topic = topics.setdefault(name, FetchTopic(topic=name, topic_id=known[name].id))
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    fetch_offset=offset,
                    partition_max_bytes=self._limits.partition_max_bytes,
                )
            )
        return list(topics.values())


def _partition_fetches(request: _InFlight, response: FetchResponse) -> list[PartitionFetch]:
    found: list[PartitionFetch] = []
    for topic in response.responses:
        for data in topic.partitions:
            requested = request.requested.get((topic.topic or topic.topic_id, data.partition_index))
            if requested is not None:
                found.append(PartitionFetch(*requested, data))
    return found
