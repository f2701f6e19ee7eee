"""The Store on a real ZooKeeper: its errors, restarts, chroots, ACLs and limits."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sawlog.core.store import (
    BadArguments,
    ConnectionLost,
    Create,
    Delete,
    NoAuth,
    SessionLost,
    SessionState,
    SetData,
)
from sawlog.server.address import Address
from sawlog.server.zookeeper_address import ZooKeeperAddress
from sawlog.server.zookeeper_requests import MAX_REQUEST_BYTES, ZooKeeperRequests
from sawlog.server.zookeeper_store import digest_acl
from support.cluster.stores import LinkedSession, Session
from support.server.zookeeper import (
    SESSION_TIMEOUT_MS,
    StoresOnZooKeeper,
    ZooKeeper,
)
from tools.kafka_node import free_port

pytestmark = pytest.mark.long


@pytest.fixture
def address(zookeeper: ZooKeeper) -> ZooKeeperAddress:
    return zookeeper.new_chroot()


@pytest.fixture
def stores(address: ZooKeeperAddress) -> Iterator[StoresOnZooKeeper]:
    stores = StoresOnZooKeeper(address)
    yield stores
    stores.close()


# A suspended session


def test_calls_of_a_suspended_session_name_the_ensemble(stores: StoresOnZooKeeper) -> None:
    link = stores.link()
    session = LinkedSession(stores, link)
    link.cut()
    session.await_state(SessionState.SUSPENDED)
    with pytest.raises(ConnectionLost, match=f"/a: .*ZooKeeper at {link.proxy.address}"):
        session.multi(Create("/a"))


def test_pings_alone_keep_a_session_from_expiring(stores: StoresOnZooKeeper) -> None:
    session = LinkedSession(stores, link := stores.link())
    lease = link.store._lease
    first = lease._sent_s
    assert stores.drive(lambda: lease._sent_s > first + SESSION_TIMEOUT_MS / 1000)
    assert not link.store.may_have_expired()
    assert session.states == []


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
