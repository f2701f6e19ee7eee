"""Brokers that replicate one partition: real replicas, fetchers and request handlers.

The test is the controller: it elects leaders by a new image, and writes in-sync sets for leaders.
The network delivers every frame after NETWORK_MS and a flush takes FLUSH_MS, all in one schedule.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sawlog.broker.dispatch import served_apis
from sawlog.broker.fetch_sessions import FetchSessions
from sawlog.broker.log_configs import LogConfigs
from sawlog.broker.metadata_cache import MetadataCache
from sawlog.broker.metrics import BrokerMetrics
from sawlog.broker.purgatory import Purgatory
from sawlog.broker.replica_fetchers import ReplicaFetchers
from sawlog.broker.replicas import Replicas
from sawlog.broker.replication_throttle import ReplicationThrottle
from sawlog.broker.request import Request
from sawlog.cluster.isr_changes import IsrWriteError
from sawlog.cluster.leader_election import handed_on, without_damaged_replica
from sawlog.cluster.metadata_image import (
    ALL_BROKERS,
    EMPTY_IMAGE,
    BrokerImage,
    ConfigImage,
    InSyncMember,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from sawlog.cluster.znodes import PartitionState
from sawlog.core.config import BrokerConfig
from sawlog.core.config_dynamic import DynamicBrokerConfig
from sawlog.core.ids import LeaderEpoch, NodeId, TopicId, TopicName, TopicPartition
from sawlog.core.ports import Part
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.codec import encode
from sawlog.protocol.peers import OnResponse, PeerError
from sawlog.protocol.record_batch import check_produced
from sawlog.protocol.records import build_batch
from sawlog.protocol.schema import Message
from sawlog.replication.isr_writer import IsrWritten
from sawlog.replication.replica import Replica
from sawlog.simulation.schedule import Schedule, SeededRandom
from sawlog.simulation.simulated_broker import Call, SimulatedClient
from sawlog.simulation.simulated_disk import SimulatedDisk
from sawlog.storage.log_directory import LogDirectory
from support.storage.logs import headers_in, records

if TYPE_CHECKING:
    from sawlog.core.errors import KafkaError

TOPIC = TopicName("t")
TOPIC_ID = TopicId(bytes(15) + b"\7")
NETWORK_MS = 10
FLUSH_MS = 3


class DelayedCall(Call):
    """A request whose response is decoded and delivered when it was sent back."""

    def __init__(self, client: SimulatedClient, api: ApiKey, version: int, done: Any) -> None:
        super().__init__(client, api, version)
        self._done = done

    def answer(self, parts: Sequence[Part]) -> None:
        super().answer(parts)
        self._done(self.answered)

    def close(self, reason: str) -> None:
        self._done(PeerError(reason))


class Connection:
    """A connection to another broker; its responses come in order."""

    def __init__(self, cluster: "FetchingCluster", source: NodeId, target: NodeId) -> None:
        self._cluster = cluster
        self._source = source
        self._target = target
        self._client = SimulatedClient()
        self._waiting: dict[int, OnResponse] = {}
        self._count = 0

    def send(self, request: Message, done: OnResponse, *, timeout_ms: int) -> None:
        self._count += 1
        number = self._count
        self._waiting[number] = done
        cluster = self._cluster
        if cluster.is_cut(self._source, self._target):
            cluster.schedule.after(NETWORK_MS, partial(self._deliver, number, PeerError("cut")))
            return
        answered = partial(self._answered, number)
        target = cluster.brokers[self._target]
        arrival = partial(target.receive, self._client, request, answered)
        cluster.schedule.after(NETWORK_MS, arrival)

    def _answered(self, number: int, result: Any) -> None:
        if self._cluster.is_cut(self._source, self._target):
            result = PeerError("cut")
        self._cluster.schedule.after(NETWORK_MS, partial(self._deliver, number, result))

    def _deliver(self, number: int, result: Any) -> None:
        done = self._waiting.pop(number, None)
        if done is not None:
            done(result)

    def close(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for done in waiting.values():
            done(PeerError("closed"))


class PeersOf:
    def __init__(self, cluster: "FetchingCluster", node: NodeId) -> None:
        self._cluster = cluster
        self._node = node

    def connect(self, _: str, port: int) -> Connection:
        return Connection(self._cluster, self._node, NodeId(port))


class IsrWriterOf:
    """The IsrWriter of one broker."""

    def __init__(self, cluster: "FetchingCluster", node: NodeId) -> None:
        self.write_isr = cluster.write_isr
        self._cluster = cluster
        self._node = node

    def leave_isr(
        self,
        _name: TopicPartition,
        _topic_id: TopicId,
        partition_epoch: int,
        last_epoch: int,
        done: IsrWritten,
    ) -> None:
        self._cluster.leave_isr(self._node, partition_epoch, last_epoch, done)

    def hand_on(
        self, _name: TopicPartition, _topic_id: TopicId, partition_epoch: int, done: IsrWritten
    ) -> None:
        self._cluster.hand_on(self._node, partition_epoch, done)


class FetchingBroker:
    """The replication of one broker, without its cluster member and its other APIs."""

    def __init__(self, cluster: "FetchingCluster", node: NodeId, settings: dict[str, str]) -> None:
        self._schedule = schedule = cluster.schedule
        self._cluster = cluster
        self.node = node
        self._random = SeededRandom(node)
        self._config = DynamicBrokerConfig(BrokerConfig(settings))
        self.disk = SimulatedDisk(partial(schedule.after, FLUSH_MS))
        self._apis = served_apis()
        self.received = 0  # requests of other brokers
        self._build()

    def _build(self) -> None:
        schedule, config = self._schedule, self._config
        self.metadata = MetadataCache()
        configs = LogConfigs(config, self.metadata)
        self.directory = LogDirectory(
            self.disk, schedule, schedule, self._random, config_for=configs.of_topic
        )
        peers = PeersOf(self._cluster, self.node)
        self.throttle = ReplicationThrottle(self.node, config, self.metadata, schedule)
        self.fetchers = ReplicaFetchers(
            self.node, config, self.metadata, peers, schedule, self.throttle
        )
        self.replicas = Replicas(
            self.node,
            config,
            self.metadata,
            self.directory,
            configs,
            {},
            clock=schedule,
            timer=schedule,
            isr_writer=IsrWriterOf(self._cluster, self.node),
            fetchers=self.fetchers,
        )
        self._context: Any = SimpleNamespace(
            fetch_max_bytes=config["fetch.max.bytes"],
            timer=schedule,
            metadata=self.metadata,
            replicas=self.replicas,
            fetch_sessions=FetchSessions(schedule, self._random, 100),
            purgatory=Purgatory(schedule),
            metrics=BrokerMetrics(),
            throttle=self.throttle,
        )

    def apply(self, image: MetadataImage) -> None:
        old = self.metadata.image
        self.metadata.update(image)
        self._config.reconfigure(*image.broker_configs(self.node))
        self.throttle.apply(old, image)
        self.replicas.apply(old, image)
        self.fetchers.brokers_changed()

    def restart(self, *, kept_batches: int | None = None, kept_bytes: int = 0) -> None:
        """kill -9 and a new process on the same disk, whose log has lost all but some batches, and
        some bytes of the next one."""
        self.fetchers.close()
        for replica in self.replicas.by_partition.values():
            replica.log.flush.listen(None)
        size = None
        if kept_batches is not None:
            headers = headers_in(self.replica.log)[:kept_batches]
            size = sum(header.size for header in headers) + kept_bytes
        self.disk.kill()
        if size is not None:
            self.disk.cut(f"{TOPIC}-0/{0:020}.log", size)
        self._build()
        self.apply(self._cluster.image)

    @property
    def replica(self) -> Replica:
        return self.replicas.by_partition[TOPIC, 0]

    def receive(
        self, client: SimulatedClient, message: Message, done: Callable[[Any], None]
    ) -> None:
        self.received += 1
        key = message.SCHEMA.api_key
        assert key is not None
        api = self._apis[key]
        version = api.max_version
        frame = memoryview(bytes(encode(message, version)))
        call = DelayedCall(client, ApiKey(key), version, done)
        request = Request(call, api, version, 1, "peer")
        try:
            response = api.handle(self._context, request, api.decode(version, frame, 0))
            if response is not None:
                request.reply(response)
        except Exception as error:
            request.fail(error)

    def produce(self, value: bytes, *, is_awaited: bool = False) -> int:
        """Append one record as the leader; returns the offset after it."""
        batch = memoryview(build_batch(records(1, value=value)))
        header = check_produced(batch, max_batch_bytes=1 << 20)
        return self.replica.append(batch, header, is_awaited=is_awaited).base_offset + 1


class FetchingCluster:
    """Some brokers with one replicated partition."""

    is_suspended = False

    def __init__(self, count: int = 3, *, seed: int = 1, **settings: str) -> None:
        self.schedule = Schedule(seed)
        self._cuts: set[frozenset[NodeId]] = set()
        nodes = tuple(NodeId(number) for number in range(1, count + 1))
        brokers = {node: BrokerImage(node, "host", node, None, 100 + node) for node in nodes}
        members = tuple(InSyncMember(node, 100 + node, "") for node in nodes)
        state = PartitionImage(nodes[0], LeaderEpoch(0), nodes, nodes, 0, members)
        topic = TopicImage(TOPIC, TOPIC_ID, (state,))
        self.image = MetadataImage("cluster", nodes[0], brokers, {TOPIC: topic}, {TOPIC_ID: TOPIC})
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.brokers = {node: FetchingBroker(self, node, given) for node in nodes}
        assert self.image is not EMPTY_IMAGE
        for broker in self.brokers.values():
            broker.apply(self.image)

    def __getitem__(self, number: int) -> FetchingBroker:
        return self.brokers[NodeId(number)]

    @property
    def state(self) -> PartitionImage:
        return self.image.topics[TOPIC].partitions[0]

    @property
    def leader(self) -> FetchingBroker:
        return self.brokers[self.state.leader]

    # The controller

    def elect(self, number: int, *, unaware: Sequence[int] = ()) -> None:
        """Make a member of the in-sync set the leader; some brokers do not hear of it."""
        assert number in self.state.isr
        epoch = LeaderEpoch(self.state.leader_epoch + 1)
        self._change(self.state._replace(leader=NodeId(number), leader_epoch=epoch), unaware)

    def elect_uncleanly(self, number: int) -> None:
        """Make a broker that is not in sync the leader, alone in the in-sync set."""
        node = NodeId(number)
        epoch = LeaderEpoch(self.state.leader_epoch + 1)
        member = InSyncMember(node, self.image.brokers[node].epoch, "")
        self._change(
            self.state._replace(
                leader=node,
                leader_epoch=epoch,
                isr=(node,),
                members=(member,),
                unclean_epoch=epoch,
            )
        )

    def inform(self, number: int) -> None:
        """Give a broker the newest image."""
        self[number].apply(self.image)

    def _change(self, state: PartitionImage, unaware: Sequence[int] = ()) -> None:
        state = state._replace(partition_epoch=state.partition_epoch + 1)
        topic = replace(self.image.topics[TOPIC], partitions=(state,))
        self.image = replace(self.image, topics={TOPIC: topic})
        for node, broker in self.brokers.items():
            if node not in unaware:
                broker.apply(self.image)

    def configure(self, *, topic: dict[str, str], brokers: dict[str, str]) -> None:
        """Set the topic's settings and the dynamic settings of all brokers."""
        changed = replace(self.image.topics[TOPIC], configs=topic)
        configs = {ALL_BROKERS: ConfigImage(brokers, 1)}
        self.image = replace(self.image, topics={TOPIC: changed}, configs=configs)
        for broker in self.brokers.values():
            broker.apply(self.image)

    def remove_from_isr(self, number: int) -> None:
        members = tuple(member for member in self.state.members if member.node != number)
        nodes = tuple(member.node for member in members)
        self._change(self.state._replace(isr=nodes, members=members))

    def write_isr(
        self,
        name: TopicPartition,
        topic_id: TopicId,
        leader_epoch: LeaderEpoch,
        members: tuple[InSyncMember, ...],
        partition_epoch: int,
        done: IsrWritten,
    ) -> None:
        assert (name, topic_id) == (TopicPartition(TOPIC, name.partition), TOPIC_ID)

        def write() -> None:
            state = self.state
            if (leader_epoch, partition_epoch) != (state.leader_epoch, state.partition_epoch):
                done(IsrWriteError.STALE)
                return
            nodes = tuple(member.node for member in members)
            done(partition_epoch + 1)
            self._change(state._replace(isr=nodes, members=members))

        self.schedule.after(1, write)

    def leave_isr(
        self, node: NodeId, partition_epoch: int, last_epoch: int, done: IsrWritten
    ) -> None:
        """Write what a broker with a damaged log asks for, as the real one does."""

        def change(old: PartitionState) -> PartitionState:
            is_elected = old.leader == node
            return without_damaged_replica(old, node, is_elected=is_elected, last_epoch=last_epoch)

        self._write_without(partition_epoch, change, done)

    def hand_on(self, node: NodeId, partition_epoch: int, done: IsrWritten) -> None:
        """Write what a broker with a corrupt batch asks for, as the real one does."""
        self._write_without(partition_epoch, lambda old: handed_on(old, node), done)

    def _write_without(
        self,
        partition_epoch: int,
        change: Callable[[PartitionState], PartitionState | None],
        done: IsrWritten,
    ) -> None:
        def write() -> None:
            state = self.state
            new = change(PartitionState(state.leader, state.leader_epoch, state.members, 0))
            if partition_epoch != state.partition_epoch or new is None:
                done(IsrWriteError.STALE)
                return
            done(partition_epoch + 1)
            self._change(
                state._replace(
                    leader=new.leader,
                    leader_epoch=new.leader_epoch,
                    isr=new.isr,
                    members=new.members,
                )
            )

        self.schedule.after(1, write)

    # Faults

    def cut(self, one: int, other: int) -> None:
        self._cuts.add(frozenset((NodeId(one), NodeId(other))))

    def heal(self) -> None:
        self._cuts.clear()

    def is_cut(self, one: NodeId, other: NodeId) -> bool:
        return frozenset((one, other)) in self._cuts

    # Outcomes

    def commit(self, value: bytes) -> int:
        """Produce with acks=all; returns the milliseconds until the record is committed."""
        began_ms = self.schedule.monotonic_ms()
        outcomes: list[KafkaError | None] = []
        replica = self.leader.replica
        replica.when_committed(self.leader.produce(value, is_awaited=True), outcomes.append)
        assert self.schedule.run(lambda: bool(outcomes))
        assert outcomes == [None]
        return self.schedule.monotonic_ms() - began_ms

    def settle(self) -> None:
        """Let all replicas catch up."""
        leader = self.leader.replica.log
        done = self.schedule.run(
            lambda: all(
                broker.replica.log.end_offset == leader.end_offset
                and broker.replica.log.flushed_offset == leader.end_offset
                and broker.replica.high_watermark == leader.end_offset
                for broker in self.brokers.values()
            ),
            max_steps=20_000,
        )
        assert done, "the replicas do not catch up"
