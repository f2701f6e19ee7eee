"""Restart times: thousands of partitions, log recovery after SIGKILL, and many committed offsets.

The first two are measured without Kafka: their targets are seconds. Each partition has a record, so
that opening empty logs cannot be skipped; recovery also reports the bytes read.
"""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from bench import brokers, commits, topics
from bench.brokers import Broker, Name
from bench.cleanings import CleaningLog
from bench.process import ChildFailed
from bench.producer_performance import CLASS, OPTIONS
from bench.runs import MEGABYTE, Measured
from bench.workloads import Metric
from tools.kafka_node import java_command

TOPICS, PARTITIONS = 5, 1_000
LOG_BYTES = 10_000_000_000
# The log, and the records in flight when the broker is killed.
NEEDED_BYTES = 12_000_000_000
FILL_TIMEOUT_S = 900.0
COMMITTED_GROUPS, COMMITTED_PARTITIONS = 1_000, 100
# Two million commits, as 200,000 requests of ten: one by one, flushed, they would take minutes.
MANY_PARTITIONS, MANY_TIMES = 10, 200
OFFSET_LOGS = 4
FEW_OFFSET_LOGS = {
    "offsets.topic.num.partitions": str(OFFSET_LOGS),
    "offsets.topic.segment.bytes": "10485760",
}
NOT_CLEANED = {"log.cleaner.enable": "false"}
TIMEOUT_S = 60.0


def open_partitions(directory: Path, name: Name) -> Measured:
    """Time to the first response and to the last end offset, after a clean stop."""
    broker = brokers.start(name, directory)
    try:
        for number in range(TOPICS):
            topics.create(broker.bootstrap, f"many-{number}", PARTITIONS)
        _one_record_each(broker)
    finally:
        broker.server.stop()
    began = time.monotonic()
    broker = brokers.start(name, directory)
    try:
        end = _end_offset(broker, f"many-{TOPICS - 1}", PARTITIONS - 1)
        opened_s = time.monotonic() - began
        if end != 1:
            raise ChildFailed(f"the last partition ends at {end} after a clean stop")
        return {Metric.OPEN_5000: opened_s, Metric.FIRST_ANSWER: broker.first_answer_s}
    finally:
        broker.server.stop()


def _one_record_each(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "log_level": 2})
    for number in range(TOPICS):
        for partition in range(PARTITIONS):
            producer.produce(f"many-{number}", b"x" * 100, partition=partition)
            producer.poll(0)
    if left := producer.flush(TIMEOUT_S):
        raise ChildFailed(f"{left} records were not acknowledged")


def _end_offset(broker: Broker, topic: str, partition: int) -> int:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "bench", "log_level": 2}
    )
    try:
        _low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)
        return int(high)
    finally:
        consumer.close()


def recover_log(directory: Path, name: Name) -> Measured:
    """SIGKILL during writes, then the time to the first response and the bytes read."""
    broker = brokers.start(name, directory)
    try:
        topics.create(broker.bootstrap, "large", 6)
        _fill(broker)
    finally:
        broker.server.kill()
    broker = brokers.start(name, directory)
    try:
        return {
            Metric.RECOVER_10GB: broker.first_answer_s,
            Metric.RECOVERY_READ: broker.server.read_bytes() / MEGABYTE,
        }
    finally:
        broker.server.stop()


def _fill(broker: Broker) -> None:
    """Return while the producer is still sending; the caller kills the broker at once."""
    command = java_command(CLASS, "--bootstrap-server", broker.bootstrap, options=OPTIONS)
    command += ["--topic", "large", "--num-records", "1000000000", "--record-size", "1000"]
    command += ["--throughput", "-1", "--command-property", "acks=1", "batch.size=65536"]
    producer = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + FILL_TIMEOUT_S
        while _log_bytes(broker.data) < LOG_BYTES:
            broker.server.check_running()
            if producer.poll() is not None or time.monotonic() > deadline:
                raise ChildFailed(f"the log did not grow to {LOG_BYTES} bytes")
            time.sleep(0.2)
        broker.server.kill()
    finally:
        producer.kill()
        producer.wait()


def _log_bytes(data: Path) -> int:
    return sum(path.stat().st_size for path in data.glob("large-*/*.log"))


def load_offsets(directory: Path, name: Name) -> Measured:
    """The time from the start of the process to the OffsetFetch response of the last group."""
    broker = brokers.start(name, directory)
    try:
        topics.create(broker.bootstrap, "committed", COMMITTED_PARTITIONS)
        commits.fill(broker.bootstrap, "committed", COMMITTED_GROUPS, COMMITTED_PARTITIONS)
    finally:
        broker.server.stop()
    began = time.monotonic()
    broker = brokers.start(name, directory)
    try:
        commits.wait_for_all(broker.bootstrap, "committed", COMMITTED_GROUPS)
        loaded_s = time.monotonic() - began
        commits.check_all(broker.bootstrap, COMMITTED_GROUPS, COMMITTED_PARTITIONS)
        return {Metric.LOAD_OFFSETS: loaded_s, Metric.FIRST_ANSWER: broker.first_answer_s}
    finally:
        broker.server.stop()


def load_many_commits(directory: Path, name: Name) -> Measured:
    """Like `load_offsets`, after many commits of the same offsets: before the log cleaner has run,
    and after it."""
    broker = brokers.start(name, directory, {**FEW_OFFSET_LOGS, **NOT_CLEANED})
    try:
        topics.create(broker.bootstrap, "committed", MANY_PARTITIONS)
        commits.fill(broker.bootstrap, "committed", COMMITTED_GROUPS, MANY_PARTITIONS, MANY_TIMES)
    finally:
        broker.server.stop()
    dirty = _load_offsets(directory, name, {**FEW_OFFSET_LOGS, **NOT_CLEANED})
    broker = brokers.start(name, directory, {**FEW_OFFSET_LOGS, "log.cleaner.backoff.ms": "200"})
    try:
        logs = [f"__consumer_offsets-{number}" for number in range(OFFSET_LOGS)]
        CleaningLog(broker, from_start=True).wait_for(logs)
    finally:
        broker.server.stop()
    clean = _load_offsets(directory, name, {**FEW_OFFSET_LOGS, **NOT_CLEANED})
    return {Metric.LOAD_OFFSETS: clean, Metric.LOAD_DIRTY_OFFSETS: dirty}


def _load_offsets(directory: Path, name: Name, settings: dict[str, str]) -> float:
    began = time.monotonic()
    broker = brokers.start(name, directory, settings)
    try:
        commits.wait_for_all(broker.bootstrap, "committed", COMMITTED_GROUPS)
        loaded_s = time.monotonic() - began
        commits.check_all(broker.bootstrap, COMMITTED_GROUPS, MANY_PARTITIONS)
        return loaded_s
    finally:
        broker.server.stop()


MEASURES: dict[str, Callable[[Path, Name], Measured]] = {
    "partitions": open_partitions,
    "recovery": recover_log,
    "offsets": load_offsets,
    "offsets-2m": load_many_commits,
}
