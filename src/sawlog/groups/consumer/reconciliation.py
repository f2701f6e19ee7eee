"""How a member gets from what it has to what it should have: the whole state machine, in one table.

A partition changes hands in two heartbeats. First its holder is told to do without it; when that
one reports partitions and this is not among them, it is free, and whoever should have it gets it
with its next heartbeat. So no two members ever hold a partition. STEPS tells, by the member's
state, what a heartbeat does; the first event that holds decides. After ADVANCE, ARRIVALS tells by
what is still in the way in which state the member comes out, and in which epoch.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicId
from sawlog.groups.consumer.consumer_member import (
    NOTHING,
    STABLE,
    UNKNOWN,
    UNRELEASED,
    UNREVOKED,
    Assignment,
    Holding,
    Member,
    MemberState,
)


class Event(Enum):
    """What a heartbeat can bring."""

    NEW_TARGET = "the target has another epoch than the member"
    NEW_SUBSCRIPTION = "the member asks for other topics than before"
    REVOKED = "the member no longer has what it was told to give up"
    OWNS_NOTHING = "the member reports that it has no partition at all"
    HEARTBEAT = "it is alive"


class Step(Enum):
    ADVANCE = "towards the target, as far as it goes"
    TRIM = "give up what it no longer asks for, in the same epoch"
    STAY = "nothing to do"
    FENCE = "it must come back with nothing"


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
    """What is between a member and its target; the first counts before the second."""

    OWN = "it still has partitions that it must give up"
    OTHERS = "others still have partitions that it should get"
    NONE = "nothing"


class Arrival(NamedTuple):
    state: MemberState
    in_target_epoch: bool


ARRIVALS: Mapping[Obstacle, Arrival] = {
    Obstacle.OWN: Arrival(UNREVOKED, in_target_epoch=False),
    Obstacle.OTHERS: Arrival(UNRELEASED, in_target_epoch=True),
    Obstacle.NONE: Arrival(STABLE, in_target_epoch=True),
}

Owned = Sequence[tuple[TopicId, Sequence[int]]]
"""The partitions that a member reports to have."""


class Situation(NamedTuple):
    """What a step depends on besides the member. `owned` is None where the heartbeat does not tell;
    `owners_of` names the holders of a topic's partitions; `reads` tells what the member asks for.
    """

    target_epoch: int
    target: Assignment
    subscription_changed: bool
    owned: Owned | None
    owners_of: Callable[[TopicId], Mapping[int, str]]
    reads: Callable[[TopicId], bool]


def reconcile(member: Member, now: Situation) -> Member:
    """The member after this heartbeat; itself where nothing changes. FENCED_MEMBER_EPOCH where it
    cannot be brought on."""
    step = next(step for event, step in STEPS[member.state] if _happens(event, member, now))
    if step is Step.ADVANCE:
        return _advance(member, now)
    if step is Step.TRIM:
        return _trim(member, now)
    if step is Step.STAY:
        return member
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The state of this member is not known here. It must give up its partitions and rejoin.",
    )


def _happens(event: Event, member: Member, now: Situation) -> bool:
    if event is Event.NEW_TARGET:
        return member.epoch != now.target_epoch
    if event is Event.NEW_SUBSCRIPTION:
        return now.subscription_changed
    if event is Event.REVOKED:
        return not _still_has(member.revoking, now.owned)
    if event is Event.OWNS_NOTHING:
        return now.owned is not None and not now.owned
    return True


def _still_has(holding: Holding, owned: Owned | None) -> bool:
    """Without a report one must believe that it has everything."""
    if owned is None:
        return True
    for topic_id, partitions in owned:
        held = holding.get(topic_id)
        if held is not None and any(partition in held for partition in partitions):
            return True
    return False


def _advance(member: Member, now: Situation) -> Member:
    kept: dict[TopicId, dict[int, int]] = {}
    given_up: dict[TopicId, dict[int, int]] = {}
    new: dict[TopicId, list[int]] = {}
    others_hold = False
    for topic_id in {**now.target, **member.assigned}:
        target = now.target.get(topic_id, frozenset()) if now.reads(topic_id) else frozenset()
        assigned = member.assigned.get(topic_id, {})
        keeps = {partition: assigned[partition] for partition in assigned if partition in target}
        drops = {p: assigned[p] for p in assigned if p not in target}
        owners = now.owners_of(topic_id)
        its_own = member.revoking.get(topic_id, {})
        gets = []
        for partition in target:
            if partition in keeps:
                continue
            if partition in owners and partition not in its_own:
                others_hold = True
            else:
                gets.append(partition)
        if keeps:
            kept[topic_id] = keeps
        if drops:
            given_up[topic_id] = drops
        if gets:
            new[topic_id] = gets
    if given_up and _still_has(given_up, now.owned):
        return _arrived(member, Obstacle.OWN, now.target_epoch, kept, given_up)
    for topic_id, partitions in new.items():
        held = kept.setdefault(topic_id, {})
        held.update(dict.fromkeys(partitions, now.target_epoch))
    obstacle = Obstacle.OTHERS if others_hold else Obstacle.NONE
    return _arrived(member, obstacle, now.target_epoch, kept, NOTHING)


def _trim(member: Member, now: Situation) -> Member:
    kept = {id_: held for id_, held in member.assigned.items() if now.reads(id_)}
    if len(kept) == len(member.assigned):
        return member
    given_up = dict(member.revoking)
    for topic_id, held in member.assigned.items():
        if topic_id not in kept:
            given_up[topic_id] = {**given_up.get(topic_id, {}), **held}
    if _still_has(given_up, now.owned):
        return _arrived(member, Obstacle.OWN, now.target_epoch, kept, given_up)
    return member._replace(previous_epoch=member.epoch, assigned=kept)


def _arrived(
    member: Member, obstacle: Obstacle, target_epoch: int, assigned: Holding, revoking: Holding
) -> Member:
    arrival = ARRIVALS[obstacle]
    return member._replace(
        epoch=target_epoch if arrival.in_target_epoch else member.epoch,
        previous_epoch=member.epoch,
        state=arrival.state,
        assigned=assigned,
        revoking=revoking,
    )
