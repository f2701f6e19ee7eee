"""Faults of a cluster under load: the longest time without an acknowledgement of one partition.

Both clusters have the same client, an idempotent librdkafka producer with acks=all that sends to
all partitions, and the same course: before the fault all in-sync sets are full and every broker
leads its share; the time counts from the fault until every partition has acknowledged a record that
was sent after it. A single broker that fails is never the controller. `bench.failover` has more
faults, of Sawlog alone.
"""

import signal
import time
from collections.abc import Callable

from bench import topics
from bench.brokers import Name
from bench.clusters import BROKERS, Cluster, Node
from bench.process import ChildFailed
from bench.runs import Measured
from bench.workloads import Metric, Workload
from tools.faults.load import Load


def run(workload: Workload, cluster: Cluster, topic: str) -> Measured:
    """Measure one fault on a new topic; afterwards all brokers run and the topic is deleted."""
    load = Load(cluster.bootstrap, workload.partitions, topic=topic)
    try:
        cluster.wait_for_leaders(topic, workload.partitions, BROKERS)
        load.elect_preferred_leaders()
        load.wait_until_available(time.monotonic())
        outage_s = FAULTS[workload.name](cluster, load)
        cluster.wait_for_leaders(topic, workload.partitions, BROKERS)
    except BaseException:
        load.abandon()
        raise
    load.stop()
    if cluster.name is Name.SAWLOG:
        _check(load)
    topics.drop(cluster.bootstrap, topic)
    return {Metric.OUTAGE: outage_s}


def _check(load: Load) -> None:
    """ChildFailed if an acknowledged record is lost or doubled."""
    try:
        load.check()
    except Exception as violation:
        raise ChildFailed(f"the history of {load.topic} is wrong: {violation}") from violation


def _other(cluster: Cluster) -> Node:
    """A broker that is not the controller."""
    controller_id = cluster.controller_id()
    return next(node for node in cluster.nodes if node.node_id != controller_id)


def _killed(cluster: Cluster, load: Load) -> float:
    """kill -9; the others take over."""
    node = _other(cluster)
    began = time.monotonic()
    node.kill()
    outage_s = load.wait_until_available(began)
    node.start()
    node.wait_for_answer()
    return outage_s


def _all_killed(cluster: Cluster, load: Load) -> float:
    """kill -9 of all brokers, which are started at once; ZooKeeper goes on, a KRaft quorum not."""
    began = time.monotonic()
    for node in cluster.nodes:
        node.kill()
    for node in cluster.nodes:
        node.start()
    load.wait_until_available(time.monotonic())
    return load.outage_s(began)


def _stopped(cluster: Cluster, load: Load) -> float:
    """SIGTERM: a controlled shutdown, during which the others take over."""
    node = _other(cluster)
    began = time.monotonic()
    node.stop()
    load.wait_until_available(time.monotonic())
    outage_s = load.outage_s(began)
    node.start()
    node.wait_for_answer()
    return outage_s


def _paused(cluster: Cluster, load: Load) -> float:
    """SIGSTOP until the others have taken over, so for longer than the session."""
    node = _other(cluster)
    began = time.monotonic()
    node.signal(signal.SIGSTOP)
    try:
        return load.wait_until_available(began)
    finally:
        node.signal(signal.SIGCONT)


FAULTS: dict[str, Callable[[Cluster, Load], float]] = {
    "failover-kill": _killed,
    "failover-kill-all": _all_killed,
    "failover-sigterm": _stopped,
    "failover-pause": _paused,
}
"""The faults, by the name of their workload."""

POLICY = "commit"
"""Sawlog flushes, which is its default; Kafka does not."""
