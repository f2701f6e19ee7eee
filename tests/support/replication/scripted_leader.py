"""Peers whose responses a test scripts, and a broker that follows partitions through them."""

from collections import deque
from typing import Any

from sawlog.broker.metadata_cache import MetadataCache
from sawlog.broker.replica_fetchers import ReplicaFetchers
from sawlog.broker.replication_throttle import ReplicationThrottle
from sawlog.cluster.metadata_image import BrokerImage, MetadataImage
from sawlog.core.config import BrokerConfig
from sawlog.core.config_dynamic import DynamicBrokerConfig
from sawlog.core.ids import LeaderEpoch, NodeId, PartitionIndex, TopicId, TopicName, TopicPartition
from sawlog.protocol.apis import ApiKey, response_class, valid_versions
from sawlog.protocol.codec import decode, encode
from sawlog.protocol.messages.fetch_request import FetchPartition, FetchRequest
from sawlog.protocol.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from sawlog.protocol.peers import OnResponse, PeerError
from sawlog.protocol.schema import Message
from sawlog.replication.leader import ReplicationContext
from sawlog.replication.replica import Replica
from support.storage.logs import SimulatedStorage

NODE = NodeId(1)
LEADER = NodeId(2)
OTHER_LEADER = NodeId(3)
TOPIC = TopicName("t")
TOPIC_ID = TopicId(bytes(15) + b"\1")
SESSION = 77
FLUSH_MS = 2


def through_wire(message: Message, message_class: type[Any], api: ApiKey) -> Any:
    version = valid_versions(api)[1]
    return decode(message_class, version, memoryview(bytes(encode(message, version))))


class ScriptedConnection:
    """A connection whose requests wait until the test answers them, in their order."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.requests: deque[tuple[Any, OnResponse]] = deque()
        self.is_closed = False

    def send(self, request: Message, done: OnResponse, *, timeout_ms: int) -> None:
        assert timeout_ms > 0
        api = request.SCHEMA.api_key
        assert api is not None
        self.requests.append((through_wire(request, type(request), ApiKey(api)), done))

    def close(self) -> None:
        self.is_closed = True
        while self.requests:
            self.requests.popleft()[1](PeerError("closed"))

    def answer(self, result: Message | PeerError) -> Any:
        """Answer the oldest request, and return it."""
        request, done = self.requests.popleft()
        if isinstance(result, Message):
            api = ApiKey(request.SCHEMA.api_key)
            result = through_wire(result, response_class(api), api)
        done(result)
        return request


class ScriptedPeers:
    def __init__(self) -> None:
        self.connections: list[ScriptedConnection] = []

    def connect(self, host: str, port: int) -> ScriptedConnection:
        connection = ScriptedConnection((host, port))
        self.connections.append(connection)
        return connection

    def open_to(self, host: str) -> list[ScriptedConnection]:
        return [c for c in self.connections if c.address[0] == host and not c.is_closed]


class FollowingBroker(SimulatedStorage):
    """The storage and the fetchers of one broker that follows partitions of one topic."""

    def __init__(self, **settings: str) -> None:
        super().__init__(disk_delay_ms=FLUSH_MS)
        values = {name.replace("_", "."): value for name, value in settings.items()}
        config = DynamicBrokerConfig(BrokerConfig(values))
        self.metadata = MetadataCache()
        self.context = ReplicationContext(
            NODE,
            self.schedule,
            self.schedule,
            live_brokers=lambda: self.metadata.image.brokers,
            commits_on_flush=config["flush.policy"] == "commit",
        )
        self.set_brokers(leader_port=9092)
        self.peers = ScriptedPeers()
        self.throttle = ReplicationThrottle(NODE, config, self.metadata, self.schedule)
        self.fetchers = ReplicaFetchers(
            NODE, config, self.metadata, self.peers, self.schedule, self.throttle
        )
        self.replicas: dict[int, Replica] = {}

    def set_brokers(self, *, leader_port: int | None) -> None:
        """Set the addresses in the image; None: the leader is not alive."""
        ports = {NODE: 9091, LEADER: leader_port, OTHER_LEADER: 9093}
        brokers = {
            node: BrokerImage(node, f"host{node}", port, None, 100 + node)
            for node, port in ports.items()
            if port is not None
        }
        self.metadata.update(MetadataImage(brokers=brokers))

    def follow(self, index: int = 0, *, epoch: int = 0, leader: NodeId = LEADER) -> Replica:
        """Follow a partition, which is created first if necessary, and send what is due."""
        replica = self.replicas.get(index)
        if replica is None:
            name = TopicPartition(TOPIC, PartitionIndex(index))
            log = self.directory.create(name, TOPIC_ID, self.config)
            replica = self.replicas[index] = Replica(log, name, TOPIC_ID, self.context)
        replica.follow(LeaderEpoch(epoch), leader)
        self.fetchers.role_changed(replica)
        self.schedule.run_for(0)
        return replica

    @property
    def connection(self) -> ScriptedConnection:
        """The connection for fetches from `LEADER`."""
        return self.peers.open_to(f"host{LEADER}")[0]

    @property
    def requests(self) -> list[FetchRequest]:
        return [request for request, _ in self.connection.requests]

    def answer(self, *partitions: PartitionData, session_id: int = SESSION, error: int = 0) -> None:
        """Answer the oldest fetch, and let the broker send what is due."""
        topics = [FetchableTopicResponse(TOPIC, TOPIC_ID, list(partitions))] if partitions else []
        self.connection.answer(
            FetchResponse(error_code=error, session_id=session_id, responses=topics)
        )
        self.schedule.run_for(0)


def fetched(request: FetchRequest) -> dict[int, FetchPartition]:
    """The partitions of a request."""
    return {partition.partition: partition for t in request.topics for partition in t.partitions}


def forgotten(request: FetchRequest) -> list[int]:
    return [index for topic in request.forgotten_topics_data for index in topic.partitions]


def data(
    index: int = 0,
    records: bytes | memoryview = b"",
    *,
    watermark: int = 0,
    start: int = 0,
    error: int = 0,
    is_awaited: bool = False,
) -> PartitionData:
    found = PartitionData(index, error, watermark, watermark, start)
    found.records = bytes(records)
    found.is_awaited = is_awaited
    return found
