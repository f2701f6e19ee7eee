"""The faults of a cluster in the benchmark, on a cluster of fakes."""

import signal
from collections.abc import Sequence
from typing import cast

import pytest

from bench.brokers import Name
from bench.clusters import Cluster, Node
from bench.outages import FAULTS
from bench.workloads import WORKLOADS, Kind
from tools.faults.load import Load

CONTROLLER = 1


class FakeNode:
    """A broker that notes what happens to it."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.events: list[str] = []

    def start(self) -> None:
        self.events.append("start")

    def wait_for_answer(self) -> None:
        assert self.events[-1] == "start"

    def stop(self) -> None:
        self.events.append("stop")

    def kill(self) -> None:
        self.events.append("kill")

    def signal(self, number: int) -> None:
        self.events.append(signal.Signals(number).name)


class FakeCluster(Cluster):
    """Three fakes; the first is the controller."""

    def __init__(self) -> None:
        self.fakes = [FakeNode(node_id) for node_id in (1, 2, 3)]
        super().__init__(Name.SAWLOG, cast("list[Node]", self.fakes), [])

    def controller_id(self) -> int:
        return CONTROLLER


class FakeLoad(Load):
    """A load that is available again at once, unless it fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self._failure = failure

    def wait_until_available(self, since: float, partitions: Sequence[int] | None = None) -> float:
        assert partitions is None
        if self._failure:
            raise self._failure
        return self.outage_s(since)

    def outage_s(self, since: float, until: float = float("inf")) -> float:
        assert since < until
        return 1.5


def events(name: str, load: FakeLoad | None = None) -> list[list[str]]:
    cluster = FakeCluster()
    assert FAULTS[name](cluster, load or FakeLoad()) == 1.5
    return [node.events for node in cluster.fakes]


def test_every_failover_row_has_its_fault() -> None:
    assert {work.name for work in WORKLOADS if work.kind is Kind.FAILOVER} == FAULTS.keys()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("failover-kill", [[], ["kill", "start"], []]),
        ("failover-kill-all", [["kill", "start"]] * 3),
        ("failover-sigterm", [[], ["stop", "start"], []]),
        ("failover-pause", [[], ["SIGSTOP", "SIGCONT"], []]),
    ],
)
def test_a_fault_is_repaired_and_spares_the_controller(
    name: str, expected: list[list[str]]
) -> None:
    assert events(name) == expected


def test_a_paused_broker_continues_though_the_others_do_not_take_over() -> None:
    cluster = FakeCluster()
    load = FakeLoad(AssertionError("every partition acknowledges again"))
    with pytest.raises(AssertionError, match="acknowledges again"):
        FAULTS["failover-pause"](cluster, load)
    assert cluster.fakes[1].events == ["SIGSTOP", "SIGCONT"]
