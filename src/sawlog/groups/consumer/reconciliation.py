"""Reconciles a member's current assignment with its target: the whole state machine, in two tables.

A partition moves in two steps. Its owner is told to revoke it; when the owner reports partitions
without this one, it is free, and the new owner gets it with its next heartbeat. So no two members
ever own a partition. STEPS: the first event that is true in the member's state decides what a
heartbeat does. OUTCOMES: the obstacle that is left decides the member's next state and epoch.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicId
from sawlog.groups.consumer.consumer_member import (
    NO_PARTITIONS,
    STABLE,
    UNKNOWN,
    UNRELEASED,
    UNREVOKED,
    Assignment,
    ConsumerMember,
    Holding,
    MemberState,
)


class Event(Enum):
    """What can be true of a heartbeat."""

    NEW_TARGET = "the target epoch differs from the member epoch"
    NEW_SUBSCRIPTION = "the member subscribes to other topics than before"
    REVOKED = "the member no longer owns the partitions to revoke"
    OWNS_NOTHING = "the member reports that it owns no partition"
    HEARTBEAT = "always true"


class Step(Enum):
    ADVANCE = "move towards the target as far as possible"
    TRIM = "revoke partitions of unsubscribed topics, in the same epoch"
    STAY = "change nothing"
    FENCE = "the member must rejoin without partitions"


STEPS: Mapping[MemberState, tuple[tuple[Event, Step], ...]] = {
    STABLE: (
        (Event.NEW_TARGET, Step.ADVANCE),
        (Event.NEW_SUBSCRIPTION, Step.TRIM),
        (Event.HEARTBEAT, Step.STAY),
    ),
    UNREVOKED: (
        (Event.REVOKED, Step.ADVANCE),
        (Event.NEW_SUBSCRIPTION, Step.TRIM),
        (Event.HEARTBEAT, Step.STAY),
    ),
    UNRELEASED: ((Event.HEARTBEAT, Step.ADVANCE),),
    UNKNOWN: (
        (Event.OWNS_NOTHING, Step.ADVANCE),
        (Event.HEARTBEAT, Step.FENCE),
    ),
}


class Obstacle(Enum):
    """What keeps a member from its target; OWN has precedence over OTHERS."""

    OWN = "the member still owns partitions that it must revoke"
    OTHERS = "other members still own partitions of its target"
    NONE = "nothing"


class Outcome(NamedTuple):
    state: MemberState
    in_target_epoch: bool


OUTCOMES: Mapping[Obstacle, Outcome] = {
    Obstacle.OWN: Outcome(UNREVOKED, in_target_epoch=False),
    Obstacle.OTHERS: Outcome(UNRELEASED, in_target_epoch=True),
    Obstacle.NONE: Outcome(STABLE, in_target_epoch=True),
}

Owned = Sequence[tuple[TopicId, Sequence[int]]]
"""The partitions that a member reports to own."""


class Heartbeat(NamedTuple):
    """The input of a step besides the member. `owned` is None if the heartbeat does not report it;
    `owners_of` maps the partitions of a topic to the ids of their owners."""

    target_epoch: int
    target: Assignment
    subscription_changed: bool
    owned: Owned | None
    owners_of: Callable[[TopicId], Mapping[int, str]]
    is_subscribed: Callable[[TopicId], bool]


def reconcile(member: ConsumerMember, heartbeat: Heartbeat) -> ConsumerMember:
    """Return the member after this heartbeat, the same object if nothing changes.
    FENCED_MEMBER_EPOCH if its state is unknown."""
    step = next(step for event, step in STEPS[member.state] if _is_true(event, member, heartbeat))
    if step is Step.ADVANCE:
        return _advance(member, heartbeat)
    if step is Step.TRIM:
        return _trim(member, heartbeat)
    if step is Step.STAY:
        return member
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The member state is unknown. The member must abandon all its partitions and rejoin.",
    )


def _is_true(event: Event, member: ConsumerMember, heartbeat: Heartbeat) -> bool:
    if event is Event.NEW_TARGET:
        return member.epoch != heartbeat.target_epoch
    if event is Event.NEW_SUBSCRIPTION:
        return heartbeat.subscription_changed
    if event is Event.REVOKED:
        return not _owns_any(member.revoking, heartbeat.owned)
    if event is Event.OWNS_NOTHING:
        return heartbeat.owned is not None and not heartbeat.owned
    return True


def _owns_any(holding: Holding, owned: Owned | None) -> bool:
    """Whether the member reports one of these partitions; without a report it may own all."""
    if owned is None:
        return True
    for topic_id, partitions in owned:
        held = holding.get(topic_id)
        if held is not None and any(partition in held for partition in partitions):
            return True
    return False


def _advance(member: ConsumerMember, heartbeat: Heartbeat) -> ConsumerMember:
    kept: dict[TopicId, dict[int, int]] = {}
    revoked: dict[TopicId, dict[int, int]] = {}
    new: dict[TopicId, list[int]] = {}
    others_own = False
    for topic_id in {**heartbeat.target, **member.assigned}:
        target = (
            heartbeat.target.get(topic_id, frozenset())
            if heartbeat.is_subscribed(topic_id)
            else frozenset()
        )
        assigned = member.assigned.get(topic_id, {})
        keeps = {partition: assigned[partition] for partition in assigned if partition in target}
        drops = {p: assigned[p] for p in assigned if p not in target}
        owners = heartbeat.owners_of(topic_id)
        own_revoking = member.revoking.get(topic_id, {})
        gets = []
        for partition in target:
            if partition in keeps:
                continue
            if partition in owners and partition not in own_revoking:
                others_own = True
            else:
                gets.append(partition)
        if keeps:
            kept[topic_id] = keeps
        if drops:
            revoked[topic_id] = drops
        if gets:
            new[topic_id] = gets
    if revoked and _owns_any(revoked, heartbeat.owned):
        return _reach(member, Obstacle.OWN, heartbeat.target_epoch, kept, revoked)
    for topic_id, partitions in new.items():
        held = kept.setdefault(topic_id, {})
        held.update(dict.fromkeys(partitions, heartbeat.target_epoch))
    obstacle = Obstacle.OTHERS if others_own else Obstacle.NONE
    return _reach(member, obstacle, heartbeat.target_epoch, kept, NO_PARTITIONS)


def _trim(member: ConsumerMember, heartbeat: Heartbeat) -> ConsumerMember:
    kept = {id_: held for id_, held in member.assigned.items() if heartbeat.is_subscribed(id_)}
    if len(kept) == len(member.assigned):
        return member
    revoked = dict(member.revoking)
    for topic_id, held in member.assigned.items():
        if topic_id not in kept:
            revoked[topic_id] = {**revoked.get(topic_id, {}), **held}
    if _owns_any(revoked, heartbeat.owned):
        return _reach(member, Obstacle.OWN, heartbeat.target_epoch, kept, revoked)
    return member._replace(previous_epoch=member.epoch, assigned=kept)


def _reach(
    member: ConsumerMember,
    obstacle: Obstacle,
    target_epoch: int,
    assigned: Holding,
    revoking: Holding,
) -> ConsumerMember:
    outcome = OUTCOMES[obstacle]
    return member._replace(
        epoch=target_epoch if outcome.in_target_epoch else member.epoch,
        previous_epoch=member.epoch,
        state=outcome.state,
        assigned=assigned,
        revoking=revoking,
    )
