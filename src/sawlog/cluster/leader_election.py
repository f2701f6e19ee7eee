"""Leader election as pure functions: the next state of one partition.

The leader is the first live replica in the assignment's order that is in sync and still has the
data directory in which it caught up (guarantee 16). With `flush.policy=commit` such a replica has
every acknowledged record, whatever stopped it; with `flush.policy=os` only if its last stop was
clean. So it also stays in a live leader's set when it restarts, under its new broker epoch. A
restarted leader is elected again: only one process may append in a leader epoch.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sawlog.cluster.metadata_image import (
    DAMAGED_DIRECTORY,
    NO_NODE,
    BrokerImage,
    DroppedMember,
    InSyncMember,
)
from sawlog.cluster.znodes import PartitionState
from sawlog.core.config_broker import FLUSH_BEFORE_COMMIT
from sawlog.core.ids import LeaderEpoch, NodeId


class Electorate(NamedTuple):
    """What an election depends on besides the partition's state."""

    brokers: Mapping[NodeId, BrokerImage]
    controller_epoch: int
    allows_unclean: bool = False

    def may_lead(self, node: NodeId) -> bool:
        """A broker that shuts down is not elected any more."""
        broker = self.brokers.get(node)
        return broker is not None and not broker.is_shutting_down

    def current(self, node: NodeId) -> InSyncMember:
        """The entry of a live replica in the in-sync set."""
        broker = self.brokers[node]
        return InSyncMember(node, broker.epoch, broker.directory_id)

    def is_leading(self, state: PartitionState) -> bool:
        broker, member = self.brokers.get(state.leader), state.member(state.leader)
        return broker is not None and member is not None and member.is_of(broker)


def first_state(electorate: Electorate, replicas: Sequence[NodeId]) -> PartitionState:
    """Return the state of a new partition: all replicas are empty, so any of them may lead."""
    live = [node for node in replicas if electorate.may_lead(node)]
    members = tuple(electorate.current(node) for node in live)
    if not members:
        members = tuple(InSyncMember(node, 0, "") for node in replicas)
    leader = live[0] if live else NO_NODE
    return PartitionState(leader, LeaderEpoch(0), members, electorate.controller_epoch)


def next_state(
    electorate: Electorate, replicas: Sequence[NodeId], old: PartitionState
) -> PartitionState | None:
    """Return the state that a partition must get, or None if its state is right."""
    if _is_healthy(electorate.brokers, replicas, old):
        return None
    if electorate.is_leading(old) and old.leader in replicas:
        new = _without_lost_members(electorate, replicas, old)
        if not electorate.may_lead(old.leader):
            new = _handed_over(electorate, replicas, new) or new
    else:
        new = _elected(electorate, replicas, old)
    is_right = (new.leader, new.members) == (old.leader, old.members)
    return None if is_right else new._replace(controller_epoch=electorate.controller_epoch)


def _is_healthy(
    brokers: Mapping[NodeId, BrokerImage], replicas: Sequence[NodeId], state: PartitionState
) -> bool:
    """Whether the leader is live and every member as it was; decided quickly, for most are."""
    has_leader = False
    for node, epoch, _ in state.members:
        broker = brokers.get(node)
        if broker is None or broker.epoch != epoch or broker.is_shutting_down:
            return False
        if node not in replicas:
            return False
        has_leader = has_leader or node == state.leader
    return has_leader


def preferred_state(
    electorate: Electorate, replicas: Sequence[NodeId], old: PartitionState
) -> PartitionState | None:
    """Return the state with the first replica as the leader, if that is possible and new."""
    preferred = replicas[0]
    if preferred == old.leader or not electorate.is_leading(old):
        return None
    member = old.member(preferred)
    if member is None or not electorate.may_lead(preferred):
        return None
    if not member.is_of(electorate.brokers[preferred]):
        return None
    return _led_by(electorate, preferred, old)


def completed_state(
    electorate: Electorate,
    replicas: Sequence[NodeId],
    removing: Sequence[NodeId],
    old: PartitionState,
) -> PartitionState | None:
    """Return the state at the end of a reassignment: without the removed replicas, and led by one
    that stays. None while a replica that stays is not in sync."""
    staying = [node for node in replicas if node not in removing]
    if not staying or not electorate.is_leading(old) or not set(staying) <= set(old.isr):
        return None
    kept = tuple(member for member in old.members if member.node in staying)
    state = old._replace(members=kept, controller_epoch=electorate.controller_epoch)
    if old.leader in staying:
        return state
    chosen = next((node for node in staying if _is_serving(electorate, old, node)), None)
    return None if chosen is None else _led_by(electorate, chosen, state)


def unclean_state(
    electorate: Electorate, replicas: Sequence[NodeId], old: PartitionState
) -> PartitionState | None:
    """Return the state with the first live replica as the leader of a partition without one, even
    if it is not in sync. Records may be lost."""
    if electorate.is_leading(old):
        return None
    elected = _elected(electorate._replace(allows_unclean=True), replicas, old)
    return None if elected.leader == NO_NODE else elected


def without_damaged_replica(
    old: PartitionState, node: NodeId, *, is_elected: bool, last_epoch: int
) -> PartitionState:
    """Return the state without a replica that has lost records: not in the in-sync set, not the
    leader. The last member stays, with a directory id that no broker has.

    Members that were left out come back if nothing was committed since: `last_epoch` is the newest
    leader epoch that the replica's log had before the damage, and as a member it had everything.
    `is_elected` tells that the replica's present process leads in this epoch, without having
    appended; an earlier process may have.
    """
    left = tuple(member for member in old.members if member.node != node)
    left += tuple(
        each.member
        for each in old.dropped
        if last_epoch < each.leader_epoch or (is_elected and each.leader_epoch == old.leader_epoch)
    )
    state = old._replace(members=left or (InSyncMember(node, 0, DAMAGED_DIRECTORY),), dropped=())
    if old.leader != node:
        return state
    return state._replace(leader=NO_NODE, leader_epoch=LeaderEpoch(old.leader_epoch + 1))


def handed_on(old: PartitionState, node: NodeId) -> PartitionState | None:
    """Return the state without a member that has a corrupt batch; None if there is no other member.
    The leader epoch is new in any case, so that no earlier fetch of the replica counts, and the
    replica may truncate its log when it sees the state."""
    left = tuple(member for member in old.members if member.node != node)
    if not left or len(left) == len(old.members):
        return None
    leader = NO_NODE if old.leader == node else old.leader
    epoch = LeaderEpoch(old.leader_epoch + 1)
    return old._replace(leader=leader, leader_epoch=epoch, members=left)


# A partition with a live leader


def _is_serving(electorate: Electorate, state: PartitionState, node: NodeId) -> bool:
    """Whether a member is the live process that caught up, and may lead."""
    member = state.member(node)
    return (
        member is not None and electorate.may_lead(node) and member.is_of(electorate.brokers[node])
    )


def _without_lost_members(
    electorate: Electorate, replicas: Sequence[NodeId], old: PartitionState
) -> PartitionState:
    """Remove the followers that are gone, shut down, without their log or not assigned any more,
    and write the new broker epochs of those that restarted with it; without a new leader epoch. The
    leader stays, so the set is never empty."""
    kept = tuple(
        member if member.is_of(electorate.brokers[member.node]) else electorate.current(member.node)
        for member in old.members
        if member.node == old.leader or (member.node in replicas and _may_stay(electorate, member))
    )
    if kept == old.members:
        return old
    left_out = [
        member
        for member in _absent(electorate, old, [member.node for member in kept])
        if member.node in replicas
    ]
    return old._replace(members=kept, dropped=_dropped(old, left_out, old.leader_epoch))


def _may_stay(electorate: Electorate, member: InSyncMember) -> bool:
    """Whether a follower has what it had as this member. With a live leader only a directory that
    is known counts: a member of an unknown one catches up again."""
    if not electorate.may_lead(member.node):
        return False
    broker = electorate.brokers[member.node]
    if member.is_of(broker):
        return True
    return member.directory_id == broker.directory_id and _has_its_log(electorate, member)


def _handed_over(
    electorate: Electorate, replicas: Sequence[NodeId], old: PartitionState
) -> PartitionState | None:
    """Move the leadership away from a broker that shuts down; None without another member."""
    chosen = next((node for node in replicas if _is_serving(electorate, old, node)), None)
    if chosen is None:
        return None
    left = tuple(member for member in old.members if member.node != old.leader)
    return _led_by(electorate, chosen, old._replace(members=left))


def _led_by(electorate: Electorate, leader: NodeId, state: PartitionState) -> PartitionState:
    return state._replace(
        leader=leader,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        controller_epoch=electorate.controller_epoch,
    )


# A partition without a live leader


def _has_its_log(electorate: Electorate, member: InSyncMember) -> bool:
    """Whether the live replica still has everything that it had as this member."""
    broker = electorate.brokers[member.node]
    return member.has_directory_of(broker) and (
        broker.flush_policy == FLUSH_BEFORE_COMMIT
        or broker.clean_stop
        or member.broker_epoch >= broker.process_epoch
    )


def _elected(
    electorate: Electorate, replicas: Sequence[NodeId], old: PartitionState
) -> PartitionState:
    """Elect from the members, or uncleanly where that is allowed; else the partition is offline."""
    live = [node for node in replicas if electorate.may_lead(node)]
    intact = [
        node
        for node in live
        if (member := old.member(node)) is not None and _has_its_log(electorate, member)
    ]
    chosen = intact or _last_with_its_directory(electorate, old, live)
    is_unclean = not chosen and electorate.allows_unclean
    if is_unclean:
        chosen = ([node for node in live if not _is_damaged(old, node)] or live)[:1]
    if chosen:
        members = tuple(electorate.current(node) for node in chosen)
        new = _led_by(electorate, chosen[0], old._replace(members=members))
        if is_unclean:
            return new._replace(unclean_epoch=new.leader_epoch, dropped=())
        left_out = _absent(electorate, old, chosen)
        return new._replace(dropped=_dropped(old, left_out, new.leader_epoch))
    offline = old._replace(members=_without_damaged(electorate, old))
    return offline if old.leader == NO_NODE else _led_by(electorate, NO_NODE, offline)


def _absent(
    electorate: Electorate, old: PartitionState, chosen: Sequence[NodeId]
) -> tuple[InSyncMember, ...]:
    """The members that are not elected only because they are not alive or shut down."""
    return tuple(
        member
        for member in old.members
        if member.node not in chosen
        and member.directory_id != DAMAGED_DIRECTORY
        and (member.node not in electorate.brokers or _has_its_log(electorate, member))
    )


def _dropped(
    old: PartitionState, left_out: Sequence[InSyncMember], leader_epoch: int
) -> tuple[DroppedMember, ...]:
    """The members that were left out before, and those that are left out now. An election does not
    tell whether an earlier leader has appended, so it forgets none of them."""
    members = {member.node for member in old.members}
    earlier = tuple(each for each in old.dropped if each.node not in members)
    return earlier + tuple(DroppedMember(member, leader_epoch) for member in left_out)


def _is_damaged(state: PartitionState, node: NodeId) -> bool:
    member = state.member(node)
    return member is not None and member.directory_id == DAMAGED_DIRECTORY


def _last_with_its_directory(
    electorate: Electorate, old: PartitionState, live: Sequence[NodeId]
) -> list[NodeId]:
    """With `flush.policy=os`, members that stopped uncleanly leave the set one by one as they
    register, but never the last: it has the most that is left, and leads."""
    if any(member.node not in electorate.brokers for member in old.members):
        return []
    unclean = [
        member.node
        for member in old.members
        if member.node in live and member.has_directory_of(electorate.brokers[member.node])
    ]
    return sorted(unclean, key=lambda node: electorate.brokers[node].epoch)[-1:]


def _without_damaged(electorate: Electorate, old: PartitionState) -> tuple[InSyncMember, ...]:
    """Remove the members that are back with another directory, or after an unclean stop with
    `flush.policy=os`; all of them stay if none would be left."""
    kept = tuple(
        member
        for member in old.members
        if member.node not in electorate.brokers or _has_its_log(electorate, member)
    )
    return kept or old.members
