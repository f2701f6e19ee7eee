"""Transactions: throughput in long ones, commits of small ones, and latency under read_committed.

The rows run on one broker of each kind, once for each flush policy of Sawlog. After the commits of
small transactions the log must have one record and one marker of each.
"""

import os
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition

from bench import runs, topics
from bench.brokers import Broker
from bench.process import ChildFailed, Finished, run_to_end
from bench.producer_performance import OPTIONS, produce
from bench.runs import CLIENT_TIMEOUT_S, ROOT, Measured, client, metered, result_of
from bench.workloads import TRANSACTIONS_PER_S, Kind, Metric, Workload
from tools.kafka_node import java_command

POLICIES = ("os", "commit")
PROGRAM = ROOT / "bench" / "CommitTransactions.java"
# Both the broker's code and a Java client's are compiled by then.
WARMUP_COMMITS = 500
WARMUP_PACED = 40
TIMEOUT_S = 30.0


def run(workload: Workload, broker: Broker, topic: str) -> Measured:
    """Run the workload on a new topic, which is deleted afterwards."""
    with topics.fresh(broker, topic, workload.partitions):
        return LOADS[workload.kind](workload, broker, topic)


def _produce(workload: Workload, broker: Broker, topic: str) -> Measured:
    with metered(broker) as meter:
        summary, meter.client = produce(
            broker.bootstrap,
            topic,
            records=workload.records,
            record_bytes=workload.record_bytes,
            properties=workload.properties,
            transactional_id=topic,
            transaction_ms=workload.transaction_ms,
        )
    return runs.with_rates(meter.measured, workload, summary.records_per_s)


def _commit_librdkafka(workload: Workload, broker: Broker, topic: str) -> Measured:
    numbers = (WARMUP_COMMITS, workload.records)
    arguments = ["commit", broker.bootstrap, topic, *map(str, numbers)]
    return _commit(workload, broker, topic, lambda: client("transactional_clients", arguments))


def _commit_java(workload: Workload, broker: Broker, topic: str) -> Measured:
    command = java_command(os.fspath(PROGRAM), broker.bootstrap, topic, options=OPTIONS)
    command += [str(WARMUP_COMMITS), str(workload.records)]
    return _commit(workload, broker, topic, lambda: run_to_end(command, CLIENT_TIMEOUT_S))


def _commit(
    workload: Workload, broker: Broker, topic: str, run_client: Callable[[], Finished]
) -> Measured:
    with metered(broker) as meter:
        meter.client = run_client()
    _check_markers(broker, topic, WARMUP_COMMITS + workload.records)
    result = result_of(meter.client)
    return {**meter.measured, Metric.RATE: result["commits"] / result["elapsed_s"]}


def _check_markers(broker: Broker, topic: str, transactions: int) -> None:
    """The log has a record and a marker of each transaction, below the last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "bench",
            "isolation.level": "read_committed",
        }
    )
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
    finally:
        consumer.close()
    if end != 2 * transactions:
        raise ChildFailed(f"{topic} is stable up to {end}, expected {2 * transactions}")


def _latency(workload: Workload, broker: Broker, topic: str) -> Measured:
    numbers = (TRANSACTIONS_PER_S, WARMUP_PACED, workload.records)
    with metered(broker) as meter:
        arguments = ["latency", broker.bootstrap, topic, *map(str, numbers)]
        meter.client = client("transactional_clients", arguments)
    result = result_of(meter.client)
    return {**meter.measured, Metric.P50: result["p50_ms"], Metric.P99: result["p99_ms"]}


LOADS: dict[Kind, Callable[[Workload, Broker, str], Measured]] = {
    Kind.TRANSACTIONAL_PRODUCE: _produce,
    Kind.TRANSACTION_COMMIT_LIBRDKAFKA: _commit_librdkafka,
    Kind.TRANSACTION_COMMIT_JAVA: _commit_java,
    Kind.TRANSACTION_LATENCY: _latency,
}
"""Workloads that run against a broker with a flush policy."""
