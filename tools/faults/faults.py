"""Faults of a running cluster. Each one breaks something, waits until all partitions acknowledge
again, repairs what it broke, and returns the longest time without an acknowledgement."""

import time
from collections.abc import Callable

from tools.faults.cluster import CLIENT, ZOOKEEPER, FaultyBroker, FaultyCluster
from tools.faults.load import Load

Fault = Callable[[FaultyCluster, Load], float]
Choice = Callable[[FaultyCluster, Load], list[FaultyBroker]]


def leader(cluster: FaultyCluster, load: Load) -> list[FaultyBroker]:
    return [cluster.leader(load.topic)]


def controller(cluster: FaultyCluster, _: Load) -> list[FaultyBroker]:
    return [cluster.controller()]


def follower(cluster: FaultyCluster, load: Load) -> list[FaultyBroker]:
    """A follower of the first partition that is not the controller, if there is one."""
    state = cluster.state(load.topic, 0)
    others = [cluster.broker(node) for node in state["isr"] if node != state["leader"]]
    busy = cluster.controller()
    return [next((broker for broker in others if broker is not busy), others[0])]


def first_two(cluster: FaultyCluster, _: Load) -> list[FaultyBroker]:
    return cluster.brokers[:2]


def everyone(cluster: FaultyCluster, _: Load) -> list[FaultyBroker]:
    return cluster.brokers


def killed(choice: Choice) -> Fault:
    """kill -9; the brokers are started when the others have taken over."""

    def run(cluster: FaultyCluster, load: Load) -> float:
        chosen = choice(cluster, load)
        began = time.monotonic()
        for broker in chosen:
            broker.kill()
        outage_s = load.wait_until_available(began)
        _start(chosen)
        return outage_s

    return run


def killed_and_restarted(choice: Choice) -> Fault:
    """kill -9; the brokers are started at once, as a supervisor does."""

    def run(cluster: FaultyCluster, load: Load) -> float:
        chosen = choice(cluster, load)
        began = time.monotonic()
        for broker in chosen:
            broker.kill()
        _start(chosen)
        return load.wait_until_available(began)

    return run


def data_lost(choice: Choice) -> Fault:
    """kill -9 and the loss of the whole data directory. The brokers are started when their sessions
    have ended: before, another directory with the same broker id is refused."""

    def run(cluster: FaultyCluster, load: Load) -> float:
        chosen = choice(cluster, load)
        began = time.monotonic()
        for broker in chosen:
            broker.kill()
            broker.lose_data()
        for broker in chosen:
            cluster.wait_until_session_ended(broker)
        _start(chosen)
        return load.wait_until_available(began)

    return run


def stopped(choice: Choice) -> Fault:
    """SIGTERM; the brokers are started again when all have stopped."""

    def run(cluster: FaultyCluster, load: Load) -> float:
        chosen = choice(cluster, load)
        began = time.monotonic()
        for broker in chosen:
            broker.begin_stop()
        for broker in chosen:
            broker.wait_until_stopped()
        if len(chosen) > 1:  # one broker cannot acknowledge with min.insync.replicas=2
            _start(chosen)
            load.wait_until_available(time.monotonic())
            return load.outage_s(began)
        load.wait_until_available(time.monotonic())
        outage_s = load.outage_s(began)
        _start(chosen)
        return outage_s

    return run


def rolled(cluster: FaultyCluster, load: Load) -> float:
    """A rolling restart: each broker is stopped when all in-sync sets are full."""
    began = time.monotonic()
    for broker in cluster.brokers:
        cluster.wait_until_in_sync(load.topic, load.partitions)
        broker.stop()
        _start([broker])
    load.wait_until_available(time.monotonic())
    return load.outage_s(began)


def paused(choice: Choice) -> Fault:
    """SIGSTOP, and SIGCONT when the others have taken over: the session has ended by then."""

    def run(cluster: FaultyCluster, load: Load) -> float:
        chosen = choice(cluster, load)
        began = time.monotonic()
        for broker in chosen:
            broker.pause()
        outage_s = load.wait_until_available(began)
        for broker in chosen:
            broker.resume()
        return outage_s

    return run


def isolated(choice: Choice) -> Fault:
    """The broker runs, but nothing reaches it and it reaches nothing."""

    def run(cluster: FaultyCluster, load: Load) -> float:
        [chosen] = choice(cluster, load)
        began = time.monotonic()
        for other in (*(broker.name for broker in cluster.brokers), ZOOKEEPER, CLIENT):
            if other != chosen.name:
                cluster.links.cut_both(chosen.name, other)
        outage_s = load.wait_until_available(began)
        cluster.links.heal()
        return outage_s

    return run


def cut_from_zookeeper(choice: Choice, *, is_one_way: bool) -> Fault:
    """The broker does not reach ZooKeeper, and (unless one way) ZooKeeper not the broker, until the
    session has ended; the broker reaches the other brokers."""

    def run(cluster: FaultyCluster, load: Load) -> float:
        [chosen] = choice(cluster, load)
        began = time.monotonic()
        cluster.links.cut(chosen.name, ZOOKEEPER)
        if not is_one_way:
            cluster.links.cut(ZOOKEEPER, chosen.name)
        cluster.wait_until_session_ended(chosen)
        load.wait_until_available(time.monotonic())
        cluster.links.heal()
        return load.outage_s(began)

    return run


def deaf_to_zookeeper(choice: Choice) -> Fault:
    """ZooKeeper does not reach the broker. Its session lasts, since its requests arrive, and it
    goes on leading without ZooKeeper's answers."""

    def run(cluster: FaultyCluster, load: Load) -> float:
        [chosen] = choice(cluster, load)
        began = time.monotonic()
        cluster.links.cut(ZOOKEEPER, chosen.name)
        load.wait_until_available(began + cluster.session_ms * 2 / 1000)
        cluster.links.heal()
        load.wait_until_available(time.monotonic())
        return load.outage_s(began)

    return run


def cut_pair(*, is_one_way: bool) -> Fault:
    """A leader and a follower of its partitions do not reach each other (one way: the fetches of
    the follower do not arrive) until the in-sync set has shrunk."""

    def run(cluster: FaultyCluster, load: Load) -> float:
        began = time.monotonic()
        [leading], [following] = leader(cluster, load), follower(cluster, load)
        cluster.links.cut(following.name, leading.name)
        if not is_one_way:
            cluster.links.cut(leading.name, following.name)
        outage_s = load.wait_until_available(began)
        cluster.links.heal()
        return outage_s

    return run


def zookeeper_killed(cluster: FaultyCluster, load: Load) -> float:
    """kill -9 of ZooKeeper: producers go on without it, and after its return."""
    began = time.monotonic()
    cluster.zookeeper.kill()
    load.wait_until_available(time.monotonic())
    cluster.start_zookeeper()
    load.wait_until_available(time.monotonic())
    return load.outage_s(began)


def zookeeper_paused(cluster: FaultyCluster, load: Load) -> float:
    """SIGSTOP of ZooKeeper until every session would have ended, and SIGCONT."""
    began = time.monotonic()
    cluster.pause_zookeeper()
    load.wait_until_available(time.monotonic() + cluster.session_ms * 1.5 / 1000)
    cluster.resume_zookeeper()
    load.wait_until_available(time.monotonic())
    return load.outage_s(began)


def _start(brokers: list[FaultyBroker]) -> None:
    for broker in brokers:
        broker.start()
    for broker in brokers:
        broker.wait_until_ready()
