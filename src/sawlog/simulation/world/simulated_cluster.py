"""A whole cluster under simulated time: machines, network and coordination store on one schedule.

`step` runs one event; `touched` then has the ids of the brokers whose code ran in it, so that the
checkers look only at those.
"""

from typing import TYPE_CHECKING

from sawlog.core.config import BrokerConfig
from sawlog.core.config_broker import FLUSH_BEFORE_COMMIT
from sawlog.core.ids import NodeId
from sawlog.simulation.schedule import Schedule
from sawlog.simulation.simulated_network import SimulatedNetwork
from sawlog.simulation.simulated_store import StoreService
from sawlog.simulation.world.request_log import RequestLog
from sawlog.simulation.world.simulated_node import SimulatedNode
from sawlog.simulation.world.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable

SESSION_TIMEOUT_MS = 6_000
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "log.retention.check.interval.ms": "60000",
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
}


class SimulatedCluster:
    """Brokers 1 to `brokers`, none of which runs yet."""

    def __init__(
        self,
        seed: int,
        brokers: int,
        replication_factor: int,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.schedule = Schedule(seed)
        self.trace = Trace(self.schedule)
        self.service = StoreService(self.schedule, seed + 1, session_timeout_ms=SESSION_TIMEOUT_MS)
        self.network = SimulatedNetwork(self.schedule, seed + 2)
        self.requests = RequestLog(self.schedule)
        self.touched: set[NodeId] = set()
        self.on_end: Callable[[SimulatedNode], None] | None = None
        """Called with a broker whose process is about to end."""
        settings = {
            **SETTINGS,
            "offsets.topic.replication.factor": str(replication_factor),
            "transaction.state.log.replication.factor": str(replication_factor),
            **(settings or {}),
        }
        self.commits_on_flush = BrokerConfig(settings)["flush.policy"] == FLUSH_BEFORE_COMMIT
        self.nodes = {
            NodeId(number): SimulatedNode(self, NodeId(number), settings, seed * 101 + number)
            for number in range(1, brokers + 1)
        }

    def boot(self) -> None:
        for node in self.nodes.values():
            if not node.is_running:
                node.boot()

    def step(self) -> bool:
        """Run the next event; return False if there is none."""
        self.touched.clear()
        if not self.schedule.step():
            return False
        self.trace.step()
        return True
