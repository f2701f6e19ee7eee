"""The state table of classic groups."""

import pytest

from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_states import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    TRANSITIONS,
    Event,
    IllegalTransition,
    State,
    state_after,
)

KAFKAS = {
    EMPTY: {PREPARING, DEAD},
    PREPARING: {COMPLETING, EMPTY, DEAD},
    COMPLETING: {STABLE, PREPARING, DEAD},
    STABLE: {PREPARING, DEAD},
    DEAD: {DEAD},
}


def test_the_transitions_are_those_of_kafka() -> None:
    assert {state: set(row.values()) for state, row in TRANSITIONS.items()} == KAFKAS


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_an_event_moves_a_group_or_raises_and_changes_nothing(state: State, event: Event) -> None:
    group = ClassicGroup("g", 1)
    group.state = state
    if event in TRANSITIONS[state]:
        group.move(event, 2)
        assert (group.state, group.state_since_ms) == (state_after(state, event), 2)
    else:
        with pytest.raises(IllegalTransition):
            group.move(event, 2)
        assert (group.state, group.state_since_ms) == (state, 1)
