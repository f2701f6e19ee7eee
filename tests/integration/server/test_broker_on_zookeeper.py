"""`sawlog broker --zookeeper`: start, restart, refused starts, and a ZooKeeper that goes away."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sawlog.client import Admin, NewTopic
from sawlog.cluster.store_journal import is_store_file
from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.server.zookeeper_address import ZooKeeperAddress, parse_zookeeper
from support.broker.groups import commit_request, committed, fetch_request
from support.client.load import IdempotentLoad
from support.cluster.stores import Session
from support.process import ServerProcess, wait_until
from support.protocol.wire import Wire
from support.server.broker_process import SawlogServer, running_sawlog
from support.server.zookeeper import Proxy, StoresOnZooKeeper, ZooKeeper
from tools.kafka_node import free_port

pytestmark = pytest.mark.long


@pytest.fixture
def address(zookeeper: ZooKeeper) -> ZooKeeperAddress:
    return zookeeper.new_chroot()


@pytest.fixture
def tree(address: ZooKeeperAddress) -> Iterator[Session]:
    """A session beside that of the broker."""
    stores = StoresOnZooKeeper(address)
    yield Session(stores)
    stores.close()


def settings(address: ZooKeeperAddress) -> dict[str, str]:
    return {"zookeeper.connect": str(address), "zookeeper.session.timeout.ms": "6000"}


@contextlib.contextmanager
def running_load(server: SawlogServer, admin: Admin) -> Iterator[IdempotentLoad]:
    """Produce to a topic during a `with` block, and still after it; no record may fail."""
    assert admin.create_topics([NewTopic("logs", partitions=2)]) == {}
    load = IdempotentLoad(server.bootstrap, "logs", 2)
    is_over = threading.Event()
    producing = threading.Thread(target=load.run_until, args=(10**9, is_over.is_set))
    producing.start()
    try:
        wait_until(lambda: load.acknowledged > 0, server.process)
        yield load
        after = load.acknowledged
        wait_until(lambda: load.acknowledged > after + 1_000, server.process)
    finally:
        is_over.set()
        producing.join()
    load.finish()


GROUP = "readers"
FIND_VERSION, COMMIT_VERSION, FETCH_VERSION = 4, 8, 8


def group_is_coordinated(server: SawlogServer) -> bool:
    """Ask the broker for the group's offsets; False if it refuses with NOT_COORDINATOR."""
    with Wire(server.host, server.port) as wire:
        response = wire.ask(fetch_request(GROUP, None, FETCH_VERSION), FETCH_VERSION)
        assert response is not None
        code = response.groups[0].error_code
        assert code in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR), code
        return bool(code == ErrorCode.NONE)


def commit_offset(server: SawlogServer) -> None:
    """Commit an offset in partition 0 of `logs`, when the coordinator is loaded."""

    def is_committed() -> bool:
        with Wire(server.host, server.port) as wire:
            wire.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), FIND_VERSION)
            response = wire.ask(commit_request(GROUP, {("logs", 0): 7}), COMMIT_VERSION)
        return committed(response) == {("logs", 0): ErrorCode.NONE}

    wait_until(is_committed, server.process)


def failed_start(data: Path, *options: str, code: int = 1) -> str:
    """Run a broker that must not start; return its log."""
    command = [sys.executable, "-m", "sawlog", "broker", "--data", str(data)]
    done = subprocess.run(
        [*command, "--listen", "127.0.0.1:0", *options], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_restarted_broker_finds_its_topics_in_zookeeper(
    tmp_path: Path, address: ZooKeeperAddress, tree: Session
) -> None:
    with running_sawlog(tmp_path, settings(address)) as server, Admin(server.bootstrap) as admin:
        assert admin.create_topics([NewTopic("logs", partitions=3)]) == {}
        assert tree.children("/brokers/ids") == ["1"]
        assert tree.children("/brokers/topics/logs/partitions") == ["0", "1", "2"]
        load = IdempotentLoad(server.bootstrap, "logs", 3)
        load.run_until(100)
        load.finish()
        server.restart()
        assert "3 partitions" in server.process.output
        assert {topic.name for topic in admin.list_topics()} == {"logs"}
        assert not any(is_store_file(path.name) for path in server.data.iterdir()), (
            "there is no embedded store"
        )
    assert tree.children("/brokers/ids") == [], "a clean stop ends the session"


def test_the_zookeeper_command_runs_a_server_that_keeps_its_data(tmp_path: Path) -> None:
    where = parse_zookeeper(f"127.0.0.1:{free_port()}/sawlog")
    command = [sys.executable, "-m", "sawlog", "zookeeper", "--data", str(tmp_path / "zookeeper")]
    patient = settings(where) | {"zookeeper.connection.timeout.ms": "180000"}
    with contextlib.ExitStack() as stack:
        for is_second in (False, True):
            server = ServerProcess([*command, "--listen", where.hosts])
            stack.callback(server.kill)
            with running_sawlog(tmp_path, patient) as broker, Admin(broker.bootstrap) as a:
                if not is_second:
                    assert a.create_topics([NewTopic("logs")]) == {}
                assert {topic.name for topic in a.list_topics()} == {"logs"}
            server.terminate()


def test_a_broker_restarted_after_a_kill_replaces_the_registration_of_its_old_session(
    tmp_path: Path, address: ZooKeeperAddress, tree: Session
) -> None:
    with running_sawlog(tmp_path, settings(address)) as server:
        old = tree.exists("/brokers/ids/1").owner
        server.kill()
        server.start()
        assert "replaced the registration of an ended process" in server.process.output
        assert tree.exists("/brokers/ids/1").owner != old


def test_a_broker_restarted_at_another_address_waits_until_its_old_session_ends(
    tmp_path: Path, address: ZooKeeperAddress
) -> None:
    # On a busy machine a start takes longer than the session of the other tests.
    patient = settings(address) | {"zookeeper.session.timeout.ms": "15000"}
    with running_sawlog(tmp_path, patient) as server:
        server.kill()
        server.port = 0
        server.start()
        assert "waiting until its session ends" in server.process.output


def test_an_unreachable_zookeeper_is_waited_for_until_the_timeout(tmp_path: Path) -> None:
    where = f"127.0.0.1:{free_port()}"
    options = ("--zookeeper", f"{where}/sawlog", "--connect-timeout", "1.5")
    log = failed_start(tmp_path, *options, code=3)
    assert "waiting for ZooKeeper" in log
    assert f"no ZooKeeper server of {where}/sawlog accepted a session within 1.5 s" in log
    assert f"({where}: Connection refused)" in log
    timeout = "zookeeper.connection.timeout.ms=1500"
    assert "within 1.5 s" in failed_start(tmp_path, *options[:2], "--set", timeout, code=3)


def test_a_server_that_is_not_zookeeper_is_refused_after_the_timeout(tmp_path: Path) -> None:
    with running_sawlog(tmp_path / "other") as other:
        options = ("--zookeeper", other.bootstrap, "--connect-timeout", "1.5")
        log = failed_start(tmp_path / "data", *options, code=3)
    assert f"no ZooKeeper server of {other.bootstrap} accepted a session within 1.5 s" in log
    assert f"({other.bootstrap}: accepts connections, but does not answer as a ZooKeeper" in log
    assert "correct --zookeeper" in log
    assert [path.name for path in (tmp_path / "data").iterdir()] == [".lock"]


def test_a_zookeeper_that_starts_late_is_waited_for(tmp_path: Path) -> None:
    zookeeper = ZooKeeper(tmp_path / "zookeeper")
    zookeeper.kill()
    command = [sys.executable, "-m", "sawlog", "broker", "--data", str(tmp_path / "data")]
    broker = ServerProcess(
        [*command, "--listen", "127.0.0.1:0", "--zookeeper", str(zookeeper.address)]
    )
    broker.wait_for_line("waiting for ZooKeeper")
    zookeeper.start()
    broker.wait_for_line("ready on")
    assert broker.terminate() == 0
    zookeeper.kill()


def test_a_data_directory_of_the_other_kind_is_refused(
    tmp_path: Path, address: ZooKeeperAddress
) -> None:
    with running_sawlog(tmp_path / "embedded") as server:
        pass
    log = failed_start(server.data, "--zookeeper", str(address))
    assert "the directory has an embedded coordination store" in log
    with running_sawlog(tmp_path / "zookeeper", settings(address)) as server:
        pass
    assert "its cluster uses ZooKeeper, name it with --zookeeper" in failed_start(server.data)


def test_a_data_directory_of_another_cluster_is_refused_and_nothing_is_written(
    tmp_path: Path, address: ZooKeeperAddress, zookeeper: ZooKeeper
) -> None:
    with running_sawlog(tmp_path, settings(address)) as server:
        pass
    other = zookeeper.new_chroot()
    log = failed_start(server.data, "--zookeeper", str(other))
    assert f"but ZooKeeper at {other} has no cluster" in log
    assert "or restore ZooKeeper's data" in log
    stores = StoresOnZooKeeper(other)
    assert Session(stores).children("/") == []
    stores.close()


def test_a_broker_id_that_is_taken_is_refused(tmp_path: Path, address: ZooKeeperAddress) -> None:
    with running_sawlog(tmp_path / "first", settings(address)):
        data = tmp_path / "second" / "data"
        log = failed_start(data, "--zookeeper", str(address), "--node-id", "1")
        assert log.count("broker 1 is registered already") == 1
        assert "choose another --node-id" in log
        other = SawlogServer(data.parent, settings(address), 2)
        other.stop()  # the refused start has not bound the directory to broker 1


def test_a_data_directory_of_another_broker_is_refused(
    tmp_path: Path, address: ZooKeeperAddress, tree: Session
) -> None:
    with running_sawlog(tmp_path, settings(address)) as server:
        pass
    log = failed_start(server.data, "--zookeeper", str(address), "--node-id", "2")
    assert "the data directory belongs to broker 1, not to broker 2" in log


def test_wrong_credentials_are_refused(tmp_path: Path, address: ZooKeeperAddress) -> None:
    key = "zookeeper.digest.credentials"
    with running_sawlog(tmp_path / "first", settings(address) | {key: "sawlog:secret"}):
        pass
    log = failed_start(
        tmp_path / "second", "--zookeeper", str(address), "--set", f"{key}=sawlog:wrong"
    )
    assert "ZooKeeper denies access with the credentials of this client" in log
    assert "wrong" not in log


def test_producers_outlast_a_zookeeper_that_is_away_beyond_the_session(
    tmp_path: Path,
) -> None:
    zookeeper = ZooKeeper(tmp_path / "zookeeper")
    chroot = zookeeper.new_chroot()
    with running_sawlog(tmp_path, settings(chroot)) as server, Admin(server.bootstrap) as admin:
        with running_load(server, admin) as load:
            commit_offset(server)
            zookeeper.kill()
            server.process.wait_for_line("connection to ZooKeeper is lost")
            error = admin.create_topics([NewTopic("late")])["late"]
            assert error.code == ErrorCode.REQUEST_TIMED_OUT
            assert "the connection to ZooKeeper at" in str(error)
            wait_until(lambda: not group_is_coordinated(server), server.process)
            before = load.acknowledged
            wait_until(lambda: load.acknowledged > before + 5_000, server.process)
            zookeeper.start()
            wait_until(lambda: admin.create_topics([NewTopic("late")]) == {}, server.process)
            assert group_is_coordinated(server)
        assert {topic.name for topic in admin.list_topics()} == {"logs", "late"}
        assert "the ZooKeeper session has ended" not in server.process.output
    zookeeper.kill()


def test_a_broker_whose_session_expired_registers_again_and_keeps_serving(
    tmp_path: Path, address: ZooKeeperAddress, zookeeper: ZooKeeper, tree: Session
) -> None:
    proxy = Proxy(zookeeper.address)
    own = settings(address._replace(servers=(proxy.address,)))
    with running_sawlog(tmp_path, own) as server, Admin(server.bootstrap) as admin:
        with running_load(server, admin) as load:
            epoch = tree.exists("/brokers/ids/1").created
            commit_offset(server)
            proxy.cut()
            wait_until(lambda: tree.children("/brokers/ids") == [], server.process)
            assert not group_is_coordinated(server), "another broker may coordinate it by now"
            before = load.acknowledged
            wait_until(lambda: load.acknowledged > before + 1_000, server.process)
            proxy.restore()
            server.process.wait_for_line("the ZooKeeper session has ended")
            wait_until(lambda: admin.create_topics([NewTopic("late")]) == {}, server.process)
        assert tree.exists("/brokers/ids/1").created > epoch
        wait_until(lambda: group_is_coordinated(server), server.process)
    proxy.close()
