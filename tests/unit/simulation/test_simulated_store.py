"""Faults of the simulated store beyond the contract of `tests/contracts`: draws and crashes."""

import pytest

from sawlog.core.store import ConnectionLost, Create, SessionState
from support.cluster.stores import Session, Simulated


@pytest.fixture
def world() -> Simulated:
    return Simulated()


class Client(Session):
    """A session that records its states."""

    def __init__(self, world: Simulated) -> None:
        super().__init__(world)
        self.simulated = next(iter(reversed(world.service._clients.values())))
        self.states: list[SessionState] = []
        self.store.on_state(self.states.append)


def test_pending_calls_of_a_broken_connection_may_have_taken_effect(world: Simulated) -> None:
    outcomes = set()
    for number in range(30):
        client = Client(world)
        answers: list[object] = []
        client.store.multi([Create(f"/n{number}")], answers.append)
        client.simulated.suspend()
        assert world.drive(lambda: bool(answers))  # noqa: B023
        assert isinstance(answers[0], ConnectionLost)
        outcomes.add(world.service.tree.exists(f"/n{number}") is not None)
    assert outcomes == {True, False}, "both outcomes must occur"


def test_crashed_client_gets_no_answers_and_leaves_its_session_open(world: Simulated) -> None:
    one, two = Client(world), Client(world)
    one.multi(Create("/e", ephemeral=True))
    answers: list[object] = []
    one.store.get("/e", answers.append)
    one.simulated.crash()
    assert two.exists("/e") is not None
    world.schedule.run_for(100)
    assert answers == []
    one.simulated.expire()
    assert two.exists("/e") is None
    assert one.states == []
