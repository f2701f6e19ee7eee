"""The table of a replica's roles."""

import pytest

from sawlog.replication.roles import Event, IllegalTransition, Role, next_role


@pytest.mark.parametrize(
    ("role", "event", "after"),
    [
        (Role.FOLLOWER, Event.LEAD, Role.LEADER),
        (Role.LEADER, Event.FOLLOW, Role.FOLLOWER),
    ],
)
def test_only_a_new_epoch_exchanges_leader_and_follower(
    role: Role, event: Event, after: Role
) -> None:
    assert next_role(role, event, is_new_epoch=True) is after
    with pytest.raises(IllegalTransition):
        next_role(role, event, is_new_epoch=False)


@pytest.mark.parametrize("role", [Role.IDLE, Role.FOLLOWER, Role.LEADER])
def test_a_replica_without_a_leader_takes_no_role(role: Role) -> None:
    assert next_role(role, Event.LOSE_LEADER, is_new_epoch=False) is Role.IDLE


@pytest.mark.parametrize("event", Event)
def test_a_closed_replica_takes_no_role_again(event: Event) -> None:
    with pytest.raises(IllegalTransition):
        next_role(Role.CLOSED, event, is_new_epoch=True)
