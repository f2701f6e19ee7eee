"""Run one workload against one broker and measure it.

The CPU of the broker is the difference of the kernel's counters before the start and after the end
of the client; the CPU of the client is that of the whole child process.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bench import consumer_performance, topics
from bench.brokers import Broker
from bench.process import Finished, machine_busy_s, run_to_end
from bench.producer_performance import Summary, produce
from bench.workloads import COMMIT_CONNECTIONS, PACE_PER_S, Kind, Metric, Workload

ROOT = Path(__file__).resolve().parent.parent
GIGABYTE = 1e9
MEGABYTE = 1e6
CLIENT_TIMEOUT_S = 600.0
# At this low rate a Java client takes some seconds until its code is compiled.
JAVA_WARMUP_RECORDS = 8_000
LIBRDKAFKA_WARMUP_S = 2.0

Measured = dict[Metric, float]


class Processes(Protocol):
    """A server, or all servers of a cluster."""

    def family_cpu_s(self) -> float: ...

    def check_running(self) -> None: ...


@dataclass(slots=True)
class Meter:
    """CPU of the broker, of the client and of other processes during a block."""

    client: Finished | None = None
    measured: Measured = field(default_factory=dict)


def metered(broker: Broker) -> AbstractContextManager[Meter]:
    return metered_processes(broker.server)


@contextmanager
def metered_processes(servers: Processes) -> Iterator[Meter]:
    meter = Meter()
    began, cpu_s, busy_s = time.monotonic(), servers.family_cpu_s(), machine_busy_s()
    yield meter
    servers.check_running()
    broker_s = servers.family_cpu_s() - cpu_s
    client_s = meter.client.cpu_s if meter.client else 0.0
    others_s = max(0.0, machine_busy_s() - busy_s - broker_s - client_s)
    meter.measured[Metric.BROKER_CPU] = broker_s
    meter.measured[Metric.CLIENT_CPU] = client_s
    meter.measured[Metric.OTHERS_CPU] = others_s
    meter.measured[Metric.OTHERS] = others_s / (time.monotonic() - began)


def run(workload: Workload, broker: Broker, topic: str) -> Measured:
    """Run the workload on a new topic, which is deleted afterwards."""
    with topics.fresh(broker, topic, workload.partitions):
        return LOADS[workload.kind](workload, broker, topic)


def _produce(workload: Workload, broker: Broker, topic: str) -> Measured:
    with metered(broker) as meter:
        summary, meter.client = _send(workload, broker, topic)
    return with_rates(meter.measured, workload, summary.records_per_s)


def _send(workload: Workload, broker: Broker, topic: str) -> tuple[Summary, Finished]:
    return produce(
        broker.bootstrap,
        topic,
        records=workload.records,
        record_bytes=workload.record_bytes,
        properties=workload.properties,
    )


def _consume(workload: Workload, broker: Broker, topic: str) -> Measured:
    _send(workload, broker, topic)
    os.sync()
    with metered(broker) as meter:
        arguments = ["consume", broker.bootstrap, topic]
        arguments += [str(workload.partitions), str(workload.records)]
        meter.client = client("librdkafka", arguments)
        result = result_of(meter.client)
    return with_rates(meter.measured, workload, result["records"] / result["elapsed_s"])


def _consume_java(workload: Workload, broker: Broker, topic: str) -> Measured:
    _send(workload, broker, topic)
    os.sync()
    with metered(broker) as meter:
        summary, meter.client = consumer_performance.consume(
            broker.bootstrap, topic, records=workload.records
        )
    return with_rates(meter.measured, workload, summary.records_per_s)


def with_rates(measured: Measured, workload: Workload, records_per_s: float) -> Measured:
    total_gb = workload.records * workload.record_bytes / GIGABYTE
    measured[Metric.RATE] = records_per_s
    measured[Metric.MEGABYTES] = records_per_s * workload.record_bytes / MEGABYTE
    measured[Metric.BROKER_CPU_PER_GB] = measured[Metric.BROKER_CPU] / total_gb
    return measured


def _pace_java(workload: Workload, broker: Broker, topic: str) -> Measured:
    with metered(broker) as meter:
        summary, meter.client = produce(
            broker.bootstrap,
            topic,
            records=workload.records,
            record_bytes=workload.record_bytes,
            properties=workload.properties,
            records_per_s=PACE_PER_S,
            warmup_records=JAVA_WARMUP_RECORDS,
        )
    return {**meter.measured, Metric.P50: summary.p50_ms, Metric.P99: summary.p99_ms}


def _pace_librdkafka(workload: Workload, broker: Broker, topic: str) -> Measured:
    with metered(broker) as meter:
        arguments = ["pace", broker.bootstrap, topic, str(PACE_PER_S), str(LIBRDKAFKA_WARMUP_S)]
        arguments += [str(workload.records / PACE_PER_S), workload.properties["acks"]]
        meter.client = client("librdkafka", arguments)
        result = result_of(meter.client)
    return {**meter.measured, Metric.P50: result["p50_ms"], Metric.P99: result["p99_ms"]}


def _rebalance(workload: Workload, broker: Broker, topic: str) -> Measured:
    with metered(broker) as meter:
        numbers = (workload.members, workload.partitions, workload.rebalances)
        arguments = [workload.protocol, broker.bootstrap, topic, *map(str, numbers)]
        meter.client = client("members", arguments)
    return {**meter.measured, Metric.REBALANCE: result_of(meter.client)["median_ms"]}


def _commit(workload: Workload, broker: Broker, topic: str) -> Measured:
    with metered(broker) as meter:
        numbers = (COMMIT_CONNECTIONS, workload.records)
        meter.client = client("commits", [broker.bootstrap, topic, *map(str, numbers)])
    result = result_of(meter.client)
    return {**meter.measured, Metric.RATE: result["commits"] / result["elapsed_s"]}


def client(module: str, arguments: list[str]) -> Finished:
    """Run one of the clients of this package."""
    command = [sys.executable, "-m", f"bench.{module}", *arguments]
    return run_to_end(command, CLIENT_TIMEOUT_S, cwd=ROOT)


def result_of(client: Finished) -> dict[str, float]:
    found: dict[str, float] = json.loads(client.output.splitlines()[-1])
    return found


LOADS: dict[Kind, Callable[[Workload, Broker, str], Measured]] = {
    Kind.PRODUCE: _produce,
    Kind.CONSUME: _consume,
    Kind.CONSUME_JAVA: _consume_java,
    Kind.PACE_JAVA: _pace_java,
    Kind.PACE_LIBRDKAFKA: _pace_librdkafka,
    Kind.REBALANCE: _rebalance,
    Kind.COMMIT: _commit,
}
"""Workloads that run against a running broker."""
