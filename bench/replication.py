"""Workloads of a cluster with three replicas of everything.

CPU and memory are those of all processes of a cluster, and CPU is counted until all replicas have
all records, also where a producer does not wait for them. Replicas are equal when their segments
have the same size: both systems replicate the bytes of a batch as they are.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench import topics
from bench.clusters import BROKERS, Cluster
from bench.process import Finished
from bench.producer_performance import Summary, produce
from bench.runs import (
    MEGABYTE,
    Measured,
    client,
    metered_processes,
    result_of,
    with_rates,
)
from bench.workloads import Kind, Metric, Workload

SETTLE_S = 10.0
IDLE_S = 10.0
POLICIES = ("os", "commit")


def run(workload: Workload, cluster: Cluster, topic: str) -> Measured:
    """Run the workload on a new topic, which is deleted afterwards."""
    return LOADS[workload.kind](workload, cluster, topic)


@contextmanager
def fresh(cluster: Cluster, topic: str, partitions: int) -> Iterator[None]:
    topics.create(cluster.bootstrap, topic, partitions, replicas=BROKERS)
    cluster.wait_for_leaders(topic, partitions, BROKERS)
    try:
        yield
    finally:
        cluster.check_running()
        topics.drop(cluster.bootstrap, topic)
        cluster.wait(f"{topic} has files", lambda: not any(map(_has_files(topic), cluster.nodes)))
        os.sync()


def _has_files(topic: str) -> Callable[..., bool]:
    return lambda node: any(node.data.glob(f"{topic}-*"))


def _send(workload: Workload, cluster: Cluster, topic: str) -> tuple[Summary, Finished]:
    return produce(
        cluster.bootstrap,
        topic,
        records=workload.records,
        record_bytes=workload.record_bytes,
        properties=workload.properties,
    )


def _produce(workload: Workload, cluster: Cluster, topic: str) -> Measured:
    with fresh(cluster, topic, workload.partitions):
        with metered_processes(cluster) as meter:
            summary, meter.client = _send(workload, cluster, topic)
            ended = time.monotonic()
            cluster.wait_for_replicas(topic)
            behind_s = time.monotonic() - ended
        measured = with_rates(meter.measured, workload, summary.records_per_s)
        return {**measured, Metric.BEHIND: behind_s, **_resident(cluster)}


def _consume(workload: Workload, cluster: Cluster, topic: str) -> Measured:
    with fresh(cluster, topic, workload.partitions):
        _send(workload, cluster, topic)
        cluster.wait_for_replicas(topic)
        os.sync()
        with metered_processes(cluster) as meter:
            arguments = ["consume", cluster.bootstrap, topic]
            arguments += [str(workload.partitions), str(workload.records)]
            meter.client = client("librdkafka", arguments)
            result = result_of(meter.client)
        rate = result["records"] / result["elapsed_s"]
        return {**with_rates(meter.measured, workload, rate), **_resident(cluster)}


def _catch_up(workload: Workload, cluster: Cluster, topic: str) -> Measured:
    """A broker is away while records are written. Its throughput counts from the moment at which
    its logs begin to grow: Kafka's followers fetch before they answer clients, Sawlog's after."""
    with fresh(cluster, topic, workload.partitions):
        away = cluster.nodes[-1]
        away.stop()
        cluster.wait_for_leaders(topic, workload.partitions, BROKERS - 1)
        _send(workload, cluster, topic)
        missing_mb = cluster.nodes[0].log_bytes(topic) / MEGABYTE
        with metered_processes(cluster) as meter:
            began, held_bytes = time.monotonic(), away.log_bytes(topic)
            away.start()
            cluster.wait("nothing is fetched", lambda: away.log_bytes(topic) > held_bytes)
            growing = time.monotonic()
            cluster.wait_for_replicas(topic)
            caught_up = time.monotonic()
            cluster.wait_for_leaders(topic, workload.partitions, BROKERS)
            in_sync = time.monotonic()
        return {
            **meter.measured,
            Metric.MEGABYTES: missing_mb / (caught_up - growing),
            Metric.IN_SYNC_AGAIN: in_sync - began,
            **_resident(cluster),
        }


def _partitions(workload: Workload, cluster: Cluster, topic: str) -> Measured:
    """Create partitions, leave them idle, and kill a broker; the cluster is not used after it.
    Kafka's metadata has in-sync replicas before these exist, so creation ends with the last log."""
    began, cpu_s = time.monotonic(), cluster.family_cpu_s()
    topics.create(cluster.bootstrap, topic, workload.partitions, replicas=BROKERS)
    cluster.wait_for_leaders(topic, workload.partitions, BROKERS)
    cluster.wait("logs are missing", lambda: _logs(cluster, topic) == BROKERS * workload.partitions)
    created_s, create_cpu_s = time.monotonic() - began, cluster.family_cpu_s() - cpu_s
    time.sleep(SETTLE_S)
    with metered_processes(cluster) as idle:
        time.sleep(IDLE_S)
    resident = _resident(cluster)
    cluster.nodes[-1].kill()
    killed = time.monotonic()
    cluster.wait_for_leaders(topic, workload.partitions, 1)
    return {
        Metric.CREATE: created_s,
        Metric.CREATE_CPU: create_cpu_s,
        Metric.IDLE_CORES: idle.measured[Metric.BROKER_CPU] / IDLE_S,
        Metric.LEADERS_AGAIN: time.monotonic() - killed,
        Metric.OTHERS: idle.measured[Metric.OTHERS],
        **resident,
    }


def _logs(cluster: Cluster, topic: str) -> int:
    return sum(len(list(node.data.glob(f"{topic}-*/*.log"))) for node in cluster.nodes)


def _resident(cluster: Cluster) -> Measured:
    return {Metric.RESIDENT_AFTER: cluster.resident_bytes() / MEGABYTE}


LOADS: dict[Kind, Callable[[Workload, Cluster, str], Measured]] = {
    Kind.REPLICATED_PRODUCE: _produce,
    Kind.REPLICATED_CONSUME: _consume,
    Kind.CATCH_UP: _catch_up,
    Kind.REPLICATED_PARTITIONS: _partitions,
}
"""Workloads that run against a running cluster; that of REPLICATED_PARTITIONS is its own."""
