"""Three brokers and a ZooKeeper lose nothing, whatever is killed, paused, cut, full or lost.

Real clients produce and consume during the faults; their histories go through the checks of the
simulator, and at the end the replicas are identical, batch by batch. Groups consume and commit too,
with members that come and go: they process every record, and no committed offset goes back.
"""

import contextlib
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from support.group_consumers.group_run import GroupRun
from support.outages import RecordOutage
from support.programs import require_java
from tools.faults import faults
from tools.faults.cluster import FaultyCluster, faulty_cluster
from tools.faults.faults import (
    Fault,
    controller,
    everyone,
    first_two,
    follower,
    for_seconds,
    for_sessions,
    leader,
    until_available,
    until_sessions_end,
    zookeeper,
)
from tools.faults.java_load import JavaLoad
from tools.faults.load import Load
from tools.faults.loaded import loaded
from tools.faults.transactional_load import copying

PARTITIONS = 6
SESSION_MS = 2_000
SETTINGS = {
    "replica.lag.time.max.ms": "3000",
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
}
CONSUMER, CLASSIC = "confluent-consumer", "confluent-range"
FULL_BROKER = 3
OFFSET_PARTITIONS = 3  # of __consumer_offsets
LONG_ZOOKEEPER_OUTAGE = "kill ZooKeeper for a minute"
PROGRESS_S = 15.0
"""The longest time without an acknowledgement while ZooKeeper is away for a minute: a bound on
progress, generous for a busy machine."""
FAULTS: dict[str, Fault] = {
    "kill the leader": faults.killed(leader),
    "kill a follower": faults.killed(follower),
    "kill the controller": faults.killed(controller),
    "kill and restart a follower": faults.killed_and_restarted(follower),
    "kill and restart the controller": faults.killed_and_restarted(controller),
    "kill and restart two": faults.killed_and_restarted(first_two),
    "kill and restart all": faults.killed_and_restarted(everyone),
    "lose the data of the leader": faults.data_lost(leader),
    "lose the data of a follower": faults.data_lost(follower),
    "fail the disk of the leader": faults.disk_failed(leader),
    "fail the disk of a follower": faults.disk_failed(follower),
    "fail the disk of the controller": faults.disk_failed(controller),
    "stop the leader": faults.stopped(leader),
    "stop a follower": faults.stopped(follower),
    "stop the controller": faults.stopped(controller),
    "stop two": faults.stopped(first_two),
    "restart one after the other": faults.rolled,
    "pause the leader": faults.paused(leader),
    "pause a follower": faults.paused(follower),
    "pause the controller": faults.paused(controller),
    "isolate the leader": faults.isolated(leader),
    "isolate a follower": faults.isolated(follower),
    "isolate the controller": faults.isolated(controller),
    "cut the leader from ZooKeeper": faults.cut(leader, zookeeper, until_sessions_end),
    "cut a follower from ZooKeeper": faults.cut(follower, zookeeper, until_sessions_end),
    "cut the controller from ZooKeeper": faults.cut(controller, zookeeper, until_sessions_end),
    "the controller does not reach ZooKeeper": faults.cut(
        controller, zookeeper, until_sessions_end, is_one_way=True
    ),
    "the leader does not reach ZooKeeper": faults.cut(
        leader, zookeeper, until_sessions_end, is_one_way=True
    ),
    # The session lasts, since requests arrive; the leader goes on without the answers.
    "ZooKeeper does not reach the leader": faults.cut(
        zookeeper, leader, for_sessions(2), is_one_way=True
    ),
    "ZooKeeper does not reach the controller": faults.cut(
        zookeeper, controller, for_sessions(2), is_one_way=True
    ),
    # Until the in-sync set has shrunk.
    "cut two brokers": faults.cut(follower, leader, until_available),
    "a follower does not reach its leader": faults.cut(
        follower, leader, until_available, is_one_way=True
    ),
    "a leader does not reach its follower": faults.cut(
        leader, follower, until_available, is_one_way=True
    ),
    "kill and restart ZooKeeper": faults.killed_and_restarted(zookeeper),
    LONG_ZOOKEEPER_OUTAGE: faults.killed(zookeeper, for_seconds(60)),
    "stop ZooKeeper": faults.stopped(zookeeper, for_sessions(1.5)),
    "pause ZooKeeper": faults.paused(zookeeper, for_sessions(1.5)),
}


@contextlib.contextmanager
def grouped(
    cluster: FaultyCluster, load: Load, kind: str, java_directory: Path | None = None
) -> Iterator[GroupRun]:
    """Run a group during a `with` block; it reads everything before the block ends."""
    group = GroupRun(cluster.bootstrap, load.topic, kind, java_directory=java_directory)
    try:
        group.wait_until_all_own()
        yield group
        load.stop()
        ends = {partition: len(found) for partition, found in load.read_all().items()}
        group.settle(ends)
    except BaseException:
        group.abandon()
        raise
    lines = [line for broker in cluster.brokers for line in broker.child.all_lines]
    group.check(ends, OFFSET_PARTITIONS, lines)


def plain_load(cluster: FaultyCluster) -> Load:
    return Load(cluster.bootstrap, PARTITIONS, has_plain_producer=True)


def java_load(
    cluster: FaultyCluster, directory: Path, protocol: str = "consumer", is_idempotent: bool = True
) -> Load:
    return JavaLoad(
        cluster.bootstrap,
        PARTITIONS,
        directory,
        topic="java",
        is_idempotent=is_idempotent,
        group_protocol=protocol,
    )


def run(
    record_outage: RecordOutage,
    cluster: FaultyCluster,
    load: Load,
    *names: str,
    java: Load | None = None,
    groups: Sequence[GroupRun] = (),
) -> None:
    """Break the cluster by the faults of these names, one after the other; `load` chooses what
    breaks, and `java` runs beside it."""
    for name in names:
        cluster.wait_until_in_sync(load.topic, load.partitions)
        began = time.monotonic()
        outage_s = FAULTS[name](cluster, load)
        record_outage(name, outage_s, SESSION_MS / 1000)
        if java is not None:
            java.wait_until_available(time.monotonic())
            record_outage(f"{name}, Java client", java.outage_s(began), SESSION_MS / 1000)
        if name == LONG_ZOOKEEPER_OUTAGE:
            assert outage_s < PROGRESS_S, "producers stopped while ZooKeeper was away"
        for group in groups:
            group.replace_member()


@pytest.mark.long
@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("kill the leader", "kill and restart all", "lose the data of the leader"), CONSUMER),
        (
            ("pause the controller", "isolate the leader", "a follower does not reach its leader"),
            CLASSIC,
        ),
        (
            (
                "restart one after the other",
                "stop ZooKeeper",
                "the leader does not reach ZooKeeper",
            ),
            CONSUMER,
        ),
    ],
    ids=["kills", "cuts", "restarts"],
)
def test_faults_under_load_lose_and_repeat_nothing(
    names: tuple[str, ...], kind: str, tmp_path: Path, record_outage: RecordOutage
) -> None:
    with (
        faulty_cluster(tmp_path, session_ms=SESSION_MS, settings=SETTINGS) as cluster,
        loaded(cluster, lambda: plain_load(cluster)) as load,
        grouped(cluster, load, kind) as group,
    ):
        run(record_outage, cluster, load, *names, groups=[group])


@pytest.mark.long
def test_transactions_are_visible_whole_or_not_at_all(
    tmp_path: Path, record_outage: RecordOutage
) -> None:
    names = ("kill the leader", "kill and restart all", "pause the controller", "stop two")
    with (
        faulty_cluster(tmp_path, session_ms=SESSION_MS, settings=SETTINGS) as cluster,
        loaded(cluster, lambda: plain_load(cluster)) as load,
        copying(cluster.bootstrap, PARTITIONS, clients=3) as copies,
    ):
        for name in names:
            run(record_outage, cluster, load, name)
            copies.wait_for_progress()


@pytest.mark.long
def test_producers_and_groups_outlast_a_zookeeper_that_is_killed_for_a_minute(
    tmp_path: Path, record_outage: RecordOutage
) -> None:
    with (
        faulty_cluster(tmp_path, session_ms=SESSION_MS, settings=SETTINGS) as cluster,
        loaded(cluster, lambda: plain_load(cluster)) as load,
        grouped(cluster, load, CLASSIC) as group,
    ):
        run(record_outage, cluster, load, LONG_ZOOKEEPER_OUTAGE, groups=[group])


@pytest.mark.long
def test_a_full_disk_of_one_broker_stops_its_partitions_only(
    tmp_path: Path, small_disk: Path
) -> None:
    data = {FULL_BROKER: small_disk}
    with (
        faulty_cluster(tmp_path, session_ms=SESSION_MS, settings=SETTINGS, data=data) as cluster,
        loaded(cluster, lambda: plain_load(cluster)) as load,
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
def test_a_broker_whose_disk_fails_gives_its_partitions_to_the_others(
    tmp_path: Path, record_outage: RecordOutage
) -> None:
    with (
        faulty_cluster(tmp_path, session_ms=SESSION_MS, settings=SETTINGS) as cluster,
        loaded(cluster, lambda: plain_load(cluster)) as load,
    ):
        run(record_outage, cluster, load, "fail the disk of the leader")


@pytest.mark.long
@pytest.mark.parametrize(
    ("is_idempotent", "protocol"), [(True, "classic"), (False, "consumer")], ids=["safe", "plain"]
)
def test_java_clients_notice_only_a_pause(
    tmp_path: Path, record_outage: RecordOutage, protocol: str, *, is_idempotent: bool
) -> None:
    """A producer without idempotence and retries loses records that were not acknowledged, and
    doubles none."""
    require_java()
    with (
        faulty_cluster(tmp_path, session_ms=SESSION_MS, settings=SETTINGS) as cluster,
        loaded(cluster, lambda: java_load(cluster, tmp_path, protocol, is_idempotent)) as load,
    ):
        run(record_outage, cluster, load, "kill the leader", "stop the controller")


@pytest.mark.soak
@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_under_librdkafka_and_java(
    name: str, tmp_path: Path, record_outage: RecordOutage
) -> None:
    require_java()
    with (
        faulty_cluster(tmp_path, session_ms=SESSION_MS, settings=SETTINGS) as cluster,
        loaded(cluster, lambda: java_load(cluster, tmp_path)) as java,
        loaded(cluster, lambda: plain_load(cluster)) as load,
    ):
        run(record_outage, cluster, load, name, java=java)


@pytest.mark.soak
@pytest.mark.parametrize("kind", [CONSUMER, CLASSIC])
@pytest.mark.parametrize("round_number", range(10))
def test_faults_in_any_order(
    round_number: int, kind: str, random_seed: int, tmp_path: Path, record_outage: RecordOutage
) -> None:
    require_java()
    chosen = random.Random(f"{random_seed} {kind} {round_number}").sample(sorted(FAULTS), 8)
    with (
        faulty_cluster(tmp_path, session_ms=SESSION_MS, settings=SETTINGS) as cluster,
        loaded(cluster, lambda: plain_load(cluster)) as load,
        grouped(cluster, load, kind, java_directory=tmp_path) as group,
    ):
        run(record_outage, cluster, load, *chosen, groups=[group])
