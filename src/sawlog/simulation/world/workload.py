"""The clients of a run: producers of all kinds, consumers, group members, and a last reader."""

from collections.abc import Callable
from random import Random as Generator
from typing import Any

from sawlog.cluster.znodes import decode_assignment, topic_path
from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sawlog.simulation.clients.admin_client import AdminClient
from sawlog.simulation.clients.classic_member import ClassicMember
from sawlog.simulation.clients.cluster_client import RETRY_MS, ClusterClient
from sawlog.simulation.clients.consumer_member import ConsumerMember
from sawlog.simulation.clients.offset_reader import OffsetReader
from sawlog.simulation.clients.partition_reader import ConsumerClient
from sawlog.simulation.clients.producer_client import ProducerClient
from sawlog.simulation.clients.record_deleter import RecordDeleter
from sawlog.simulation.cluster_profile import Cleanup, ClusterProfile
from sawlog.simulation.history.history import ACKS_ALL, History
from sawlog.simulation.world.simulated_cluster import SimulatedCluster

TOPIC = "simulated"
OFFSETS_TOPIC = "__consumer_offsets"
GROUP = "group"
CLASSIC_GROUP = "classic-group"
LATE_MS = 5_000
KEYS = 5
"""Different keys of a compacted topic."""
PARTITIONS = 3
SMALL_SEGMENTS = {"internal.segment.bytes": "4000", "index.interval.bytes": "500"}
SETTLED = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS})


def create_topic(
    client: ClusterClient, factor: int, configs: dict[str, str], created: Callable[[], None]
) -> None:
    """Create the topic of a client; retry until it exists, then call `created`."""
    topic = CreatableTopic(
        client.topic,
        PARTITIONS,
        factor,
        configs=[CreatableTopicConfig(name, value) for name, value in configs.items()],
    )

    def answered(response: Any) -> None:
        if response is not None and response.topics[0].error_code in SETTLED:
            created()
        else:
            client.schedule.after(RETRY_MS, attempt)

    def attempt() -> None:
        request = CreateTopicsRequest([topic], timeout_ms=3_000)
        client.send(client.any_node(), request, answered)

    attempt()


class ClusterWorkload:
    """Clients whose number and kind the seed decides; all of them write to one history."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        seed: int,
        replication_factor: int,
        profile: ClusterProfile,
    ) -> None:
        self._cluster = cluster
        self._seed = seed
        self._profile = profile
        self._factor = replication_factor
        self.min_in_sync = max(1, replication_factor - 1)
        self.history = History(cleanup=profile.cleanup)
        self.deleted: dict[int, int] = {}
        """By partition: the offset up to which a client asked to delete records."""
        self.producers: list[ProducerClient] = []
        self.groups: set[str] = set()
        """The groups that have members."""
        self._clients: list[ClusterClient] = []
        self._last_reader: ConsumerClient | None = None
        self.has_topic = False
        self._is_stopped = False

    def create_topic(self) -> None:
        """Create the topic, with segments so small that logs roll often; retry until it exists."""

        def created() -> None:
            self.has_topic = True

        client = ClusterClient(self._cluster, "admin", TOPIC, self._seed)
        configs = {
            **SMALL_SEGMENTS,
            "min.insync.replicas": str(self.min_in_sync),
            **self._profile.topic_configs,
        }
        create_topic(client, self._factor, configs, created)

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
                keys=KEYS if self._profile.is_compacted else 0,
            )
            self.producers.append(producer)
            producer.start()
        for number in range(generator.randrange(1, 3)):
            consumer = ConsumerClient(
                self._cluster, f"consumer-{number}", TOPIC, self._seed + 50 + number
            )
            consumer.read(self.history)
            self._clients.append(consumer)
        for number in range(generator.randrange(3)):
            member = ConsumerMember(
                self._cluster,
                f"member-{number}",
                TOPIC,
                self._seed + 80 + number,
                self.history,
                GROUP,
            )
            member.start()
            self._clients.append(member)
            self.groups.add(GROUP)
        self._clients += self.producers
        self._start_offset_reader("offsets", self._seed + 70, GROUP)
        self._start_by_profile()

    def _start_by_profile(self) -> None:
        """Start the clients that only some clusters have."""
        count = self._profile.classic_members
        for number in range(count):
            name = f"classic-{number}"
            seed = self._seed + 60 + number
            member = ClassicMember(self._cluster, name, TOPIC, seed, self.history, CLASSIC_GROUP)
            member.start()
            self._clients.append(member)
        if count:
            self.groups.add(CLASSIC_GROUP)
            self._start_offset_reader("classic-offsets", self._seed + 69, CLASSIC_GROUP)
        if self._profile.cleanup is Cleanup.DELETE_RECORDS:
            deleter = RecordDeleter(self._cluster, "deleter", TOPIC, self._seed + 68)
            deleter.start(self.history, self.deleted)
            self._clients.append(deleter)
        if self._profile.is_compacted:
            admin = AdminClient(self._cluster, "config-admin", TOPIC, self._seed + 65)
            admin.set_config(OFFSETS_TOPIC, "internal.segment.bytes", "2000")
        if self._profile.cleanup is not Cleanup.NONE:
            self._cluster.schedule.after(LATE_MS, self.start_late_consumer)

    def start_late_consumer(self) -> None:
        """Start a consumer at the first offset: its first records may be deleted, compacted or
        corrupt."""
        if not self._is_stopped:
            consumer = ConsumerClient(self._cluster, "late-consumer", TOPIC, self._seed + 66)
            consumer.read(self.history)
            self._clients.append(consumer)

    def _start_offset_reader(self, name: str, seed: int, group: str) -> None:
        reader = OffsetReader(self._cluster, name, TOPIC, seed, self.history, group)
        reader.start()
        self._clients.append(reader)

    def stop(self) -> None:
        self._is_stopped = True
        for client in self._clients:
            client.is_stopped = True

    def read_everything(self) -> None:
        """Begin to read all partitions from the start, into `History.last_reads`."""
        reader = ConsumerClient(self._cluster, "last-reader", TOPIC, self._seed + 99)
        self._last_reads = History()
        reader.read(self._last_reads)
        self._last_reader = reader

    @property
    def has_read_everything(self) -> bool:
        """Whether the last reader has reached the high watermark of every partition."""
        assert self._last_reader is not None
        readers = self._last_reader.readers
        count = len(decode_assignment(self._cluster.service.tree.get(topic_path(TOPIC))).replicas)
        if len(readers) < count or not all(
            0 <= reader.high_watermark <= reader.position for reader in readers.values()
        ):
            return False
        self._last_reader.is_stopped = True
        reads: dict[int, list[tuple[int, bytes]]] = {index: [] for index in range(count)}
        for poll in self._last_reads.polls:
            reads[poll.partition] += poll.records
        self.history.last_reads = reads
        self.history.out_of_range += self._last_reads.out_of_range
        return True
