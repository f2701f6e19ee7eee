"""The base of simulated clients: connections by broker id, and metadata that is asked for again
whenever a broker does not lead or does not answer."""

from collections.abc import Callable, Iterable
from random import Random as Generator
from typing import TYPE_CHECKING, Any

from sawlog.core.errors import ErrorCode
from sawlog.core.ids import NodeId
from sawlog.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from sawlog.protocol.peers import PeerError
from sawlog.protocol.record_batch import batches_in, check_crc
from sawlog.protocol.records import iterate
from sawlog.protocol.schema import Message
from sawlog.simulation.world.simulated_node import PORT

if TYPE_CHECKING:
    from sawlog.protocol.messages.fetch_response import AbortedTransaction
    from sawlog.protocol.peer_channel import PeerChannel
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster

REQUEST_TIMEOUT_MS = 4_000
RETRY_MS = 100
LIMIT_BYTES = 1 << 20

OnAnswer = Callable[[Any], None]
"""Called with the response, or with None if there is none."""


class ClusterClient:
    """A client of one topic. `is_stopped` ends its loops after the requests in flight."""

    def __init__(self, cluster: "SimulatedCluster", name: str, topic: str, seed: int) -> None:
        self._cluster = cluster
        self.schedule = cluster.schedule
        self.name = name
        self.topic = topic
        self.topic_id = b""
        self.leaders: dict[int, NodeId] = {}
        self.is_stopped = False
        self.generator = Generator(seed)
        self._peers = cluster.network.peers(name, cluster.schedule.scope())
        self._connections: dict[tuple[NodeId, str], PeerChannel] = {}

    def send(
        self,
        node: NodeId,
        request: Message,
        answered: OnAnswer,
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        purpose: str = "",
        highest_version: int | None = None,
    ) -> None:
        """Send a request on the connection for this purpose."""
        connection = self._connections.get((node, purpose))
        if connection is None:
            host = self._cluster.nodes[node].host
            connection = self._connections[node, purpose] = self._peers.connect(host, PORT)

        requests = self._cluster.requests
        number = requests.sent(f"{type(request).__name__} of {self.name} to broker {node}")

        def done(response: Message | PeerError) -> None:
            requests.ended(number, response if isinstance(response, PeerError) else None)
            answered(None if isinstance(response, PeerError) else response)

        connection.send(request, done, timeout_ms=timeout_ms, highest_version=highest_version)

    def any_node(self) -> NodeId:
        return self.generator.choice(list(self._cluster.nodes))

    def leader_of(self, partition: int) -> NodeId | None:
        leader = self.leaders.get(partition)
        return leader if leader in self._cluster.nodes else None

    def refresh(self, then: Callable[[], None]) -> None:
        """Ask any broker for the leaders, and call `then` a little later, answered or not."""

        def answered(response: Any) -> None:
            if response is not None:
                self._update(response)
            self.schedule.after(RETRY_MS, then)

        topics = [MetadataRequestTopic(name=self.topic)]
        request = MetadataRequest(topics, allow_auto_topic_creation=False)
        self.send(self.any_node(), request, answered, timeout_ms=1_000, purpose="metadata")

    def _update(self, response: Any) -> None:
        topic = response.topics[0]
        if topic.error_code == ErrorCode.NONE:
            self.topic_id = topic.topic_id
            self.leaders = {
                partition.partition_index: NodeId(partition.leader_id)
                for partition in topic.partitions
            }


def read_records(
    data: memoryview | bytes | None,
    position: int,
    aborted: "Iterable[AbortedTransaction] | None" = None,
) -> tuple[tuple[tuple[int, bytes], ...], int]:
    """Return offset and value of the records of whole batches, from the consumer's position on, and
    its next position; CORRUPT_MESSAGE if a batch does not match its CRC.

    Control batches are left out, and so are the records of the aborted transactions, which a
    read_committed response lists.
    """
    records: list[tuple[int, bytes]] = []
    view = memoryview(data or b"")
    next_position = position
    pending = sorted(aborted or (), key=lambda each: each.first_offset, reverse=True)
    skipped: set[int] = set()  # producers inside an aborted transaction
    for start, header in batches_in(view):
        batch = view[start : start + header.size]
        check_crc(batch, header)
        while pending and pending[-1].first_offset <= header.last_offset:
            skipped.add(pending.pop().producer_id)
        if header.is_control:
            skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            records += [
                (record.offset, record.value or b"")
                for record in iterate(batch, max_decompressed_bytes=LIMIT_BYTES)
                if record.offset >= position
            ]
        next_position = max(next_position, header.next_offset)
    return tuple(records), next_position
