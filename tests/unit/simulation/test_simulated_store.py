"""Faults of the simulated store: broken connections and expired sessions."""

import pytest

from sawlog.core.store import (
    ConnectionLost,
    Create,
    NoNode,
    SessionLost,
    SessionState,
    WatchEvent,
    WatchKind,
)
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


def test_expiry_deletes_ephemerals_and_fires_watches_of_other_sessions(world: Simulated) -> None:
    one, two = Client(world), Client(world)
    one.multi(Create("/e", ephemeral=True), Create("/stays"))
    events: list[WatchEvent] = []
    two.exists("/e", events.append)
    one.simulated.expire()
    assert world.drive(lambda: bool(events))
    assert events == [WatchEvent(WatchKind.DELETED, "/e")]
    with pytest.raises(NoNode):
        two.get("/e")
    assert two.exists("/stays") is not None


def test_expired_client_starts_a_new_session(world: Simulated) -> None:
    client = Client(world)
    old = client.store.session_id
    client.simulated.expire()
    with pytest.raises(SessionLost):
        client.get("/")
    assert world.drive(lambda: client.store.state is SessionState.CONNECTED)
    assert client.states == [SessionState.LOST, SessionState.CONNECTED]
    assert client.store.session_id != old
    assert client.get("/") is not None


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


def test_suspended_client_keeps_its_session_and_loses_its_watches(world: Simulated) -> None:
    one, two = Client(world), Client(world)
    one.multi(Create("/e", ephemeral=True))
    events: list[WatchEvent] = []
    one.exists("/x", events.append)
    one.simulated.suspend()
    with pytest.raises(ConnectionLost):
        one.get("/e")
    two.multi(Create("/x"))
    assert two.exists("/e") is not None
    one.simulated.resume()
    one.settle()
    assert events == []
    assert one.states == [SessionState.SUSPENDED, SessionState.CONNECTED]


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
