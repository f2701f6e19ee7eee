"""Replicas whose logs lost flushed records: a checkpoint says that they had more than they have.

The in-sync set may still name such a replica, and an election may choose it, although it lacks
acknowledged records. It is truncated at the damage, leaves the in-sync set by itself and serves
nothing as a leader, until a leader has added it again (docs/decisions/0015). A sole replica keeps
what it has: there is no better copy (docs/decisions/0005).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sawlog.cluster.metadata_image import DAMAGED_DIRECTORY, NO_NODE, PartitionImage
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import LeaderEpoch, NodeId, TopicPartition
from sawlog.core.ports import DiskError

if TYPE_CHECKING:
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.core.ports import Timer
    from sawlog.replication.isr_writer import IsrWriter
    from sawlog.replication.replica import Replica
    from sawlog.storage.damaged_logs import DamagedLogs
    from sawlog.storage.log import Log

logger = EventLogger(__name__)

RETRY_MS = 500
"""Delay before leaving an in-sync set is tried again that failed."""


class DamagedReplicas:
    """Invariant: a damaged replica of several leads only after an unclean election. `_outside` has
    the leader epochs in which the stored in-sync set was seen without this broker."""

    def __init__(
        self,
        node_id: NodeId,
        logs: "DamagedLogs",
        metadata: "MetadataCache",
        timer: "Timer",
        isr_writer: "IsrWriter | None",
    ) -> None:
        self._node_id = node_id
        self._logs = logs
        self._metadata = metadata
        self._timer = timer
        self._isr_writer = isr_writer
        self._outside: dict[TopicPartition, LeaderEpoch] = {}
        self._leaving: set[TopicPartition] = set()

    def permitted(self, replica: "Replica", state: PartitionImage) -> PartitionImage:
        """Return the state that the replica may act on: without a leader if that would be this
        broker with a damaged log. KafkaError or DiskError if the log cannot be truncated now."""
        name = replica.name
        if name not in self._logs.entries:
            return state
        if len(state.replicas) == 1:
            self._repaired(name)
            return state
        self._truncate(replica.log)
        is_leader = state.leader == self._node_id
        if is_leader and state.leader_epoch == state.unclean_epoch:
            logger.warning("a damaged replica leads after an unclean election", log=str(name))
            self._repaired(name)
            return state
        if self._has_joined(replica, state):
            logger.info("a damaged replica is in sync again", log=str(name))
            self._repaired(name)
            return state
        if self._node_id not in state.isr:
            self._outside[name] = state.leader_epoch
        elif not self._has_left(state):
            self._leave(replica, state)
        return state._replace(leader=NO_NODE) if is_leader else state

    def _truncate(self, log: "Log") -> None:
        truncate_damaged(log, self._logs.entries[log.tp].offset)
        self._logs.truncated(log.tp)

    def _repaired(self, name: TopicPartition) -> None:
        """Forget the damage; where the disk refuses, the next image or start tries again."""
        try:
            self._logs.remove(name)
            self._outside.pop(name, None)
        except DiskError as error:
            logger.warning("damaged log not forgotten", log=str(name), reason=str(error))

    def _has_joined(self, replica: "Replica", state: PartitionImage) -> bool:
        """Whether a leader has added this process to the in-sync set. An election keeps members
        that did not catch up, so both images must be of one leader epoch. The controller replaces
        the broker epoch of a member, which an earlier process may have been added as: this one has
        caught up if it has what its leader told it to be committed."""
        own, follower = self._metadata.image.brokers.get(self._node_id), replica.follower
        return (
            state.leader not in (NO_NODE, self._node_id)
            and self._outside.get(replica.name) == state.leader_epoch
            and own is not None
            and any(member.is_of(own) for member in state.members)
            and follower is not None
            and follower.epoch == state.leader_epoch
            and follower.has_committed_records
        )

    def _has_left(self, state: PartitionImage) -> bool:
        """Whether the set has this broker only because it would be empty otherwise."""
        return any(
            member.node == self._node_id and member.directory_id == DAMAGED_DIRECTORY
            for member in state.members
        )

    def _leave(self, replica: "Replica", state: PartitionImage) -> None:
        name = replica.name
        if self._isr_writer is None or name in self._leaving:
            return
        self._leaving.add(name)
        logger.warning("a damaged replica leaves the in-sync set", log=str(name), isr=state.isr)
        self._isr_writer.leave_isr(
            name,
            replica.topic_id,
            state.partition_epoch,
            # A leader may have added this replica since it was damaged, and have committed more.
            max(self._logs.entries[name].last_epoch, replica.log.epochs.latest),
            self._done(replica),
        )

    def _done(self, replica: "Replica") -> Callable[[object], None]:
        def done(_: object) -> None:
            """The next image shows it; if none comes, the write has failed."""
            self._timer.after(RETRY_MS, lambda: self._check(replica))

        return done

    def _check(self, replica: "Replica") -> None:
        name = replica.name
        self._leaving.discard(name)
        state = self._metadata.image.partition(*name)
        if (
            name in self._logs.entries
            and state is not None
            and self._node_id in state.isr
            and not self._has_left(state)
            and self._outside.get(name) != state.leader_epoch
        ):
            self._leave(replica, state)


def truncate_damaged(log: "Log", offset: int) -> None:
    """Truncate at `offset`, or earlier if no sound batch shows where that is: at the start of its
    segment, else of the log. The leader has the records."""
    if offset >= log.end_offset:
        return
    if offset < log.segments.base_offset:
        log.restart_at(offset)
        return
    for cut in (offset, log.segments.holding(offset).base_offset):
        try:
            log.truncate(cut)
            return
        except KafkaError as error:
            if error.code != ErrorCode.CORRUPT_MESSAGE:
                raise
    log.restart_at(log.start_offset)
