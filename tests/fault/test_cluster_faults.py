"""Three brokers and a ZooKeeper lose nothing, whatever is killed, paused, cut, full or lost.

Real clients produce and consume during the faults; their histories go through the checks of the
simulator, and at the end the replicas are identical, batch by batch.
"""

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.programs import require_java
from tools.faults import faults
from tools.faults.cluster import FaultyCluster, faulty_cluster
from tools.faults.faults import Fault, controller, everyone, first_two, follower, leader
from tools.faults.java_load import JavaLoad
from tools.faults.load import Load

PARTITIONS = 6
SESSION_MS = 2_000
SETTINGS = {"replica.lag.time.max.ms": "3000"}
FULL_BROKER = 3
FAULTS: dict[str, Fault] = {
    "kill the leader": faults.killed(leader),
    "kill and restart a follower": faults.killed_and_restarted(follower),
    "kill and restart the controller": faults.killed_and_restarted(controller),
    "kill and restart two": faults.killed_and_restarted(first_two),
    "kill and restart all": faults.killed_and_restarted(everyone),
    "lose the data of the leader": faults.data_lost(leader),
    "stop the leader": faults.stopped(leader),
    "stop the controller": faults.stopped(controller),
    "stop two": faults.stopped(first_two),
    "restart one after the other": faults.rolled,
    "pause the leader": faults.paused(leader),
    "pause the controller": faults.paused(controller),
    "isolate the leader": faults.isolated(leader),
    "isolate the controller": faults.isolated(controller),
    "cut the leader from ZooKeeper": faults.cut_from_zookeeper(leader, is_one_way=False),
    "the leader does not reach ZooKeeper": faults.cut_from_zookeeper(leader, is_one_way=True),
    "ZooKeeper does not reach the leader": faults.deaf_to_zookeeper(leader),
    "cut two brokers": faults.cut_pair(is_one_way=False),
    "a follower does not reach its leader": faults.cut_pair(is_one_way=True),
    "kill ZooKeeper": faults.zookeeper_killed,
    "pause ZooKeeper": faults.zookeeper_paused,
}


@contextlib.contextmanager
def loaded(cluster: FaultyCluster, make: Callable[[], Load]) -> Iterator[Load]:
    """Run a load during a `with` block, and then check what it saw and what is on the disks."""
    load = make()
    try:
        load.wait_until_available(time.monotonic())
        yield load
        cluster.wait_until_in_sync(load.topic, load.partitions)
    except BaseException:
        load.abandon()
        raise
    load.stop()
    load.check()
    assert load.history.records_read
    cluster.check_identical_replicas(load.topic, load.partitions)


def run(cluster: FaultyCluster, load: Load, *names: str) -> None:
    for name in names:
        cluster.wait_until_in_sync(load.topic, load.partitions)
        print(f"{name}: no acknowledgement for {FAULTS[name](cluster, load):.2f} s", flush=True)


@pytest.mark.long
@pytest.mark.parametrize(
    "names",
    [
        ("kill the leader", "kill and restart all", "lose the data of the leader"),
        ("pause the controller", "isolate the leader", "a follower does not reach its leader"),
        ("restart one after the other", "kill ZooKeeper", "the leader does not reach ZooKeeper"),
    ],
    ids=["kills", "cuts", "restarts"],
)
def test_faults_under_load_lose_and_repeat_nothing(names: tuple[str, ...], tmp_path: Path) -> None:
    with (
        faulty_cluster(tmp_path, session_ms=SESSION_MS, settings=SETTINGS) as cluster,
        loaded(cluster, lambda: Load(cluster.bootstrap, PARTITIONS)) as load,
    ):
        run(cluster, load, *names)


@pytest.mark.long
def test_a_full_disk_of_one_broker_stops_its_partitions_only(
    tmp_path: Path, small_disk: Path
) -> None:
    data = {FULL_BROKER: small_disk}
    with (
        faulty_cluster(tmp_path, session_ms=SESSION_MS, settings=SETTINGS, data=data) as cluster,
        loaded(cluster, lambda: Load(cluster.bootstrap, PARTITIONS)) as load,
    ):
        led = [p for p in range(PARTITIONS) if cluster.leader(load.topic, p).node_id != 3]
        assert led
        ballast = small_disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(b"." * 4_096):
                pass
        load.wait_until_available(time.monotonic(), led)
        ballast.unlink()
        load.wait_until_available(time.monotonic())


@pytest.mark.long
def test_an_idempotent_java_producer_notices_only_a_pause(tmp_path: Path) -> None:
    require_java()
    with faulty_cluster(tmp_path, session_ms=SESSION_MS, settings=SETTINGS) as cluster:

        def java() -> Load:
            return JavaLoad(cluster.bootstrap, PARTITIONS, tmp_path, topic="java")

        with loaded(cluster, java) as load:
            run(cluster, load, "kill the leader", "stop the controller")


@pytest.mark.soak
@pytest.mark.parametrize("round_number", range(20))
def test_faults_in_any_order(round_number: int, random_seed: int, tmp_path: Path) -> None:
    chosen = random.Random(random_seed + round_number).sample(sorted(FAULTS), 8)
    with (
        faulty_cluster(tmp_path, session_ms=SESSION_MS, settings=SETTINGS) as cluster,
        loaded(cluster, lambda: Load(cluster.bootstrap, PARTITIONS)) as load,
    ):
        run(cluster, load, *chosen)
