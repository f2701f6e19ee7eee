"""Faults of a running cluster. Each one breaks something, waits as long as it lasts, repairs what
it broke, and returns the longest time without an acknowledgement."""

import time
from collections.abc import Callable, Sequence

from tools.faults.cluster import CLIENT, FaultyBroker, FaultyCluster, FaultyProcess
from tools.faults.links import Way
from tools.faults.load import Load
from tools.faults.process import wait_for

Fault = Callable[[FaultyCluster, Load], float]
Targets = Sequence[FaultyProcess]
Choice = Callable[[FaultyCluster, Load], Targets]
BrokerChoice = Callable[[FaultyCluster, Load], Sequence[FaultyBroker]]
Hold = Callable[[FaultyCluster, Load, Targets, float], bool]
"""Waits from the time at which the fault began until it is to be repaired; returns whether the
outage includes the repair."""

# Targets


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


def zookeeper(cluster: FaultyCluster, _: Load) -> list[FaultyProcess]:
    return [cluster.zookeeper]


# How long a fault lasts


def at_once(_: FaultyCluster, __: Load, ___: Targets, ____: float) -> bool:
    """The repair follows the fault, as a supervisor does it."""
    return True


def until_available(_: FaultyCluster, load: Load, __: Targets, began: float) -> bool:
    """The others have taken over: every partition acknowledges what was sent after the fault."""
    load.wait_until_available(began)
    return False


def until_stopped(_: FaultyCluster, load: Load, targets: Targets, __: float) -> bool:
    """The processes have stopped, and the others acknowledge if they are enough for
    min.insync.replicas=2."""
    for target in targets:
        target.wait_until_stopped()
    if len(targets) > 1:
        return True
    load.wait_until_available(time.monotonic())
    return False


def until_sessions_end(cluster: FaultyCluster, load: Load, targets: Targets, _: float) -> bool:
    """ZooKeeper has ended the sessions of the brokers, and the others have taken over."""
    for target in targets:
        cluster.wait_until_session_ended(target)
    load.wait_until_available(time.monotonic())
    return True


def until_leading_nothing(cluster: FaultyCluster, load: Load, targets: Targets, _: float) -> bool:
    """The others lead all partitions and acknowledge, though the brokers still run."""
    nodes = [broker.node_id for broker in cluster.brokers if broker in targets]

    def leaders() -> list[int]:
        return [cluster.state(load.topic, index)["leader"] for index in range(load.partitions)]

    wait_for(lambda: not set(nodes) & set(leaders()), f"brokers {nodes} lead nothing")
    load.wait_until_available(time.monotonic())
    assert all(target.child.is_running for target in targets)
    return False


def for_sessions(count: float) -> Hold:
    """Producers get acknowledgements after so many session timeouts."""

    def wait(cluster: FaultyCluster, load: Load, _: Targets, began: float) -> bool:
        load.wait_until_available(began + count * cluster.session_ms / 1000)
        return True

    return wait


def for_seconds(seconds: float) -> Hold:
    """Producers get acknowledgements after so many seconds."""

    def wait(_: FaultyCluster, load: Load, __: Targets, began: float) -> bool:
        load.wait_until_available(began + seconds)
        return True

    return wait


# What breaks


def killed(choice: Choice, hold: Hold = until_available) -> Fault:
    """kill -9; the processes are started again in the end."""
    return _fault(choice, lambda each: each.kill(), hold, _start)


def killed_and_restarted(choice: Choice) -> Fault:
    return killed(choice, at_once)


def data_lost(choice: BrokerChoice) -> Fault:
    """kill -9 and the loss of the whole data directory. The brokers are started when their sessions
    have ended: before, another directory with the same broker id is refused."""

    def lose(each: FaultyProcess) -> None:
        assert isinstance(each, FaultyBroker)
        each.kill()
        each.lose_data()

    return _fault(choice, lose, until_sessions_end, _start)


def disk_failed(choice: BrokerChoice) -> Fault:
    """Writes to files fail, so that the data directory goes offline; the brokers are killed and
    started on a working disk in the end."""

    def fail(each: FaultyProcess) -> None:
        assert isinstance(each, FaultyBroker)
        each.fail_disk()

    return _fault(choice, fail, until_leading_nothing, _restart)


def stopped(choice: Choice, hold: Hold = until_stopped) -> Fault:
    """SIGTERM; the processes are started again in the end."""
    return _fault(choice, lambda each: each.begin_stop(), hold, _start_stopped)


def paused(choice: Choice, hold: Hold = until_available) -> Fault:
    """SIGSTOP, and SIGCONT in the end: the session of a broker has ended by then."""
    return _fault(choice, lambda each: each.pause(), hold, _resume)


def rolled(cluster: FaultyCluster, load: Load) -> float:
    """A rolling restart: each broker is stopped when all in-sync sets are full."""
    began = time.monotonic()
    for broker in cluster.brokers:
        cluster.wait_until_in_sync(load.topic, load.partitions)
        broker.stop()
        _start([broker])
    load.wait_until_available(time.monotonic())
    return load.outage_s(began)


def isolated(choice: Choice) -> Fault:
    """The broker runs, but nothing reaches it and it reaches nothing."""

    def run(cluster: FaultyCluster, load: Load) -> float:
        names = [each.name for each in (*cluster.brokers, cluster.zookeeper)]
        [name] = (each.name for each in choice(cluster, load))
        others = [other for other in (*names, CLIENT) if other != name]
        ways = [way for other in others for way in ((name, other), (other, name))]
        return _cut(cluster, load, ways, [], until_available)

    return run


def cut(source: Choice, target: Choice, hold: Hold, *, is_one_way: bool = False) -> Fault:
    """Nothing passes from the source to the target and, unless one way, nothing back; `hold` gets
    the source."""

    def run(cluster: FaultyCluster, load: Load) -> float:
        [one], [other] = source(cluster, load), target(cluster, load)
        ways = [(one.name, other.name)]
        if not is_one_way:
            ways.append((other.name, one.name))
        return _cut(cluster, load, ways, [one], hold)

    return run


# The course of a fault


def _fault(
    choice: Choice,
    damage: Callable[[FaultyProcess], None],
    hold: Hold,
    repair: Callable[[Targets], None],
) -> Fault:
    def run(cluster: FaultyCluster, load: Load) -> float:
        targets = choice(cluster, load)

        def damage_all() -> None:
            for target in targets:
                damage(target)

        return _course(cluster, load, targets, damage_all, hold, lambda: repair(targets))

    return run


def _cut(
    cluster: FaultyCluster, load: Load, ways: Sequence[Way], targets: Targets, hold: Hold
) -> float:
    def cut_all() -> None:
        for way in ways:
            cluster.links.cut(*way)

    return _course(cluster, load, targets, cut_all, hold, cluster.links.heal)


def _course(
    cluster: FaultyCluster,
    load: Load,
    targets: Targets,
    damage: Callable[[], None],
    hold: Hold,
    repair: Callable[[], None],
) -> float:
    began = time.monotonic()
    damage()
    is_repair_counted = hold(cluster, load, targets, began)
    outage_s = load.outage_s(began)
    repair()
    if is_repair_counted:
        load.wait_until_available(time.monotonic())
        outage_s = load.outage_s(began)
    return outage_s


def _start(targets: Targets) -> None:
    for target in targets:
        target.start()
    for target in targets:
        target.wait_until_ready()


def _restart(targets: Targets) -> None:
    for target in targets:
        target.kill()
    _start(targets)


def _start_stopped(targets: Targets) -> None:
    for target in targets:
        target.wait_until_stopped()
    _start(targets)


def _resume(targets: Targets) -> None:
    for target in targets:
        target.resume()
