"""The states of a classic group and the transitions between them, in one table.

An event that is not in the row of a state is a bug: it raises and changes nothing.
"""

from collections.abc import Mapping
from enum import Enum, StrEnum


class State(StrEnum):
    """The values are those of ListGroups and DescribeGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(Enum):
    REBALANCE = "a member joined, left or changed: all members have to rejoin"
    JOINED = "the members of the next generation are known"
    EMPTIED = "no member joined in time"
    ASSIGNED = "the leader's assignment is written"
    UNLOADED = "this broker no longer coordinates the group"


EMPTY = State.EMPTY
PREPARING = State.PREPARING_REBALANCE
COMPLETING = State.COMPLETING_REBALANCE
STABLE = State.STABLE
DEAD = State.DEAD

TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    EMPTY: {Event.REBALANCE: PREPARING, Event.UNLOADED: DEAD},
    PREPARING: {Event.JOINED: COMPLETING, Event.EMPTIED: EMPTY, Event.UNLOADED: DEAD},
    COMPLETING: {Event.REBALANCE: PREPARING, Event.ASSIGNED: STABLE, Event.UNLOADED: DEAD},
    STABLE: {Event.REBALANCE: PREPARING, Event.UNLOADED: DEAD},
    DEAD: {Event.UNLOADED: DEAD},
}


class IllegalTransition(Exception):
    """An event in a state in which it cannot happen."""


def state_after(state: State, event: Event) -> State:
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise IllegalTransition(f"{event.name} in state {state}")
    return following
