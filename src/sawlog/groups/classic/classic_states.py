"""The states of a classic group and all moves between them, in one table.

An event that is not in a state's row is a mistake of ours: it raises, and changes nothing.
"""

from collections.abc import Mapping
from enum import Enum, StrEnum


class State(StrEnum):
    """The words are those of ListGroups and DescribeGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(Enum):
    REBALANCE = "somebody came, went or changed: all have to join anew"
    JOINED = "the members of the next generation are known"
    EMPTIED = "the time to join is over, and nobody is there"
    ASSIGNED = "the leader's assignment is written"
    ENDED = "the group lives elsewhere, or nowhere"


EMPTY = State.EMPTY
PREPARING = State.PREPARING_REBALANCE
COMPLETING = State.COMPLETING_REBALANCE
STABLE = State.STABLE
DEAD = State.DEAD

TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    EMPTY: {Event.REBALANCE: PREPARING, Event.ENDED: DEAD},
    PREPARING: {Event.JOINED: COMPLETING, Event.EMPTIED: EMPTY, Event.ENDED: DEAD},
    COMPLETING: {Event.REBALANCE: PREPARING, Event.ASSIGNED: STABLE, Event.ENDED: DEAD},
    STABLE: {Event.REBALANCE: PREPARING, Event.ENDED: DEAD},
    DEAD: {Event.ENDED: DEAD},
}


class IllegalTransition(Exception):
    """An event at a time when it cannot happen."""


def state_after(state: State, event: Event) -> State:
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise IllegalTransition(f"{event.name} in state {state}")
    return following
