"""Makes the faults of a plan happen, and heals them."""

from collections.abc import Callable, Iterable
from functools import partial
from random import Random as Generator

from sawlog.cluster.metadata_image import InSyncMember
from sawlog.cluster.znodes import PartitionState, decode_assignment, topic_path
from sawlog.core.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from sawlog.core.store import SessionState
from sawlog.protocol.record_batch import HEADER_SIZE, read_header
from sawlog.simulation.clients.admin_client import AdminClient
from sawlog.simulation.clients.topic_replacer import REPLACED_TOPIC, TopicReplacer
from sawlog.simulation.simulated_network import NO_FAULTS, NetworkFaults
from sawlog.simulation.world.faults import Fault, FaultKind
from sawlog.simulation.world.simulated_cluster import SimulatedCluster
from sawlog.simulation.world.simulated_node import SimulatedNode
from sawlog.simulation.world.workload import OFFSETS_TOPIC

SLOW_NETWORK = NetworkFaults(clogs=0.1, clog_ms=300)
LOSSY_NETWORK = NetworkFaults(breaks=0.02, half_open=0.3)
MAX_PARTITIONS = 5
QUICK_RESTART_MS = 1_000
SEGMENT_SIZES = (600, 1_500, 6_000)


class FaultInjector:
    """A fault that does not fit the state of its broker (a kill of one that is down) is skipped.

    A disk is lost only if its broker is not, and does not become, the last in-sync member of a
    partition: by guarantee 16 such a partition is offline for good, which is right. So as long as
    a stored in-sync set has a lost directory, no fault begins by which other members leave first:
    they may only be restarted within their sessions. Once the sets are without the lost directory,
    everything may fail again.

    With `flush.policy=os` the same holds for a power loss: an unclean stop counts as a damaged
    directory, so nothing acknowledged is lost if the other members of each in-sync set stay until
    the controller has removed the one that came back. Instead of other power losses the process is
    killed, which loses nothing on any number of brokers.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        partitions: Callable[[], Iterable[PartitionState]],
        admin: AdminClient,
        replacer: TopicReplacer,
        min_replicas: int,
        max_replicas: int,
    ) -> None:
        """`partitions` returns the stored state of each partition; reassignments give each one
        `min_replicas` to `max_replicas`."""
        self._cluster = cluster
        self._partitions = partitions
        self.admin = admin
        self._replica_counts = range(min_replicas, max_replicas + 1)
        self._lost_directories: set[str] = set()
        self._lost_members: set[InSyncMember] = set()
        self._begin: dict[FaultKind, Callable[[Fault, SimulatedNode], None]] = {
            FaultKind.KILL: self._kill,
            FaultKind.POWER_LOSS: self._power_loss,
            FaultKind.POWER_LOSS_OF_ALL: self._power_loss_of_all,
            FaultKind.STOP: self._stop,
            FaultKind.PAUSE: self._pause,
            FaultKind.EMPTY_DISK: self._empty_disk,
            FaultKind.FULL_DISK: self._full_disk,
            FaultKind.FAILED_FSYNC: self._failed_fsync,
            FaultKind.SLOW_DISK: self._slow_disk,
            FaultKind.CLOCK_JUMP: self._clock_jump,
            FaultKind.SUSPENDED_SESSION: self._suspend,
            FaultKind.EXPIRED_SESSION: self._expire,
            FaultKind.STORE_DOWN: self._store_down,
            FaultKind.CUT_ONE_WAY: self._cut,
            FaultKind.CUT_TWO_WAY: self._cut,
            FaultKind.ISOLATION: self._isolate,
            FaultKind.SLOW_NETWORK: self._slow_network,
            FaultKind.LOSSY_NETWORK: self._lossy_network,
            FaultKind.REASSIGNMENT: self._reassign,
            FaultKind.NEW_PARTITION: self._add_partition,
            FaultKind.FLIPPED_BIT: self._flip_bit,
            FaultKind.TOPIC_REPLACEMENT: lambda _, node: replacer.replace(node.id),
            FaultKind.PREFERRED_ELECTION: lambda _, node: admin.elect_preferred(node.id),
            FaultKind.CONFIG_CHANGE: self._change_config,
        }
        self.count = 0
        self._is_healed = False

    def schedule(self, faults: list[Fault]) -> None:
        for fault in faults:
            self._cluster.schedule.after(fault.at_ms, partial(self._inject, fault))

    def _inject(self, fault: Fault) -> None:
        if self._is_healed or (self._has_lost_member() and not self._is_quick_restart(fault)):
            return
        self._cluster.trace.note(f"fault: {fault}")
        self.count += 1
        self._begin[fault.kind](fault, self._cluster.nodes[fault.node])

    def heal(self) -> None:
        """End all faults, and start every broker that does not run or has lost its directory."""
        self._is_healed = True
        cluster = self._cluster
        cluster.trace.note("all faults heal")
        cluster.network.heal()
        self._calm_network()
        if not cluster.service.is_available:
            cluster.service.start()
        for node in cluster.nodes.values():
            self._heal_disk(node)
            if node.process is not None and node.process.is_paused:
                node.resume()
            if node.store is not None:
                node.store.resume()
            if node.is_offline:
                self._lose_power(node)
            if not node.is_running:
                node.boot()
            if node.clock.offset_ms:
                node.jump_clock(0)

    def _later(self, fault: Fault, end: Callable[[], None]) -> None:
        def act() -> None:
            if not self._is_healed:
                end()

        self._cluster.schedule.after(fault.duration_ms, act)

    # Processes and machines

    def _boot_later(self, fault: Fault, node: SimulatedNode) -> None:
        self._later(fault, lambda: None if node.is_running else node.boot())

    def _kill(self, fault: Fault, node: SimulatedNode) -> None:
        if node.is_running:
            node.kill()
            self._boot_later(fault, node)

    def _power_loss(self, fault: Fault, node: SimulatedNode) -> None:
        if node.is_running:
            self._lose_power(node)
            self._boot_later(fault, node)

    def _power_loss_of_all(self, fault: Fault, _: SimulatedNode) -> None:
        begin = self._power_loss if self._cluster.commits_on_flush else self._kill
        for node in self._cluster.nodes.values():
            begin(fault, node)

    def _lose_power(self, node: SimulatedNode) -> None:
        """Crash the machine, or only the process if unflushed records must not be lost now."""
        if not self._cluster.commits_on_flush:
            store = node.store
            assert store is not None
            if self._is_healed or store.has_calls_under_way or not self._may_lose(node):
                node.kill()
                return
            members = (state.member(node.id) for state in self._partitions())
            self._lost_members |= {each for each in members if each is not None}
        node.lose_power()

    def _stop(self, fault: Fault, node: SimulatedNode) -> None:
        if node.is_serving:
            node.stop()
            self._boot_later(fault, node)

    def _pause(self, fault: Fault, node: SimulatedNode) -> None:
        process = node.process
        if process is None or process.is_paused:
            return
        node.pause()
        self._later(fault, lambda: node.resume() if node.process is process else None)

    def _empty_disk(self, fault: Fault, node: SimulatedNode) -> None:
        """Kill a broker; its disk is empty when it starts again, unless it may not be lost then."""
        store = node.store
        if store is None:
            return
        node.kill()

        def end() -> None:
            if node.is_running:
                return
            if not store.has_calls_under_way and self._may_lose(node):
                members = (state.member(node.id) for state in self._partitions())
                self._lost_directories |= {each.directory_id for each in members if each}
                node.wipe()
            node.boot()

        self._later(fault, end)

    def _may_lose(self, node: SimulatedNode) -> bool:
        """Whether every in-sync set with this broker has others, which nothing keeps from staying
        until the controller has removed it."""
        for state in self._partitions():
            if state.member(node.id) is None:
                continue
            others = [each for each in state.members if each.node != node.id]
            if not others or not all(self._is_sound(each) for each in others):
                return False
        return True

    def _is_sound(self, member: InSyncMember) -> bool:
        node = self._cluster.nodes[member.node]
        if node.broker is None or not (
            self._cluster.commits_on_flush
            or member.broker_epoch == node.broker.components.member.broker_epoch
        ):
            return False
        return (
            node.is_connected
            and node.directory_id == member.directory_id
            and not (node.is_offline or node.is_stopping or node.disk.fails_syncs)
            and not self._cluster.network.has_cuts
        )

    def _has_lost_member(self) -> bool:
        directories, members = self._lost_directories, self._lost_members
        return bool(directories or members) and any(
            each.directory_id in directories or each in members
            for state in self._partitions()
            for each in state.members
        )

    def _is_quick_restart(self, fault: Fault) -> bool:
        """Whether the fault restarts a broker that is registered, long before its session ends, and
        that stays in its in-sync sets."""
        return (
            self._cluster.commits_on_flush
            and fault.kind in (FaultKind.KILL, FaultKind.POWER_LOSS)
            and fault.duration_ms <= QUICK_RESTART_MS
            and self._cluster.nodes[fault.node].is_connected
        )

    def _clock_jump(self, fault: Fault, node: SimulatedNode) -> None:
        node.jump_clock(fault.amount)
        self._later(fault, partial(node.jump_clock, 0))

    # Disks

    def _full_disk(self, fault: Fault, node: SimulatedNode) -> None:
        node.disk.free_bytes = 0
        self._later(fault, partial(self._heal_disk, node))

    def _failed_fsync(self, fault: Fault, node: SimulatedNode) -> None:
        """The directory goes offline; after a while the process is restarted, or the machine."""
        if node.is_running:
            node.disk.fails_syncs = True
            end = partial(self._lose_power, node) if fault.amount else node.kill
            self._later(fault, partial(self._replace_process, node, end))

    def _replace_process(self, node: SimulatedNode, end: Callable[[], None]) -> None:
        self._heal_disk(node)
        if node.is_offline:
            end()
            node.boot()

    def _flip_bit(self, fault: Fault, node: SimulatedNode) -> None:
        generator = Generator(fault.amount)
        self.flip_bit(node, generator.randrange(self._partition_count()), generator)

    def flip_bit(self, node: SimulatedNode, partition: int, generator: Generator) -> None:
        """Damage a committed and flushed record of a replica of the topic, if there is one."""
        name = TopicPartition(TopicName(self.admin.topic), PartitionIndex(partition))
        replica = None if node.broker is None else node.broker.replicas.by_partition.get(name)
        if replica is None:
            return
        log = replica.log
        end = min(log.flushed_offset, replica.high_watermark)
        if end <= log.start_offset:
            return
        offset = generator.randrange(log.start_offset, end)
        batch = log.read(offset, 1, limit_offset=end, whole_first_batch=True)
        if batch is not None:
            size = read_header(batch.read()).size
            position = batch.position + generator.randrange(HEADER_SIZE, size)
            node.disk.flip_bit(batch.file.path, position, generator.randrange(8))
            self._cluster.trace.note(
                f"{name} on broker {node.id}: a bit of the batch with offset {offset} flips"
            )

    def _slow_disk(self, fault: Fault, node: SimulatedNode) -> None:
        if node.is_running:
            node.disk.hold()
            self._later(fault, partial(self._heal_disk, node))

    def _heal_disk(self, node: SimulatedNode) -> None:
        node.disk.free_bytes = None
        node.disk.fails_syncs = False
        node.disk.resume()

    # The store

    def _suspend(self, fault: Fault, node: SimulatedNode) -> None:
        store = node.store
        if store is not None and store.state is SessionState.CONNECTED:
            store.suspend()
            self._later(fault, store.resume)

    def _expire(self, _: Fault, node: SimulatedNode) -> None:
        store = node.store
        if store is not None and store.state is SessionState.CONNECTED:
            store.expire()

    def _store_down(self, fault: Fault, _: SimulatedNode) -> None:
        service = self._cluster.service
        if service.is_available:
            service.stop()
            self._later(fault, lambda: None if service.is_available else service.start())

    # Replicas and partitions

    def _reassign(self, fault: Fault, node: SimulatedNode) -> None:
        """Move a partition to other replicas, in the order that `amount` decides."""
        generator = Generator(fault.amount)
        topic, index = generator.choice(
            [(self.admin.topic, index) for index in range(self._partition_count())]
            + [(OFFSETS_TOPIC, 0)]
        )
        brokers = list(self._cluster.nodes)
        generator.shuffle(brokers)
        count = generator.choice(self._replica_counts)
        self._cluster.trace.note(f"{topic}-{index}: is to move to {brokers[:count]}")
        self.admin.reassign(node.id, topic, index, brokers[:count])

    def _partition_count(self) -> int:
        node = self._cluster.service.tree.get(topic_path(self.admin.topic))
        return len(decode_assignment(node).replicas)

    def _add_partition(self, _: Fault, node: SimulatedNode) -> None:
        count = self._partition_count()
        if count < MAX_PARTITIONS:
            self.admin.add_partition(node.id, self.admin.topic, count + 1)

    def _change_config(self, fault: Fault, node: SimulatedNode) -> None:
        """Change a config by which no promise to the clients of the topic changes, or one of the
        replaced topic."""
        topic, name, value = Generator(fault.amount).choice(
            [(self.admin.topic, "internal.segment.bytes", str(size)) for size in SEGMENT_SIZES]
            + [(REPLACED_TOPIC, "min.insync.replicas", str(count)) for count in (1, 2, 3)]
        )
        self._cluster.trace.note(f"{topic}: {name} is to be {value}")
        self.admin.change_config(node.id, topic, name, value)

    # The network

    def _cut(self, fault: Fault, node: SimulatedNode) -> None:
        other = self._cluster.nodes[NodeId(fault.amount)]
        network = self._cluster.network
        if other is node:
            return
        network.cut_one_way(node.host, other.host)
        if fault.kind is FaultKind.CUT_TWO_WAY:
            network.cut_one_way(other.host, node.host)
        self._later(fault, network.heal)

    def _isolate(self, fault: Fault, node: SimulatedNode) -> None:
        """Cut a broker off from all others and from the store, but not from clients."""
        network = self._cluster.network
        for other in self._cluster.nodes.values():
            if other is not node:
                network.cut(node.host, other.host)
        self._later(fault, network.heal)
        self._suspend(fault, node)

    def _slow_network(self, fault: Fault, _: SimulatedNode) -> None:
        self._disturb(fault, SLOW_NETWORK)

    def _lossy_network(self, fault: Fault, _: SimulatedNode) -> None:
        self._disturb(fault, LOSSY_NETWORK)

    def _disturb(self, fault: Fault, faults: NetworkFaults) -> None:
        self._cluster.network.faults = faults
        self._later(fault, self._calm_network)

    def _calm_network(self) -> None:
        self._cluster.network.faults = NO_FAULTS
