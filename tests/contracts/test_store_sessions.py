"""The contract of the Store port for sessions that are suspended or lost.

Suspension is for stores with a connection: the simulated one and ZooKeeper. The embedded store has
one session per process, which ends with a failed fsync.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from sawlog.core.store import (
    BadVersion,
    ConnectionLost,
    Create,
    NodeExists,
    SessionLost,
    SessionState,
    SetData,
    WatchEvent,
    WatchKind,
)
from support.cluster.stores import (
    Cable,
    EmbeddedOnSimulatedDisk,
    Link,
    LinkedSession,
    Session,
    Simulated,
)
from support.server.zookeeper import StoresOnZooKeeper

Harness = EmbeddedOnSimulatedDisk | Simulated | StoresOnZooKeeper
WITH_CONNECTIONS = ["simulated", pytest.param("zookeeper", marks=pytest.mark.long)]
only_with_connections = pytest.mark.parametrize("harness", WITH_CONNECTIONS, indirect=True)


@pytest.fixture(params=["embedded", *WITH_CONNECTIONS])
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    harness: Harness
    if request.param == "embedded":
        harness = EmbeddedOnSimulatedDisk()
    elif request.param == "simulated":
        harness = Simulated()
    else:
        harness = StoresOnZooKeeper(request.getfixturevalue("zookeeper").new_chroot())
    yield harness
    harness.close()


@pytest.fixture
def link(harness: Harness) -> Link:
    return harness.link()


@pytest.fixture
def cable(harness: Harness) -> Cable:
    assert not isinstance(harness, EmbeddedOnSimulatedDisk)
    return harness.link()


def suspended(harness: Harness, cable: Cable) -> LinkedSession:
    session = LinkedSession(harness, cable)
    cable.cut()
    session.await_state(SessionState.SUSPENDED)
    return session


def reconnect(cable: Cable, session: LinkedSession) -> None:
    cable.restore()
    session.await_state(SessionState.CONNECTED)


# Suspended


@only_with_connections
def test_a_short_cut_keeps_the_session_and_its_ephemerals(harness: Harness, cable: Cable) -> None:
    session, other = LinkedSession(harness, cable), Session(harness)
    session_id = session.store.session_id
    session.multi(Create("/e", ephemeral=True))
    cable.cut()
    session.await_state(SessionState.SUSPENDED)
    assert other.exists("/e").owner == session_id
    reconnect(cable, session)
    assert session.store.session_id == session_id
    assert session.exists("/e").owner == session_id
    assert session.states == [SessionState.SUSPENDED, SessionState.CONNECTED]


@only_with_connections
def test_calls_of_a_suspended_session_fail_and_never_happen(harness: Harness, cable: Cable) -> None:
    session = suspended(harness, cable)
    with pytest.raises(ConnectionLost) as raised:
        session.multi(Create("/a"))
    assert raised.value.path == "/a"
    with pytest.raises(ConnectionLost):
        session.get("/")
    reconnect(cable, session)
    session.settle()
    assert session.exists("/a") is None


@only_with_connections
def test_pending_calls_get_one_result_each_when_the_connection_is_cut(
    harness: Harness, cable: Cable
) -> None:
    session = LinkedSession(harness, cable)
    results: list[tuple[int, Any]] = []
    session.multi(Create("/n", b""))
    for number in range(2000):
        session.store.multi(
            [SetData("/n", b"%d" % number)],
            lambda result, number=number: results.append((number, result)),
        )
        if number == 500:
            assert harness.drive(lambda: len(results) > 100)
        if number == 1000:
            cable.cut()
    assert harness.drive(lambda: len(results) == 2000)
    session.await_state(SessionState.SUSPENDED)
    reconnect(cable, session)
    session.settle()
    answered = [number for number, result in results if isinstance(result, list)]
    failed = [number for number, result in results if isinstance(result, ConnectionLost)]
    assert [number for number, _ in results] == answered + failed, "no answer after a failure"
    assert answered + sorted(failed) == list(range(2000))
    assert failed, "the last calls were made after the cut"
    assert int(session.get("/n").data) >= answered[-1], "what was acknowledged is there"


@only_with_connections
def test_watches_do_not_survive_a_cut_and_are_set_by_reading_again(
    harness: Harness, cable: Cable
) -> None:
    session, other = LinkedSession(harness, cable), Session(harness)
    missed: list[WatchEvent] = []
    session.multi(Create("/a"))
    session.get("/a", missed.append)
    session.exists("/b", missed.append)
    session.children("/a", missed.append)
    cable.cut()
    session.await_state(SessionState.SUSPENDED)
    other.multi(SetData("/a", b"1"), Create("/b"), Create("/a/c"))
    reconnect(cable, session)
    other.multi(SetData("/a", b"2"), SetData("/b", b"2"))
    session.settle()
    assert missed == []
    events: list[WatchEvent] = []
    assert session.get("/a", events.append).data == b"2"
    other.multi(SetData("/a", b"3"))
    assert harness.drive(lambda: bool(events))
    assert events == [WatchEvent(WatchKind.CHANGED, "/a")]


# A write whose answer was lost


@only_with_connections
def test_a_write_whose_answer_was_lost_has_happened_once(harness: Harness, cable: Cable) -> None:
    session = LinkedSession(harness, cable)
    session.multi(Create("/n", b"0"))
    results: list[object] = []
    cable.lose_answer(SetData("/n", b"1", version=0), results.append)
    assert harness.drive(lambda: bool(results))
    assert isinstance(results[0], ConnectionLost)
    reconnect(cable, session)
    node = session.get("/n")
    assert (node.data, node.stat.version) == (b"1", 1)
    with pytest.raises(BadVersion):
        session.multi(SetData("/n", b"1", version=0))


@only_with_connections
def test_an_ephemeral_whose_answer_was_lost_belongs_to_the_session(
    harness: Harness, cable: Cable
) -> None:
    session = LinkedSession(harness, cable)
    results: list[object] = []
    cable.lose_answer(Create("/e", ephemeral=True), results.append)
    session.await_state(SessionState.SUSPENDED)
    reconnect(cable, session)
    with pytest.raises(NodeExists):
        session.multi(Create("/e", ephemeral=True))
    assert [type(result) for result in results] == [ConnectionLost]
    assert session.exists("/e").owner == session.store.session_id


# Lost


def test_a_lost_session_is_reported_and_a_new_one_works(harness: Harness, link: Link) -> None:
    session = LinkedSession(harness, link)
    first = session.store.session_id
    events: list[WatchEvent] = []
    session.multi(Create("/stays", b"x"), Create("/e", ephemeral=True))
    session.get("/stays", events.append)
    link.end_session()
    session.store = link.next_session()
    assert session.store.state is SessionState.CONNECTED
    assert session.store.session_id not in (0, first)
    assert SessionState.LOST in session.states
    assert session.exists("/e") is None
    session.multi(SetData("/stays", b"y"), Create("/e", ephemeral=True))
    assert session.exists("/e").owner == session.store.session_id
    session.settle()
    assert events == [], "a watch of the lost session"


def test_calls_of_a_lost_session_fail_and_never_happen(harness: Harness, link: Link) -> None:
    session = LinkedSession(harness, link)
    results: list[object] = []

    def ask(state: SessionState) -> None:
        if state is SessionState.LOST:
            session.store.multi([Create("/a")], results.append)
            session.store.get("/", results.append)

    session.store.on_state(ask)
    link.end_session()
    assert harness.drive(lambda: len(results) == 2)
    assert [type(result) for result in results] == [SessionLost, SessionLost]
    session.store = link.next_session()
    assert session.exists("/a") is None


def test_pending_calls_of_a_lost_session_may_have_happened(harness: Harness, link: Link) -> None:
    session = LinkedSession(harness, link)
    results: list[object] = []
    session.store.on_state(lambda _: results.append("state"))
    session.multi(Create("/n", b"0"))
    session.store.multi([SetData("/n", b"1")], results.append)
    link.end_session()
    assert harness.drive(lambda: len(results) > 1)
    pending = next(result for result in results if result != "state")
    session.store = link.next_session()
    node = session.get("/n")
    if isinstance(pending, list):
        assert (node.data, node.stat.version) == (b"1", 1)
    else:
        assert isinstance(pending, ConnectionLost)
        assert (node.data, node.stat.version) in ((b"0", 0), (b"1", 1))
    session.settle()
    assert session.get("/n") == node


@only_with_connections
def test_the_end_of_a_session_fires_the_watches_of_others(harness: Harness, cable: Cable) -> None:
    session, other = LinkedSession(harness, cable), Session(harness)
    events: list[WatchEvent] = []
    session.multi(Create("/e", ephemeral=True), Create("/stays"))
    other.exists("/e", events.append)
    cable.end_session()
    assert harness.drive(lambda: bool(events))
    assert events == [WatchEvent(WatchKind.DELETED, "/e")]
    assert other.exists("/e") is None
    assert other.exists("/stays") is not None
    assert harness.drive(lambda: session.states[-2:] == [SessionState.LOST, SessionState.CONNECTED])


@only_with_connections
def test_a_session_that_expires_during_a_cut_is_lost_at_the_reconnection(
    harness: Harness, cable: Cable
) -> None:
    session, other = LinkedSession(harness, cable), Session(harness)
    first = session.store.session_id
    expired: list[bool] = []
    session.multi(Create("/e", ephemeral=True))
    other.exists("/e", lambda _: expired.append(session.store.may_have_expired()))
    cable.cut()
    session.await_state(SessionState.SUSPENDED)
    assert not session.store.may_have_expired()
    assert harness.drive(lambda: bool(expired))
    assert expired == [True], "the client knew it when its session ended"
    assert session.store.state is SessionState.SUSPENDED, "and waits for the service to say so"
    reconnect(cable, session)
    assert session.states == [
        SessionState.SUSPENDED,
        SessionState.LOST,
        SessionState.CONNECTED,
    ]
    assert session.store.session_id not in (0, first)
    assert not session.store.may_have_expired()
    assert session.exists("/e") is None
