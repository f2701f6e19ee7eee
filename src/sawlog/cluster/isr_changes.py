"""Changes of in-sync sets: the leader of a partition writes them to the state node itself.

A write is a compare-and-set (guarantee 12): it names the version of the state node, and in the same
multi checks the topic's node, so that no election (KAFKA-12686), reassignment or recreated topic is
overwritten, and the registrations of added members (guarantee 14a). After a lost connection the
state is read again: a write of our own that landed is recognised (KAFKA-1382), others are repeated.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from sawlog.cluster import znodes
from sawlog.cluster.cluster_member import ClusterMember
from sawlog.cluster.leader_election import handed_on, without_damaged_replica
from sawlog.cluster.metadata_image import InSyncMember
from sawlog.cluster.store_view import TopicView
from sawlog.cluster.znodes import PartitionState
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import LeaderEpoch, TopicId, TopicPartition
from sawlog.core.store import (
    ANY_VERSION,
    BadVersion,
    Check,
    ConnectionLost,
    Node,
    NoNode,
    Result,
    SessionLost,
    SessionState,
    SetData,
    StoreError,
)

logger = EventLogger("sawlog.cluster.isr_changes")


class IsrWriteError(Enum):
    """STALE: the write did not happen and must not be repeated as it is: another one came first,
    this broker does not lead any more, or an added member may not join. The caller drops it and
    decides again from its newest image. UNAVAILABLE: the store did not carry the write out, now;
    the change stays pending, and the caller writes it again later."""

    STALE = "stale"
    UNAVAILABLE = "unavailable"


OnWritten = Callable[[int | IsrWriteError], None]
"""Called once, later, with the new partition epoch or an error."""


class _Write(NamedTuple):
    name: TopicPartition
    topic_id: TopicId
    leader_epoch: LeaderEpoch
    members: tuple[InSyncMember, ...]
    partition_epoch: int
    done: OnWritten


class IsrChanges:
    """Invariant: `_uncertain` has the writes that failed with the connection and may have landed;
    each is decided by the first read after the next CONNECTED."""

    def __init__(self, member: ClusterMember) -> None:
        self._member = member
        self._store = member.store
        self._view = member.view
        self._uncertain: list[_Write] = []
        self._store.on_state(self._state_changed)

    def write_isr(
        self,
        name: TopicPartition,
        topic_id: TopicId,
        leader_epoch: LeaderEpoch,
        members: tuple[InSyncMember, ...],
        partition_epoch: int,
        done: OnWritten,
    ) -> None:
        """Replace the in-sync set of a partition that this broker leads in `leader_epoch`, if its
        state node still has the version `partition_epoch`."""
        write = _Write(name, topic_id, leader_epoch, members, partition_epoch, done)
        self._send(write)

    def leave_isr(
        self,
        name: TopicPartition,
        topic_id: TopicId,
        partition_epoch: int,
        last_epoch: int,
        done: OnWritten,
    ) -> None:
        """Take this broker, whose log lost records, out of the in-sync set, and out of the lead if
        it has that. The last member stays, as one that no clean election chooses. `last_epoch` is
        the newest leader epoch that the log had before."""

        def without_own(state: PartitionState) -> PartitionState:
            own = self._member.node_id
            is_elected = state.leader == own and self._view.is_leading(state)
            return without_damaged_replica(state, own, is_elected=is_elected, last_epoch=last_epoch)

        self._leave(name, topic_id, partition_epoch, without_own, done)

    def hand_on(
        self, name: TopicPartition, topic_id: TopicId, partition_epoch: int, done: OnWritten
    ) -> None:
        """Take this broker, whose log has a corrupt batch, out of the in-sync set, and out of the
        lead if it has that. Only with other members: STALE if there are none any more."""
        own = self._member.node_id
        self._leave(name, topic_id, partition_epoch, lambda state: handed_on(state, own), done)

    def _leave(
        self,
        name: TopicPartition,
        topic_id: TopicId,
        partition_epoch: int,
        change: Callable[[PartitionState], PartitionState | None],
        done: OnWritten,
    ) -> None:
        topic = self._view.topics.get(name.topic) if self._view.is_loaded else None
        state = None if topic is None else topic.states.get(name.partition)
        if topic is None or state is None or topic.assignment.topic_id != topic_id:
            self._later(done, IsrWriteError.UNAVAILABLE)
            return
        new = change(state)
        # The rest of the new state comes from the view, which must be the one that is decided on.
        if state.version != partition_epoch or new is None:
            self._later(done, IsrWriteError.STALE)
            return
        path = znodes.state_path(name.topic, name.partition)

        def answered(result: list[Result] | StoreError) -> None:
            if isinstance(result, StoreError):
                is_stale = isinstance(result, BadVersion | NoNode)
                done(IsrWriteError.STALE if is_stale else IsrWriteError.UNAVAILABLE)
            else:
                done(partition_epoch + 1)

        self._store.multi(
            [
                Check(znodes.topic_path(name.topic), topic.assignment.version),
                SetData(path, znodes.encode_state(new), partition_epoch),
            ],
            answered,
            urgent=True,
        )

    def _send(self, write: _Write) -> None:
        if not self._view.is_loaded:  # the connection is lost, or was a moment ago
            self._fail(write, IsrWriteError.UNAVAILABLE)
            return
        topic = self._view.topics.get(write.name.topic)
        state = None if topic is None else topic.states.get(write.name.partition)
        if topic is None or state is None or not self._is_current(write, topic, state):
            self._fail(write, IsrWriteError.STALE)
            return
        new = state._replace(members=write.members, dropped=())
        path = znodes.state_path(write.name.topic, write.name.partition)
        self._store.multi(
            [
                Check(znodes.topic_path(write.name.topic), topic.assignment.version),
                *self._registration_checks(self._added(write, state)),
                SetData(path, znodes.encode_state(new), write.partition_epoch),
            ],
            lambda result: self._answered(write, result),
        )

    def _is_current(self, write: _Write, topic: TopicView, state: PartitionState) -> bool:
        """Whether this broker still leads in that epoch, and every added member may join."""
        if topic.assignment.topic_id != write.topic_id or not write.members:
            return False
        own = self._member.node_id
        if state.leader != own or state.leader_epoch != write.leader_epoch:
            return False
        if not self._view.is_leading(state) or own not in [m.node for m in write.members]:
            return False
        if state.version > write.partition_epoch:
            return False  # the view may be older than the last write's answer, but not newer
        replicas = topic.assignment.replicas[write.name.partition]
        added = self._added(write, state)
        return all(member.node in replicas and self._may_join(member) for member in added)

    def _added(self, write: _Write, state: PartitionState) -> list[InSyncMember]:
        return [member for member in write.members if member not in state.members]

    def _registration_checks(self, added: list[InSyncMember]) -> list[Check]:
        """The view may be older than the store: a leader that was paused shows a broker under an
        epoch that has ended since."""
        brokers = [self._view.brokers[member.node] for member in added]
        return [
            Check(znodes.registration_path(broker.registration), ANY_VERSION)
            for broker in brokers
            if broker.registration
        ]

    def _may_join(self, member: InSyncMember) -> bool:
        """A member joins only as the process that is registered now (KAFKA-14617, KIP-903), and not
        while it shuts down."""
        broker = self._view.brokers.get(member.node)
        return (
            broker is not None
            and member.is_of(broker)
            and member.directory_id == broker.directory_id
            and not broker.is_shutting_down
        )

    # Results

    def _fail(self, write: _Write, error: IsrWriteError) -> None:
        self._later(write.done, error)

    def _later(self, done: OnWritten, error: IsrWriteError) -> None:
        """Call `done` later, never from inside a call of the replica."""
        self._member.when(lambda _: True, 0, lambda _: done(error))

    def _answered(self, write: _Write, result: list[Result] | StoreError) -> None:
        if not isinstance(result, StoreError):
            write.done(write.partition_epoch + 1)
        elif isinstance(result, BadVersion | NoNode):
            write.done(IsrWriteError.STALE)
        elif isinstance(result, ConnectionLost | SessionLost):
            if self._store.state is SessionState.CONNECTED:
                self._decide(write)
            else:
                self._uncertain.append(write)
        else:
            logger.warning("in-sync set not written", log=str(write.name), reason=str(result))
            write.done(IsrWriteError.UNAVAILABLE)

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            uncertain, self._uncertain = self._uncertain, []
            for write in uncertain:
                self._decide(write)

    def _decide(self, write: _Write) -> None:
        """Read the state to learn whether the write landed. It cannot land after this read."""

        def got_topic(node: Node | StoreError) -> None:
            if isinstance(node, Node):
                if znodes.decode_assignment(node).topic_id == write.topic_id:
                    self._store.get(znodes.state_path(*write.name), got_state)
                else:
                    write.done(IsrWriteError.STALE)
            else:
                self._answered(write, node)

        def got_state(node: Node | StoreError) -> None:
            if not isinstance(node, Node):
                self._answered(write, node)
                return
            found = znodes.decode_state(node)
            own_version = write.partition_epoch + 1
            if found.version == own_version and self._is_own(write, found):
                write.done(own_version)
            elif found.version == write.partition_epoch:
                self._send(write)
            else:
                write.done(IsrWriteError.STALE)

        self._store.get(znodes.topic_path(write.name.topic), got_topic)

    def _is_own(self, write: _Write, found: PartitionState) -> bool:
        return (
            found.leader == self._member.node_id
            and found.leader_epoch == write.leader_epoch
            and found.members == write.members
        )
