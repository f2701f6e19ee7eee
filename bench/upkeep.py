"""Compaction and deletion: how fast a log is cleaned, and what a producer notices of it.

Both brokers clean the same batches (`keyed_batches.py`), and what is left must be the same. A log
is not cleaned while it is written: min.cleanable.dirty.ratio is 1 until the measurement begins. CPU
is that of the broker and, for Sawlog, of its cleaner's process.
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench import runs, topics
from bench.brokers import Broker
from bench.cleanings import CleaningLog
from bench.keyed_batches import BATCH_BYTES, KeyedRecords, digest, send
from bench.process import ChildFailed, Finished
from bench.raw import BadAnswer
from bench.runs import LIBRDKAFKA_WARMUP_S, MEGABYTE, Measured
from bench.workloads import (
    COMPACTED_KEYS,
    DELETED_SEGMENTS,
    PACE_PER_S,
    Kind,
    Metric,
    Workload,
)
from sawlog.protocol.compression import Codec

# Both look for dirty and for expired logs often, so that a measurement need not wait for them.
SETTINGS = {
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "500",
}
HELD_BACK = {
    "cleanup.policy": "compact",
    "segment.bytes": "50000000",
    "min.cleanable.dirty.ratio": "1",
}
RELEASED = {"min.cleanable.dirty.ratio": "0.01"}
MANY_SEGMENTS = {
    "segment.ms": "1000",
    "retention.ms": "-1",
    "file.delete.delay.ms": "1000",
}
EXPIRED = {"retention.ms": "1000"}
SEGMENT_STEP_MS = 10_000
# More than the faster of the two cleans during the pace.
DIRTY_RECORDS = 9_000_000
CLIENT_START_S = 1.0
LOOK_AGAIN_S = 0.05
GONE_TIMEOUT_S = 10.0

_left: dict[tuple[str, int], tuple[int, str]] = {}
"""What the first cleaning of each workload has left: all others must leave the same."""


def run(workload: Workload, broker: Broker, topic: str) -> Measured:
    """Run one of these workloads; its topics are deleted afterwards."""
    return LOADS[workload.kind](workload, broker, topic)


def _compact(workload: Workload, broker: Broker, topic: str) -> Measured:
    codec = Codec[workload.properties["compression.type"].upper()]
    records = KeyedRecords(workload.records, workload.record_bytes, COMPACTED_KEYS, codec)
    with topics.fresh(broker, topic, 1, HELD_BACK):
        send(broker.bootstrap, topic, records.batches())
        os.sync()
        cleanings = CleaningLog(broker)
        with runs.metered(broker) as meter:
            topics.alter(broker.bootstrap, topic, RELEASED)
            (cleaned,) = cleanings.wait_for([f"{topic}-0"])
        _check_left(workload, broker.data / f"{topic}-0")
    megabytes = cleaned.bytes_read / MEGABYTE
    return {
        **meter.measured,
        Metric.MEGABYTES: megabytes / cleaned.seconds,
        Metric.MEGABYTES_PER_CPU: megabytes / meter.measured[Metric.BROKER_CPU],
    }


def _check_left(workload: Workload, directory: Path) -> None:
    left = digest(directory)
    expected = _left.setdefault((workload.name, workload.records), left)
    if left != expected:
        raise BadAnswer(f"{workload.name} left {left[0]} records, and {expected[0]} before")


def _pace(workload: Workload, broker: Broker, topic: str) -> Finished:
    arguments = ["pace", broker.bootstrap, topic, str(PACE_PER_S), str(LIBRDKAFKA_WARMUP_S)]
    arguments += [str(workload.records / PACE_PER_S), workload.properties["acks"]]
    return runs.client("librdkafka", arguments)


def _pace_beside(
    workload: Workload, broker: Broker, topic: str, begin: Callable[[], None]
) -> Measured:
    """Latencies without and with the work that `begin` starts after the producer's warm-up."""
    with topics.fresh(broker, topic, workload.partitions):
        quiet = runs.result_of(_pace(workload, broker, topic))
        timer = threading.Timer(CLIENT_START_S + LIBRDKAFKA_WARMUP_S, begin)
        with runs.metered(broker) as meter:
            timer.start()
            try:
                meter.client = _pace(workload, broker, topic)
            finally:
                timer.join()
    beside = runs.result_of(meter.client)
    return {
        **meter.measured,
        Metric.P50: beside["p50_ms"],
        Metric.P99: beside["p99_ms"],
        Metric.P99_QUIET: quiet["p99_ms"],
        Metric.P99_FACTOR: beside["p99_ms"] / quiet["p99_ms"],
        Metric.MAX: beside["max_ms"],
        Metric.MAX_QUIET: quiet["max_ms"],
    }


def _pace_beside_compaction(workload: Workload, broker: Broker, topic: str) -> Measured:
    dirty = f"{topic}.dirty"
    records = KeyedRecords(DIRTY_RECORDS, 100, COMPACTED_KEYS)
    with topics.fresh(broker, dirty, 1, HELD_BACK):
        send(broker.bootstrap, dirty, records.batches())
        os.sync()
        cleanings = CleaningLog(broker)
        measured = _pace_beside(
            workload, broker, topic, lambda: topics.alter(broker.bootstrap, dirty, RELEASED)
        )
        if cleanings.read():
            raise ChildFailed("the compaction ended before the producer did")
    return measured


def _pace_beside_retention(workload: Workload, broker: Broker, topic: str) -> Measured:
    old = f"{topic}.old"
    with topics.fresh(broker, old, 1, MANY_SEGMENTS):
        _fill_segments(broker, old)
        measured = _pace_beside(
            workload, broker, topic, lambda: topics.alter(broker.bootstrap, old, EXPIRED)
        )
        _wait_until_gone(broker, old, at_most=2)
    return measured


def _pace_beside_topic_deletion(workload: Workload, broker: Broker, topic: str) -> Measured:
    old = f"{topic}.old"
    topics.create(broker.bootstrap, old, 1, MANY_SEGMENTS)
    _fill_segments(broker, old)
    measured = _pace_beside(workload, broker, topic, lambda: topics.drop(broker.bootstrap, old))
    _wait_until_gone(broker, old, at_most=0)
    return measured


def _fill_segments(broker: Broker, topic: str) -> None:
    """Write a segment for each batch: timestamps are further apart than segment.ms."""
    per_batch = BATCH_BYTES // 1_000
    records = KeyedRecords(DELETED_SEGMENTS * per_batch, 1_000, 1, step_ms=SEGMENT_STEP_MS)
    send(broker.bootstrap, topic, records.batches())
    os.sync()
    segments = len(list(broker.data.glob(f"{topic}-0/*.log")))
    if segments != DELETED_SEGMENTS:
        raise ChildFailed(f"{topic} has {segments} segments, expected {DELETED_SEGMENTS}")


def _wait_until_gone(broker: Broker, topic: str, at_most: int) -> None:
    """Return when so few files of segments are left, those to be deleted included."""
    deadline = time.monotonic() + GONE_TIMEOUT_S
    while (left := len(list(broker.data.glob(f"{topic}-*/*.log*")))) > at_most:
        if time.monotonic() > deadline:
            raise ChildFailed(f"{left} segments of {topic} were not deleted")
        time.sleep(LOOK_AGAIN_S)


LOADS: dict[Kind, Callable[[Workload, Broker, str], Measured]] = {
    Kind.COMPACT: _compact,
    Kind.PACE_COMPACTION: _pace_beside_compaction,
    Kind.PACE_RETENTION: _pace_beside_retention,
    Kind.PACE_TOPIC_DELETION: _pace_beside_topic_deletion,
}
"""Workloads that run against brokers with `SETTINGS`."""
