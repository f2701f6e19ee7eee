"""A cluster whose machines all stopped, and one of them lost a part of a log."""

from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sawlog.client import Admin, NewTopic
from support.process import wait_until
from support.server.local_cluster import LocalCluster

pytestmark = pytest.mark.long
RECORDS = 200


def produce(bootstrap: str) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(
            "logs",
            b"%d" % number,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failures == []


def consume(bootstrap: str) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition("logs", 0, 0)])
    values: list[bytes | None] = []
    while len(values) < RECORDS:
        message = consumer.poll(60)
        assert message is not None, f"{len(values)} records of {RECORDS}"
        assert message.error() is None, message.error()
        values.append(message.value())
    consumer.close()
    return values


def log_of(data: Path, broker: int) -> Path:
    return data / f"broker-{broker}" / "logs-0" / f"{0:020}.log"


def has_checkpoint(data: Path, broker: int) -> bool:
    path = data / f"broker-{broker}" / "recovery-point-offset-checkpoint"
    return path.exists() and f"logs 0 {RECORDS}\n" in path.read_text()


def test_a_replica_that_lost_acknowledged_records_does_not_lead(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, 3)
    with Admin(cluster.bootstrap) as admin:
        assert admin.create_topics([NewTopic("logs")]) == {}
        (topic,), _ = admin.describe_topics(["logs"])
    preferred = topic.partitions[0].replicas[0]
    produce(cluster.bootstrap)
    wait_until(
        lambda: all(has_checkpoint(tmp_path, broker) for broker in (1, 2, 3)), cluster.process
    )
    children = cluster.children()
    cluster.process.kill()
    psutil.wait_procs(children, timeout=60)
    damaged = log_of(tmp_path, preferred)
    with damaged.open("r+b") as file:
        file.truncate(damaged.stat().st_size // 3)

    cluster.start()
    try:
        assert consume(cluster.bootstrap) == [b"%d" % number for number in range(RECORDS)]
        cluster.process.wait_for_line("a damaged replica is in sync again")
        whole = log_of(tmp_path, preferred % 3 + 1).read_bytes()
        assert damaged.read_bytes() == whole
    finally:
        cluster.process.kill()
