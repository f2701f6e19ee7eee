"""The clients of a run: producers of all kinds, consumers, group members, and a last reader."""

from random import Random as Generator
from typing import Any

from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sawlog.simulation.clients.cluster_client import RETRY_MS, ClusterClient
from sawlog.simulation.clients.group_member import GroupMember
from sawlog.simulation.clients.offset_reader import OffsetReader
from sawlog.simulation.clients.partition_reader import ConsumerClient
from sawlog.simulation.clients.producer_client import ProducerClient
from sawlog.simulation.history.history import ACKS_ALL, History
from sawlog.simulation.world.simulated_cluster import SimulatedCluster

TOPIC = "simulated"
GROUP = "group"
PARTITIONS = 3
SETTLED = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS})


class ClusterWorkload:
    """Clients whose number and kind the seed decides; all of them write to one history."""

    def __init__(self, cluster: SimulatedCluster, seed: int, replication_factor: int) -> None:
        self._cluster = cluster
        self._seed = seed
        self._factor = replication_factor
        self.min_in_sync = max(1, replication_factor - 1)
        self.history = History()
        self.producers: list[ProducerClient] = []
        self._clients: list[ClusterClient] = []
        self._last_reader: ConsumerClient | None = None
        self.has_topic = False

    def create_topic(self) -> None:
        """Create the topic, with segments so small that logs roll often; retry until it exists."""
        client = ClusterClient(self._cluster, "admin", TOPIC, self._seed)
        configs = {
            "internal.segment.bytes": "4000",
            "index.interval.bytes": "500",
            "min.insync.replicas": str(self.min_in_sync),
        }
        topic = CreatableTopic(
            TOPIC,
            PARTITIONS,
            self._factor,
            configs=[CreatableTopicConfig(name, value) for name, value in configs.items()],
        )

        def answered(response: Any) -> None:
            if response is not None and response.topics[0].error_code in SETTLED:
                self.has_topic = True
            else:
                self._cluster.schedule.after(RETRY_MS, attempt)

        def attempt() -> None:
            request = CreateTopicsRequest([topic], timeout_ms=3_000)
            client.send(client.any_node(), request, answered)

        attempt()

    def start(self) -> None:
        generator = Generator(self._seed)
        for number in range(generator.randrange(2, 5)):
            is_idempotent = generator.random() < 0.5
            producer = ProducerClient(
                self._cluster,
                f"producer-{number}",
                TOPIC,
                self._seed + number,
                self.history,
                acks=ACKS_ALL if is_idempotent or generator.random() < 0.6 else 1,
                is_idempotent=is_idempotent,
            )
            self.producers.append(producer)
            producer.start()
        for number in range(generator.randrange(1, 3)):
            consumer = ConsumerClient(
                self._cluster, f"consumer-{number}", TOPIC, self._seed + 50 + number
            )
            consumer.read(PARTITIONS, self.history)
            self._clients.append(consumer)
        for number in range(generator.randrange(3)):
            member = GroupMember(
                self._cluster,
                f"member-{number}",
                TOPIC,
                self._seed + 80 + number,
                self.history,
                GROUP,
            )
            member.start()
            self._clients.append(member)
        reader = OffsetReader(
            self._cluster, "offsets", TOPIC, self._seed + 70, self.history, GROUP, PARTITIONS
        )
        reader.start()
        self._clients += [*self.producers, reader]

    def stop(self) -> None:
        for client in self._clients:
            client.is_stopped = True

    def read_everything(self) -> None:
        """Begin to read all partitions from the start, into `History.last_reads`."""
        reader = ConsumerClient(self._cluster, "last-reader", TOPIC, self._seed + 99)
        self._last_reads = History()
        reader.read(PARTITIONS, self._last_reads)
        self._last_reader = reader

    @property
    def has_read_everything(self) -> bool:
        """Whether the last reader has reached the high watermark of every partition."""
        assert self._last_reader is not None
        readers = self._last_reader.readers
        if not all(0 <= reader.high_watermark <= reader.position for reader in readers):
            return False
        self._last_reader.is_stopped = True
        reads: dict[int, list[tuple[int, bytes]]] = {index: [] for index in range(PARTITIONS)}
        for poll in self._last_reads.polls:
            reads[poll.partition] += poll.records
        self.history.last_reads = reads
        return True
