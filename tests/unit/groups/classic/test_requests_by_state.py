"""Every request in every state of a group: the response and the next state."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.groups.classic.classic_states import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    Event,
    State,
)
from support.groups.classic_group import COMMIT_MS, Asked, ClassicWorld

NONE = ErrorCode.NONE
UNKNOWN_MEMBER_ID = ErrorCode.UNKNOWN_MEMBER_ID
REBALANCE_IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
ILLEGAL_GENERATION = ErrorCode.ILLEGAL_GENERATION
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
ID_REQUIRED = ErrorCode.MEMBER_ID_REQUIRED
INCONSISTENT = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
PARKED = None


class Scene(NamedTuple):
    """A group with a leader and a follower, if it has members; `pending` has not joined yet."""

    world: ClassicWorld
    leader: str
    follower: str
    pending: str
    generation: int


def scene(state: State) -> Scene:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    pending = world.new_id()
    if state is EMPTY:
        world.leave(leader, follower)
        world.pass_ms(COMMIT_MS)
    elif state is DEAD:
        world.group().move(Event.UNLOADED, 0)
    elif state is not STABLE:
        world.leave(pending)
        pending = world.new_id()
        world.join(leader)
    if state is COMPLETING:
        world.leave(pending)
        world.join(follower)
        pending = world.new_id()
    assert world.group().state is state
    return Scene(world, leader, follower, pending, world.group().generation)


NEW = (("range", b"new"),)
OTHER = (("other", b""),)

REQUESTS: dict[str, Callable[[Scene], Asked]] = {
    "new member": lambda s: s.world.join(),
    "new member, before required ids": lambda s: s.world.join(version=3),
    "new static member": lambda s: s.world.join(instance="i"),
    "new member, other protocol": lambda s: s.world.join(protocols=OTHER),
    "new member, other type": lambda s: s.world.join(protocol_type="connect"),
    "pending member": lambda s: s.world.join(s.pending),
    "unknown member": lambda s: s.world.join("nobody"),
    "leader joins as before": lambda s: s.world.join(s.leader),
    "follower joins as before": lambda s: s.world.join(s.follower),
    "follower joins with news": lambda s: s.world.join(s.follower, protocols=NEW),
    "unknown syncs": lambda s: s.world.sync("nobody", s.generation),
    "pending syncs": lambda s: s.world.sync(s.pending, s.generation),
    "leader syncs": lambda s: s.world.sync(s.leader, s.generation, {s.leader: b"a"}),
    "follower syncs": lambda s: s.world.sync(s.follower, s.generation),
    "sync in an old generation": lambda s: s.world.sync(s.leader, s.generation - 1),
    "sync of another protocol": lambda s: s.world.sync(s.leader, s.generation, protocol="other"),
    "sync of another type": lambda s: s.world.sync(s.leader, s.generation, protocol_type="x"),
    "unknown beats": lambda s: s.world.heartbeat("nobody", s.generation),
    "pending beats": lambda s: s.world.heartbeat(s.pending, s.generation),
    "member beats": lambda s: s.world.heartbeat(s.follower, s.generation),
    "beat in an old generation": lambda s: s.world.heartbeat(s.leader, s.generation - 1),
    "unknown leaves": lambda s: s.world.leave("nobody"),
    "pending leaves": lambda s: s.world.leave(s.pending),
    "member leaves": lambda s: s.world.leave(s.follower),
    "all leave": lambda s: s.world.leave(s.leader, s.follower, s.pending),
}

# For each request: the response and the next state, in Empty, PreparingRebalance,
# CompletingRebalance, Stable and Dead. In PreparingRebalance only the leader has joined; in
# CompletingRebalance no member has synced.
EXPECTED: dict[str, list[tuple[ErrorCode | None, State]]] = {
    "new member": [
        (ID_REQUIRED, EMPTY),
        (ID_REQUIRED, PREPARING),
        (ID_REQUIRED, COMPLETING),
        (ID_REQUIRED, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "new member, before required ids": [
        (PARKED, PREPARING),
        (PARKED, PREPARING),
        (PARKED, PREPARING),
        (PARKED, PREPARING),
        (NOT_AVAILABLE, DEAD),
    ],
    "new static member": [
        (PARKED, PREPARING),
        (PARKED, PREPARING),
        (PARKED, PREPARING),
        (PARKED, PREPARING),
        (NOT_AVAILABLE, DEAD),
    ],
    "new member, other protocol": [
        (ID_REQUIRED, EMPTY),
        (INCONSISTENT, PREPARING),
        (INCONSISTENT, COMPLETING),
        (INCONSISTENT, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "new member, other type": [
        (ID_REQUIRED, EMPTY),
        (INCONSISTENT, PREPARING),
        (INCONSISTENT, COMPLETING),
        (INCONSISTENT, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "pending member": [
        (PARKED, PREPARING),
        (PARKED, PREPARING),
        (PARKED, PREPARING),
        (PARKED, PREPARING),
        (NOT_AVAILABLE, DEAD),
    ],
    "unknown member": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (UNKNOWN_MEMBER_ID, PREPARING),
        (UNKNOWN_MEMBER_ID, COMPLETING),
        (UNKNOWN_MEMBER_ID, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "leader joins as before": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (PARKED, PREPARING),
        (NONE, COMPLETING),
        (PARKED, PREPARING),
        (NOT_AVAILABLE, DEAD),
    ],
    "follower joins as before": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (PARKED, PREPARING),  # the rebalance still waits for a pending member
        (NONE, COMPLETING),
        (NONE, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "follower joins with news": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (PARKED, PREPARING),
        (PARKED, PREPARING),
        (PARKED, PREPARING),
        (NOT_AVAILABLE, DEAD),
    ],
    "unknown syncs": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (UNKNOWN_MEMBER_ID, PREPARING),
        (UNKNOWN_MEMBER_ID, COMPLETING),
        (UNKNOWN_MEMBER_ID, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "pending syncs": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (UNKNOWN_MEMBER_ID, PREPARING),
        (UNKNOWN_MEMBER_ID, COMPLETING),
        (UNKNOWN_MEMBER_ID, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "leader syncs": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (REBALANCE_IN_PROGRESS, PREPARING),
        (NONE, STABLE),
        (NONE, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "follower syncs": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (REBALANCE_IN_PROGRESS, PREPARING),
        (PARKED, COMPLETING),
        (NONE, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "sync in an old generation": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (ILLEGAL_GENERATION, PREPARING),
        (ILLEGAL_GENERATION, COMPLETING),
        (ILLEGAL_GENERATION, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "sync of another protocol": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (INCONSISTENT, PREPARING),
        (INCONSISTENT, COMPLETING),
        (INCONSISTENT, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "sync of another type": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (INCONSISTENT, PREPARING),
        (INCONSISTENT, COMPLETING),
        (INCONSISTENT, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "unknown beats": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (UNKNOWN_MEMBER_ID, PREPARING),
        (UNKNOWN_MEMBER_ID, COMPLETING),
        (UNKNOWN_MEMBER_ID, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "pending beats": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (UNKNOWN_MEMBER_ID, PREPARING),
        (UNKNOWN_MEMBER_ID, COMPLETING),
        (UNKNOWN_MEMBER_ID, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "member beats": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (REBALANCE_IN_PROGRESS, PREPARING),
        (NONE, COMPLETING),
        (NONE, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "beat in an old generation": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (ILLEGAL_GENERATION, PREPARING),
        (ILLEGAL_GENERATION, COMPLETING),
        (ILLEGAL_GENERATION, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "unknown leaves": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (UNKNOWN_MEMBER_ID, PREPARING),
        (UNKNOWN_MEMBER_ID, COMPLETING),
        (UNKNOWN_MEMBER_ID, STABLE),
        (NOT_AVAILABLE, DEAD),
    ],
    "pending leaves": [
        (NONE, EMPTY),
        (NONE, PREPARING),
        # Kafka rebalances whichever member leaves
        (NONE, PREPARING),
        (NONE, PREPARING),
        (NOT_AVAILABLE, DEAD),
    ],
    "member leaves": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (NONE, PREPARING),
        (NONE, PREPARING),
        (NONE, PREPARING),
        (NOT_AVAILABLE, DEAD),
    ],
    "all leave": [
        (UNKNOWN_MEMBER_ID, EMPTY),
        (NONE, EMPTY),
        (NONE, EMPTY),
        (NONE, EMPTY),
        (NOT_AVAILABLE, DEAD),
    ],
}


def answer_to(asked: Asked) -> ErrorCode | None:
    """The error code of a response; of the first member in a LeaveGroup response."""
    if not asked.is_answered:
        return PARKED
    members = getattr(asked.response, "members", None)
    if asked.code is NONE and members and hasattr(members[0], "error_code"):
        return ErrorCode(members[0].error_code)
    return asked.code


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize(
    ("state", "column"),
    [(EMPTY, 0), (PREPARING, 1), (COMPLETING, 2), (STABLE, 3), (DEAD, 4)],
)
def test_the_response_and_the_next_state_of_each_request_in_each_state(
    name: str, state: State, column: int
) -> None:
    here = scene(state)
    asked = REQUESTS[name](here)
    if here.world.is_writing:
        here.world.pass_ms(COMMIT_MS)
    group = here.world.group()
    assert (answer_to(asked), group.state) == EXPECTED[name][column]
