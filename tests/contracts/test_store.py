"""The contract of the Store port: for the embedded store on both disks, the simulated one, and
ZooKeeper."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sawlog.core.store import (
    BadArguments,
    BadVersion,
    Check,
    Create,
    Delete,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionLost,
    SessionState,
    SetData,
    StoreError,
    WatchEvent,
    WatchKind,
)
from support.cluster.stores import HARNESSES, Session, StoreHarness, flattened
from support.server.zookeeper import StoresOnZooKeeper

ZOOKEEPER = "zookeeper"


@pytest.fixture(params=[*sorted(HARNESSES), pytest.param(ZOOKEEPER, marks=pytest.mark.long)])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreHarness]:
    harness: StoreHarness
    if request.param == ZOOKEEPER:
        harness = StoresOnZooKeeper(request.getfixturevalue("zookeeper").new_chroot())
    else:
        harness = HARNESSES[request.param](tmp_path)
    yield harness
    harness.close()


@pytest.fixture
def session(harness: StoreHarness) -> Session:
    return Session(harness)


# Nodes


def test_a_created_node_is_read_back_at_version_0(session: Session) -> None:
    assert session.multi(Create("/a", b"one")) == ["/a"]
    node = session.get("/a")
    assert (node.data, node.stat.version, node.stat.children, node.stat.owner) == (b"one", 0, 0, 0)


def test_any_bytes_can_be_stored(session: Session) -> None:
    data = bytes(range(256))
    session.multi(Create("/a", data))
    assert session.get("/a").data == data


def test_a_node_is_created_once_and_below_its_parent(session: Session) -> None:
    session.multi(Create("/a", b"first"))
    with pytest.raises(NodeExists):
        session.multi(Create("/a", b"second"))
    with pytest.raises(NoNode):
        session.multi(Create("/x/y"))
    assert session.get("/a").data == b"first"


@pytest.mark.parametrize("path", ["a", "", "/a/", "//a", "/a/../b", "/a/./b", "/a\0b"])
def test_an_invalid_path_is_rejected(session: Session, path: str) -> None:
    with pytest.raises(BadArguments):
        session.multi(Create(path))


def test_data_of_more_than_a_mebibyte_is_rejected(session: Session) -> None:
    with pytest.raises(BadArguments):
        session.multi(Create("/big", bytes((1 << 20) + 1)))
    assert session.exists("/big") is None


def test_setting_data_raises_the_version(session: Session) -> None:
    session.multi(Create("/a", b"0"))
    (stat,) = session.multi(SetData("/a", b"1", version=0))
    assert stat == session.get("/a").stat
    session.multi(SetData("/a", b"2"))
    assert (session.get("/a").data, session.get("/a").stat.version) == (b"2", 2)


def test_a_wrong_version_changes_nothing(session: Session) -> None:
    session.multi(Create("/a", b"0"))
    with pytest.raises(BadVersion):
        session.multi(SetData("/a", b"1", version=7))
    with pytest.raises(BadVersion):
        session.multi(Delete("/a", version=1))
    assert session.get("/a").data == b"0"


def test_a_missing_node_cannot_be_set_or_deleted(session: Session) -> None:
    for operation in (SetData("/a", b""), Delete("/a"), Check("/a", 0)):
        with pytest.raises(NoNode):
            session.multi(operation)
    with pytest.raises(NoNode):
        session.get("/a")
    with pytest.raises(NoNode):
        session.children("/a")
    assert session.exists("/a") is None


def test_a_node_with_children_is_not_deleted(session: Session) -> None:
    session.multi(Create("/a"), Create("/a/b"))
    with pytest.raises(NotEmpty):
        session.multi(Delete("/a"))
    session.multi(Delete("/a/b"), Delete("/a"))
    assert session.exists("/a") is None


def test_children_are_sorted_and_counted(session: Session) -> None:
    session.multi(Create("/a"), Create("/a/c"), Create("/a/b"), Create("/a/b/deep"))
    assert session.children("/a") == ["b", "c"]
    assert session.exists("/a").children == 2


def test_change_numbers_rise_over_the_tree(session: Session) -> None:
    session.multi(Create("/a"))
    session.multi(Create("/b"))
    session.multi(SetData("/a", b"1"))
    a, b = session.exists("/a"), session.exists("/b")
    assert a.created < b.created < a.modified
    session.multi(Delete("/b"))
    session.multi(Create("/b"))
    assert session.exists("/b").created > a.modified


def test_sequential_nodes_have_rising_unique_numbers(session: Session) -> None:
    session.multi(Create("/q"))
    first = session.multi(Create("/q/n-", sequential=True))[0]
    second = session.multi(Create("/q/n-", sequential=True))[0]
    session.multi(Delete(str(second)))
    third = session.multi(Create("/q/n-", sequential=True))[0]
    assert first == "/q/n-0000000000"
    assert str(first) < str(second) < str(third)
    assert len(str(third)) == len("/q/n-") + 10


# Multi


def test_a_multi_is_atomic(session: Session) -> None:
    results = session.multi(
        Create("/a", b"0"), Create("/a/b"), SetData("/a", b"1"), Check("/a", 1), Delete("/a/b")
    )
    assert flattened(results) == ["/a", "/a/b", "NodeStat", "NoneType", "NoneType"]
    assert session.get("/a").stat.version == 1


def test_a_failed_multi_changes_nothing_and_returns_the_first_error(session: Session) -> None:
    session.multi(Create("/keep", b"0"))
    with pytest.raises(BadVersion) as raised:
        session.multi(
            Create("/a"),
            Create("/a/b"),
            SetData("/keep", b"1"),
            Check("/keep", 9),
            Delete("/nowhere"),
        )
    assert raised.value.path == "/keep"
    assert session.exists("/a") is None
    assert (session.get("/keep").data, session.get("/keep").stat.version) == (b"0", 0)


def test_a_failed_multi_restores_deleted_nodes(session: Session) -> None:
    session.multi(Create("/a", b"data"), Create("/a/b"), SetData("/a", b"more"))
    before = session.get("/a")
    with pytest.raises(NodeExists):
        session.multi(Delete("/a/b"), Delete("/a"), Create("/a"), Create("/a"))
    assert session.get("/a") == before
    assert session.children("/a") == ["b"]


def test_a_multi_of_checks_only_works(session: Session) -> None:
    session.multi(Create("/a"))
    assert session.multi(Check("/a", 0)) == [None]
    with pytest.raises(BadVersion):
        session.multi(Check("/a", 1))


# Answers


def test_results_never_come_from_inside_the_call(session: Session) -> None:
    results: list[object] = []
    session.store.multi([Create("/a")], results.append)
    session.store.get("/a", results.append)
    session.store.multi([Create("/a")], results.append)
    session.store.exists("/b", results.append)
    assert results == []
    assert session.harness.drive(lambda: len(results) == 4)


def test_results_come_once_and_in_the_order_of_the_calls(session: Session) -> None:
    order: list[int] = []

    def note(number: int) -> None:
        def ask_more(_: object) -> None:
            order.append(number)
            if number < 3:
                session.store.exists("/", lambda _: order.append(100 + number))

        if number % 2:
            session.store.multi([Create(f"/n{number}")], ask_more)
        else:
            session.store.get(f"/n{number - 1}", ask_more)

    for number in range(1, 9):
        note(number)
    assert session.harness.drive(lambda: len(order) == 10)
    session.settle()
    assert [n for n in order if n < 100] == list(range(1, 9))
    assert [n for n in order if n >= 100] == [101, 102]


def test_a_read_sees_earlier_writes(session: Session) -> None:
    seen: list[object] = []
    session.store.multi([Create("/a", b"0")], lambda _: None)
    session.store.multi([SetData("/a", b"1")], lambda _: None)
    session.store.get("/a", seen.append)
    session.store.multi([SetData("/a", b"2")], lambda _: None)
    assert session.harness.drive(lambda: bool(seen))
    assert getattr(seen[0], "data", None) == b"1"


# Watches


def test_a_data_watch_reports_the_next_change_once(session: Session) -> None:
    events: list[WatchEvent] = []
    session.multi(Create("/a"))
    session.get("/a", events.append)
    session.multi(SetData("/a", b"1"))
    session.multi(SetData("/a", b"2"))
    session.settle()
    assert events == [WatchEvent(WatchKind.CHANGED, "/a")]


def test_a_data_watch_reports_a_deletion_but_no_children(session: Session) -> None:
    events: list[WatchEvent] = []
    session.multi(Create("/a"))
    session.get("/a", events.append)
    session.multi(Create("/a/b"))
    session.multi(Delete("/a/b"))
    session.settle()
    assert events == []
    session.multi(Delete("/a"))
    session.settle()
    assert events == [WatchEvent(WatchKind.DELETED, "/a")]


def test_reading_a_missing_node_sets_no_watch(session: Session) -> None:
    events: list[WatchEvent] = []
    with pytest.raises(NoNode):
        session.get("/a", events.append)
    session.multi(Create("/a"))
    session.settle()
    assert events == []


def test_an_exists_watch_reports_a_creation(session: Session) -> None:
    events: list[WatchEvent] = []
    session.exists("/a", events.append)
    session.multi(Create("/a"))
    session.multi(SetData("/a", b"1"))
    session.settle()
    assert events == [WatchEvent(WatchKind.CREATED, "/a")]


@pytest.mark.parametrize(
    ("operation", "kind"),
    [(SetData("/a", b"1"), WatchKind.CHANGED), (Delete("/a"), WatchKind.DELETED)],
)
def test_an_exists_watch_on_a_node_reports_its_changes(
    session: Session, operation: Operation, kind: WatchKind
) -> None:
    events: list[WatchEvent] = []
    session.multi(Create("/a"))
    session.exists("/a", events.append)
    session.multi(operation)
    session.settle()
    assert events == [WatchEvent(kind, "/a")]


def test_a_children_watch_reports_created_and_deleted_children_only(session: Session) -> None:
    events: list[WatchEvent] = []
    session.multi(Create("/a"), Create("/a/b"))
    session.children("/a", events.append)
    session.multi(SetData("/a", b"1"), SetData("/a/b", b"1"), Create("/a/b/c"))
    session.settle()
    assert events == []
    session.multi(Create("/a/x"), Create("/a/y"))
    session.settle()
    assert events == [WatchEvent(WatchKind.CHILDREN, "/a")]


def test_a_children_watch_reports_the_deletion_of_its_node(session: Session) -> None:
    events: list[WatchEvent] = []
    session.multi(Create("/a"))
    session.children("/a", events.append)
    session.multi(Delete("/a"))
    session.settle()
    assert events == [WatchEvent(WatchKind.DELETED, "/a")]


def test_a_watch_is_called_before_a_result_that_shows_the_change(session: Session) -> None:
    log: list[str] = []
    session.multi(Create("/a", b"0"))
    session.get("/a", lambda event: log.append("watch"))
    session.store.multi([SetData("/a", b"1")], lambda _: None)
    session.store.get("/a", lambda node: log.append("result"))
    assert session.harness.drive(lambda: len(log) == 2)
    assert log == ["watch", "result"]


def test_a_failed_write_calls_no_watch(session: Session) -> None:
    events: list[WatchEvent] = []
    session.multi(Create("/a"))
    session.get("/a", events.append)
    session.children("/", events.append)
    with pytest.raises(NodeExists):
        session.multi(SetData("/a", b"1"), Create("/b"), Create("/a"))
    session.settle()
    assert events == []


# Sessions


def test_a_session_is_connected_and_has_an_id(session: Session) -> None:
    assert session.store.state is SessionState.CONNECTED
    assert session.store.session_id > 0
    assert not session.store.may_have_expired()


def test_an_ephemeral_node_has_an_owner_and_no_children(session: Session) -> None:
    session.multi(Create("/e", b"me", ephemeral=True))
    assert session.exists("/e").owner == session.store.session_id
    with pytest.raises(NoChildrenForEphemerals):
        session.multi(Create("/e/child"))


def test_only_ephemeral_nodes_are_deleted_with_the_session(session: Session) -> None:
    session.multi(
        Create("/stays", b"x"), Create("/e", ephemeral=True), Create("/stays/e", ephemeral=True)
    )
    session.close()
    second = Session(session.harness)
    assert second.store.session_id != session.store.session_id
    assert second.get("/stays").data == b"x"
    assert second.children("/stays") == []
    assert second.exists("/e") is None


def test_calls_before_a_close_succeed_and_calls_after_it_fail(session: Session) -> None:
    results: list[object] = []
    session.store.multi([Create("/a")], results.append)
    session.close()
    assert results == [["/a"]]
    late: list[object] = []
    session.store.get("/a", late.append)
    session.store.multi([Create("/b")], late.append)
    assert session.harness.drive(lambda: len(late) == 2)
    assert all(isinstance(result, SessionLost) for result in late)
    assert Session(session.harness).exists("/b") is None


def test_acknowledged_writes_are_visible_in_the_next_session(session: Session) -> None:
    session.multi(Create("/a", b"0"), Create("/a/b"))
    session.multi(SetData("/a", b"1"))
    session.multi(Delete("/a/b"))
    created = session.exists("/a").created
    session.close()
    second = Session(session.harness)
    node = second.get("/a")
    assert (node.data, node.stat.version, node.stat.created) == (b"1", 1, created)
    assert second.children("/a") == []
    assert second.multi(Create("/a/s-", sequential=True)) == ["/a/s-0000000001"]


def test_errors_are_values_that_name_the_path(session: Session) -> None:
    results: list[object] = []
    session.store.get("/missing", results.append)
    assert session.harness.drive(lambda: bool(results))
    assert isinstance(results[0], StoreError)
    assert results[0].path == "/missing"
