"""`sawlog up`: a local cluster that real clients use, its restarts, and refused starts."""

import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sawlog.client import Admin, NewTopic
from sawlog.core.config import BrokerConfig
from support.cluster.stores import Session
from support.outages import RecordOutage
from support.process import ServerProcess, wait_until
from support.server.local_cluster import (
    LocalCluster,
    running_cluster,
    up_command,
)
from support.server.zookeeper import StoresOnZooKeeper, ZooKeeper
from tools.faults.load import Load
from tools.faults.loaded import loaded
from tools.kafka_node import free_port

pytestmark = pytest.mark.long
PARTITIONS = 6
SETTINGS = ("offsets.topic.num.partitions=6", "group.initial.rebalance.delay.ms=0")
SESSION_S = BrokerConfig({})["zookeeper.session.timeout.ms"] / 1000


def produce(bootstrap: str, values: list[bytes]) -> None:
    """Produce one record of each value to each partition; none may fail."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in values:
        for partition in range(PARTITIONS):
            producer.produce(
                "logs",
                value,
                partition=partition,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
    assert producer.flush(60) == 0
    assert failures == []


def consume(bootstrap: str, group: str, count: int) -> list[bytes]:
    """Read records as a member of a group, and commit their offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe(["logs"])
    values: list[bytes] = []
    while len(values) < count:
        message = consumer.poll(60)
        assert message is not None, f"{len(values)} records of {count}"
        assert message.error() is None, message.error()
        values.append(message.value() or b"")
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


def committed(bootstrap: str, group: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    wanted = [TopicPartition("logs", partition) for partition in range(PARTITIONS)]
    found = [partition.offset for partition in consumer.committed(wanted, timeout=60)]
    consumer.close()
    return found


def replicas(bootstrap: str, name: str) -> list[set[int]]:
    """Return the replicas of each partition."""
    with Admin(bootstrap) as admin:
        (topic,), _ = admin.describe_topics([name])
        return [set(partition.replicas) for partition in topic.partitions.values()]


def test_clients_use_a_cluster_and_a_start_after_ctrl_c_finds_its_data(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3, SETTINGS) as cluster:
        with Admin(cluster.bootstrap) as admin:
            assert admin.create_topics([NewTopic("logs", partitions=PARTITIONS)]) == {}
            (topic,), _ = admin.describe_topics(["logs"])
            assert {partition.leader for partition in topic.partitions.values()} == {1, 2, 3}
            assert {len(each.replicas) for each in topic.partitions.values()} == {3}, "by default"
        produce(cluster.bootstrap, [b"one"])
        groups = ["a", "b"]  # their coordinators are different brokers
        for group in groups:
            assert consume(cluster.bootstrap, group, PARTITIONS) == [b"one"] * PARTITIONS
        assert replicas(cluster.bootstrap, "logs") == [{1, 2, 3}] * PARTITIONS
        assert replicas(cluster.bootstrap, "__consumer_offsets") == [{1, 2, 3}] * 6
        children = cluster.children()
        psutil.Process(cluster.process.pid).send_signal(signal.SIGINT)
        assert cluster.process.wait() == 0
        assert not any(child.is_running() for child in children)
        order = [line for line in cluster.process.lines if "event=stopped" in line]
        assert len(order) == 3, "every broker stopped cleanly"

        cluster.start()
        produce(cluster.bootstrap, [b"two"])
        for group in groups:
            assert committed(cluster.bootstrap, group) == [1] * PARTITIONS
            assert consume(cluster.bootstrap, group, PARTITIONS) == [b"two"] * PARTITIONS


def test_a_cluster_uses_the_ensemble_that_is_named(tmp_path: Path, zookeeper: ZooKeeper) -> None:
    address = zookeeper.new_chroot()
    with running_cluster(tmp_path, 2, SETTINGS, address) as cluster:
        with Admin(cluster.bootstrap) as admin:
            assert admin.create_topics([NewTopic("logs", partitions=PARTITIONS)]) == {}
        produce(cluster.bootstrap, [b"one"])
        assert consume(cluster.bootstrap, "a", PARTITIONS) == [b"one"] * PARTITIONS
        assert cluster.started("zookeeper") == []
        stores = StoresOnZooKeeper(address)
        session = Session(stores)
        assert session.children("/brokers/ids") == ["1", "2"]
        assert "logs" in session.children("/brokers/topics")
        stores.close()


def test_processes_that_die_are_started_again(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 2, SETTINGS) as cluster:
        with Admin(cluster.bootstrap) as admin:
            assert admin.create_topics([NewTopic("logs", partitions=PARTITIONS)]) == {}
        cluster.kill_child("broker-1")
        produce(cluster.bootstrap, [b"one"])
        cluster.kill_child("zookeeper")
        produce(cluster.bootstrap, [b"two"])
        assert len(consume(cluster.bootstrap, "a", 2 * PARTITIONS)) == 2 * PARTITIONS
        output = cluster.process.output
        assert "broker-1 ended with SIGKILL; starting it again in 0.5 s" in output
        assert "zookeeper ended with SIGKILL; starting it again in 0.5 s" in output


def test_clients_under_load_notice_only_a_pause_when_any_broker_is_killed(
    tmp_path: Path, record_outage: RecordOutage
) -> None:
    """The cluster of the README: nothing but the ports is set."""
    with (
        running_cluster(tmp_path, 3) as cluster,
        loaded(cluster, lambda: Load(cluster.bootstrap, PARTITIONS)) as load,
    ):
        controller = cluster.controller()
        for node_id in sorted((1, 2, 3), key=lambda each: each != controller):
            began = time.monotonic()
            cluster.kill_broker(node_id)
            load.wait_until_available(time.monotonic())
            record_outage("kill a broker of `sawlog up`", load.outage_s(began), SESSION_S)
            cluster.wait_until_in_sync(load.topic, load.partitions)


def test_no_process_survives_a_killed_supervisor(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, 2, SETTINGS)
    children = cluster.children()
    assert len(children) == 3
    refused = subprocess.run(
        up_command(tmp_path, 2, *cluster.options), capture_output=True, text=True, timeout=60
    )
    assert refused.returncode == 1
    assert "another `sawlog up` runs on" in refused.stderr
    assert f"(process {cluster.process.pid})" in refused.stderr

    cluster.process.kill()
    psutil.wait_procs(children, timeout=60)
    assert not any(child.is_running() for child in children)
    cluster.start()
    assert cluster.process.terminate() == 0


def test_ctrl_c_during_the_start_ends_everything(tmp_path: Path) -> None:
    first = free_port(2)
    options = ("--zookeeper-port", str(first), "--port", str(first + 1))
    process = ServerProcess(up_command(tmp_path, 1, *options))
    process.wait_for_line("zookeeper started")
    children = psutil.Process(process.pid).children(recursive=True)
    psutil.Process(process.pid).send_signal(signal.SIGINT)
    assert process.wait() == 0
    wait_until(lambda: not any(child.is_running() for child in children))


def refused_start(data: Path, *options: str, code: int = 1) -> str:
    """Run `sawlog up`, which must fail; return its output."""
    done = subprocess.run(up_command(data, 1, *options), capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr + done.stdout
    return done.stdout + done.stderr


def test_a_port_in_use_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused_start(tmp_path, "--port", str(port))
    assert f"cannot listen on 127.0.0.1:{port}" in said
    assert "choose another --port" in said
    assert "started" not in said


def test_an_unreachable_zookeeper_ends_the_start_after_the_timeout(tmp_path: Path) -> None:
    where = f"127.0.0.1:{free_port()}"
    timeout = ("--connect-timeout", "1.5")
    port = ("--port", str(free_port()))
    said = refused_start(tmp_path, "--zookeeper", where, *timeout, *port, code=3)
    assert f"no ZooKeeper server of {where} accepted a session within 1.5 s" in said
    assert "cannot start: broker-1 ended with exit code 3 at its start" in said
