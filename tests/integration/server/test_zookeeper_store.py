"""The Store on a real ZooKeeper whose connection is cut, whose sessions expire, and which dies."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from sawlog.core.store import (
    BadArguments,
    ConnectionLost,
    Create,
    Delete,
    NoAuth,
    SessionLost,
    SessionState,
    SetData,
    WatchEvent,
    WatchKind,
)
from sawlog.server.address import Address
from sawlog.server.zookeeper_address import ZooKeeperAddress
from sawlog.server.zookeeper_requests import MAX_REQUEST_BYTES, ZooKeeperRequests
from sawlog.server.zookeeper_store import ZooKeeperStore, digest_acl
from support.cluster.stores import Session
from support.server.zookeeper import (
    SESSION_TIMEOUT_MS,
    Proxy,
    StoresOnZooKeeper,
    ZooKeeper,
)
from tools.kafka_node import free_port

pytestmark = pytest.mark.long


@pytest.fixture
def proxy(zookeeper: ZooKeeper) -> Iterator[Proxy]:
    proxy = Proxy(zookeeper.address)
    yield proxy
    proxy.close()


@pytest.fixture
def address(zookeeper: ZooKeeper) -> ZooKeeperAddress:
    return zookeeper.new_chroot()


@pytest.fixture
def stores(address: ZooKeeperAddress) -> Iterator[StoresOnZooKeeper]:
    stores = StoresOnZooKeeper(address)
    yield stores
    stores.close()


class CutSession(Session):
    """A session through a proxy, with the states that its store has reported."""

    def __init__(self, stores: StoresOnZooKeeper, address: ZooKeeperAddress, proxy: Proxy) -> None:
        self.harness = stores
        self.proxy = proxy
        self.states: list[SessionState] = []
        self.store: ZooKeeperStore = stores.open(address._replace(servers=(proxy.address,)))
        self.store.on_state(self.states.append)
        self.await_state(SessionState.CONNECTED)

    def await_state(self, state: SessionState) -> None:
        assert self.harness.drive(lambda: self.store.state is state), self.states


@pytest.fixture
def cut(stores: StoresOnZooKeeper, address: ZooKeeperAddress, proxy: Proxy) -> CutSession:
    return CutSession(stores, address, proxy)


def end_session(store: ZooKeeperStore) -> None:
    """End a session from another client, which has its id and password."""
    client = KazooClient(store.address.hosts, client_id=store._client.client_id)
    client.start()
    client.stop()
    client.close()


# A suspended session


def test_a_short_cut_keeps_the_session_and_its_ephemerals(
    cut: CutSession, stores: StoresOnZooKeeper
) -> None:
    session_id = cut.store.session_id
    cut.multi(Create("/e", ephemeral=True))
    cut.proxy.cut()
    cut.await_state(SessionState.SUSPENDED)
    cut.proxy.restore()
    cut.await_state(SessionState.CONNECTED)
    assert cut.store.session_id == session_id
    assert cut.exists("/e").owner == session_id
    assert cut.states == [
        SessionState.CONNECTED,
        SessionState.SUSPENDED,
        SessionState.CONNECTED,
    ]


def test_calls_of_a_suspended_session_fail_at_once_and_name_the_ensemble(cut: CutSession) -> None:
    cut.proxy.cut()
    cut.await_state(SessionState.SUSPENDED)
    with pytest.raises(ConnectionLost, match=f"/a: .*ZooKeeper at {cut.proxy.address}"):
        cut.multi(Create("/a"))
    with pytest.raises(ConnectionLost):
        cut.get("/")


def test_pending_calls_get_one_result_each_in_order_when_the_connection_is_cut(
    cut: CutSession,
) -> None:
    results: list[tuple[int, Any]] = []
    cut.multi(Create("/n", b""))
    for number in range(2000):
        cut.store.multi(
            [SetData("/n", b"%d" % number)],
            lambda result, number=number: results.append((number, result)),
        )
        if number == 1000:
            cut.proxy.cut()
    assert cut.harness.drive(lambda: len(results) == 2000)
    cut.await_state(SessionState.SUSPENDED)
    cut.proxy.restore()
    cut.await_state(SessionState.CONNECTED)
    cut.settle()
    assert [number for number, _ in results] == list(range(2000))
    lost = [number for number, result in results if isinstance(result, ConnectionLost)]
    assert lost == list(range(2000 - len(lost), 2000)), "all after the first that failed"
    assert lost, "the last calls were made after the cut"
    assert int(cut.get("/n").data) >= 2000 - len(lost) - 1, "what was acknowledged is there"


def test_watches_do_not_survive_a_cut_and_never_report_it(
    cut: CutSession, stores: StoresOnZooKeeper
) -> None:
    events: list[WatchEvent] = []
    cut.multi(Create("/a"))
    cut.get("/a", events.append)
    cut.proxy.cut()
    cut.await_state(SessionState.SUSPENDED)
    other = Session(stores)
    other.multi(SetData("/a", b"1"))
    cut.proxy.restore()
    cut.await_state(SessionState.CONNECTED)
    cut.settle()
    assert events == []
    assert cut.get("/a", events.append).data == b"1"
    other.multi(SetData("/a", b"2"))
    assert stores.drive(lambda: bool(events))
    assert events == [WatchEvent(WatchKind.CHANGED, "/a")]


# A lost session


def test_an_expired_session_is_reported_and_a_new_one_works(
    cut: CutSession, stores: StoresOnZooKeeper
) -> None:
    first = cut.store.session_id
    events: list[WatchEvent] = []
    other = Session(stores)
    cut.multi(Create("/e", ephemeral=True))
    other.exists("/e", events.append)
    cut.proxy.cut()
    assert stores.drive(lambda: bool(events)), "the session expired while it was cut off"
    assert cut.store.state is SessionState.SUSPENDED, "it cannot know that yet"
    cut.proxy.restore()
    cut.await_state(SessionState.CONNECTED)
    assert cut.states[-3:] == [
        SessionState.SUSPENDED,
        SessionState.LOST,
        SessionState.CONNECTED,
    ]
    assert cut.store.session_id not in (0, first)
    cut.multi(Create("/e", ephemeral=True))
    assert other.exists("/e").owner == cut.store.session_id


def test_a_session_ended_by_another_client_is_lost_with_its_ephemerals(cut: CutSession) -> None:
    first = cut.store.session_id
    cut.multi(Create("/e", ephemeral=True))
    end_session(cut.store)
    assert cut.harness.drive(
        lambda: SessionState.LOST in cut.states and cut.states[-1] is SessionState.CONNECTED
    )
    assert cut.store.session_id != first
    assert cut.exists("/e") is None


def test_a_session_may_have_expired_before_the_ensemble_ends_it(
    cut: CutSession, stores: StoresOnZooKeeper
) -> None:
    expired: list[bool] = []
    other = Session(stores)
    cut.multi(Create("/e", ephemeral=True))
    other.exists("/e", lambda _: expired.append(cut.store.may_have_expired()))
    cut.proxy.cut()
    cut.await_state(SessionState.SUSPENDED)
    assert not cut.store.may_have_expired()
    assert stores.drive(lambda: bool(expired))
    assert expired == [True], "the client knew it when the ensemble ended the session"
    cut.proxy.restore()
    cut.await_state(SessionState.CONNECTED)
    assert not cut.store.may_have_expired(), "a new session"


def test_pings_alone_keep_a_session_from_expiring(cut: CutSession) -> None:
    lease = cut.store._lease
    first = lease._sent_s
    assert cut.harness.drive(lambda: lease._sent_s > first + SESSION_TIMEOUT_MS / 1000)
    assert not cut.store.may_have_expired()
    assert cut.states == [SessionState.CONNECTED]


# The ensemble


def test_a_killed_and_restarted_zookeeper_keeps_the_session(tmp_path: Path) -> None:
    zookeeper = ZooKeeper(tmp_path)
    stores = StoresOnZooKeeper(zookeeper.new_chroot())
    session = Session(stores)
    states: list[SessionState] = []
    session.store.on_state(states.append)
    session_id = session.store.session_id
    session.multi(Create("/a", b"1"), Create("/e", ephemeral=True))
    zookeeper.kill()
    assert stores.drive(lambda: session.store.state is SessionState.SUSPENDED)
    zookeeper.start()
    assert stores.drive(lambda: session.store.state is SessionState.CONNECTED)
    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert session.get("/a").data == b"1"
    assert session.exists("/e").owner == session_id
    stores.close()
    zookeeper.kill()


def test_an_unreachable_ensemble_has_no_session_and_can_be_closed() -> None:
    stores = StoresOnZooKeeper(ZooKeeperAddress((Address("127.0.0.1", free_port()),)))
    session = Session.__new__(Session)
    session.harness, session.store = stores, stores.open()
    with pytest.raises(SessionLost, match="there is no session with ZooKeeper at 127"):
        session.get("/")
    assert session.store.session_id == 0
    stores.close()


def test_the_second_server_is_used_if_the_first_does_not_answer(
    zookeeper: ZooKeeper, address: ZooKeeperAddress
) -> None:
    dead = Address("127.0.0.1", free_port())
    stores = StoresOnZooKeeper(address._replace(servers=(dead, zookeeper.address)))
    assert Session(stores).multi(Create("/a")) == ["/a"]
    stores.close()


# Chroot, ACLs and limits


def test_a_nested_chroot_is_created_and_is_the_root_of_all_paths(
    zookeeper: ZooKeeper, address: ZooKeeperAddress
) -> None:
    nested = address._replace(chroot=f"{address.chroot}/one/two")
    stores = StoresOnZooKeeper(nested)
    session = Session(stores)
    assert session.multi(Create("/a", sequential=True)) == ["/a0000000000"]
    assert session.children("/") == ["a0000000000"]
    stores.close()
    whole = StoresOnZooKeeper(ZooKeeperAddress((zookeeper.address,)))
    assert Session(whole).children(nested.chroot) == ["a0000000000"]
    whole.close()


def test_nodes_of_a_session_with_credentials_are_closed_to_all_others(
    address: ZooKeeperAddress,
) -> None:
    owners = StoresOnZooKeeper(address, credentials="sawlog:secret")
    owner = Session(owners)
    owner.multi(Create("/brokers"), Create("/brokers/ids"), Create("/a", b"1"))
    owner.close()
    assert Session(owners).get("/a").data == b"1", "another session with the same credentials"
    for credentials in (None, "sawlog:wrong"):
        strangers = StoresOnZooKeeper(address, credentials=credentials)
        store = strangers.open()
        assert strangers.drive(lambda store=store: store.failure is not None)
        assert isinstance(store.failure, NoAuth)
        assert store.state is SessionState.LOST
        strangers.close()
    owners.close()


def test_credentials_close_the_chroot_and_not_its_parents(address: ZooKeeperAddress) -> None:
    shared = f"{address.chroot}/shared"
    owned = ZooKeeperAddress(address.servers, f"{shared}/owned")
    owners = StoresOnZooKeeper(owned, credentials="sawlog:secret")
    Session(owners).multi(Create("/a"))
    neighbours = StoresOnZooKeeper(ZooKeeperAddress(address.servers, f"{shared}/other"))
    Session(neighbours).multi(Create("/a"))
    intruders = StoresOnZooKeeper(ZooKeeperAddress(address.servers, f"{owned.chroot}/below"))
    store = intruders.open()
    assert intruders.drive(lambda: store.failure is not None), "the chroot cannot be created"
    assert isinstance(store.failure, NoAuth)
    for stores in (owners, neighbours, intruders):
        stores.close()


@pytest.mark.parametrize("credentials", [None, "sawlog:secret"])
def test_a_request_at_the_limit_works_and_a_larger_one_keeps_the_connection(
    address: ZooKeeperAddress, credentials: str | None
) -> None:
    """Thousands of small operations at the limit: an error in the size of each would add up."""
    stores = StoresOnZooKeeper(address, credentials=credentials)
    session = Session(stores)
    states: list[SessionState] = []
    session.store.on_state(states.append)
    session.multi(Create("/n"))
    requests = ZooKeeperRequests(address.chroot, digest_acl(credentials))
    nodes: list[Create] = []
    while requests.size([*nodes, Create(f"/n/{len(nodes):05d}")]) <= MAX_REQUEST_BYTES:
        nodes += [Create(f"/n/{len(nodes) + more:05d}") for more in range(100)]
    with pytest.raises(BadArguments, match="more than"):
        session.multi(*nodes)
    accepted = nodes[:-100]
    assert len(session.multi(*accepted)) == len(accepted) > 5_000
    session.multi(*(SetData(node.path, bytes(20)) for node in accepted))
    session.multi(*(Delete(node.path) for node in accepted))
    assert states == [], "ZooKeeper closes the connection on a request beyond its limit"
    stores.close()
