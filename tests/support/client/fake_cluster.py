"""A cluster without sockets: the client's own Cluster on connections that a test answers."""

from collections.abc import Callable, Sequence
from typing import Any

from sawlog.client.errors import ClientError, NoBrokerReachable
from sawlog.client.net.addresses import Address
from sawlog.client.net.cluster import Cluster, Dependent
from sawlog.client.net.connection import Pending
from sawlog.client.net.retries import Deadline
from sawlog.protocol.apis import ApiKey, valid_versions
from sawlog.protocol.codec import decode, encode
from sawlog.protocol.messages.init_producer_id_response import InitProducerIdResponse
from sawlog.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from sawlog.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sawlog.protocol.schema import Message

NO_LEADER = -1
EARLIEST = -2
UNKNOWN_TOPIC = 3


class Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000.0

    def seconds(self) -> float:
        return self.ms / 1_000


class FakeConnection:
    """Records requests; `respond` and `lose` decide the oldest one in flight."""

    def __init__(self, cluster: "FakeCluster", node: int) -> None:
        self._cluster = cluster
        self.node = node
        self.is_open = True
        self.requests: list[Any] = []
        self.in_flight: list[tuple[Any, Pending[Any]]] = []
        self.unanswered: list[Any] = []
        self._errors: dict[int, ClientError] = {}

    def fileno(self) -> int:
        return -1  # as of a closed socket: waiting for it returns at once

    def version(self, api: ApiKey, highest: int | None = None) -> int:
        last = valid_versions(api)[1]
        return last if highest is None else min(last, highest)

    def send(
        self,
        request: Message,
        response_class: type[Message],
        *,
        highest_version: int | None = None,
        timeout_ms: float | None = None,
    ) -> Pending[Any]:
        if self._cluster.send_error is not None:
            raise self._cluster.send_error
        api = ApiKey(request.SCHEMA.api_key)
        deadline = Deadline(timeout_ms or 30_000, self._cluster.clock.seconds)
        version = self.version(api, highest_version)
        pending = Pending(api, version, len(self.requests), response_class, deadline)
        self.requests.append(request)
        self.in_flight.append((request, pending))
        return pending

    def send_without_response(
        self, request: Message, *, highest_version: int | None = None
    ) -> None:
        self.unanswered.append(request)

    def poll(self, pending: Pending[Any]) -> Any:
        if pending.correlation_id in self._errors:
            raise self._errors[pending.correlation_id]
        return pending.response

    def request(self, request: Message, response_class: type[Message], **_: Any) -> Any:
        return self._cluster.answer(ApiKey(request.SCHEMA.api_key), request)

    def respond(self, respond: Callable[[Any], Message]) -> None:
        """Answer the oldest request in flight with `respond(request)`."""
        request, pending = self.in_flight.pop(0)
        encoded = encode(respond(request), pending.version)
        pending.response = decode(pending.response_class, pending.version, encoded)

    def lose(self, error: ClientError) -> None:
        """Let the oldest request in flight fail."""
        _, pending = self.in_flight.pop(0)
        self._errors[pending.correlation_id] = error


class FakeCluster(Cluster):
    """`leaders` has the leader's node id of each partition; `logs` has (start, end) offsets."""

    def __init__(self, **leaders: Sequence[int]) -> None:
        self.clock = Clock()
        super().__init__("fake:9092", monotonic_s=self.clock.seconds)
        self.leaders: dict[str, list[int]] = {name: list(nodes) for name, nodes in leaders.items()}
        self.logs: dict[tuple[str, int], tuple[int, int]] = {}
        self.has_topic_ids = True
        self.is_reachable = True
        self.send_error: ClientError | None = None
        self.metadata_fetches = 0
        self.producer_ids = 0
        self.by_node: dict[int, FakeConnection] = {}

    def sibling(self) -> "FakeCluster":
        return self

    def close_with(self, dependent: Dependent) -> None:
        """Ignore it: a sibling that is this very object would close its dependents for ever."""

    def any_connection(self) -> Any:
        if not self.is_reachable:
            raise NoBrokerReachable("no broker can be reached")
        return FakeConnection(self, 0)

    def _connection_to(self, address: Address, channel: str = "") -> Any:
        return self.node(address.port)

    def node(self, node: int) -> FakeConnection:
        return self.by_node.setdefault(node, FakeConnection(self, node))

    def answer(self, api: ApiKey, request: Any) -> Message:
        if api is ApiKey.METADATA:
            self.metadata_fetches += 1
            return self._metadata(request)
        if api is ApiKey.INIT_PRODUCER_ID:
            self.producer_ids += 1
            return InitProducerIdResponse(producer_id=1_000 + self.producer_ids)
        assert api is ApiKey.LIST_OFFSETS
        return self._list_offsets(request)

    def _metadata(self, request: Any) -> MetadataResponse:
        nodes = sorted({node for nodes in self.leaders.values() for node in nodes if node >= 0})
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=n, host="fake", port=n) for n in nodes],
            cluster_id="fake",
            topics=[self._topic(topic.name) for topic in request.topics],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.leaders:
            return MetadataResponseTopic(error_code=UNKNOWN_TOPIC, name=name)
        return MetadataResponseTopic(
            name=name,
            topic_id=name.encode().ljust(16, b".") if self.has_topic_ids else bytes(16),
            partitions=[
                MetadataResponsePartition(partition_index=index, leader_id=node, leader_epoch=5)
                for index, node in enumerate(self.leaders[name])
            ],
        )

    def _list_offsets(self, request: Any) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=entry.partition_index,
                            offset=self.logs[topic.name, entry.partition_index][
                                0 if entry.timestamp == EARLIEST else 1
                            ],
                        )
                        for entry in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
