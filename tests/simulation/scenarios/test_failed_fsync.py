"""A failed fsync leaves pages that the kernel takes for clean and never writes to the disk.

Found by seed 139 (three brokers, 15 seconds): a broker whose fsync fails is restarted without its
machine, catches up and joins the in-sync set; the next power loss takes records below its recovery
point, because the later fsyncs had nothing left to write. Recovery now writes them again
(docs/decisions/0005).
"""

import pytest

from sawlog.core.ids import NodeId
from sawlog.simulation.cluster_profile import ClusterProfile
from sawlog.simulation.world.simulation import Simulation, SimulationOptions

OPTIONS = SimulationOptions(brokers=3, duration_ms=12_000, profile=ClusterProfile())


class RestartedProcess(Simulation):
    """At 3 s the fsyncs of broker 2 fail, and its process is restarted; at 11 s all lose power."""

    def plan(self) -> None:
        schedule, node = self.cluster.schedule, self.cluster.nodes[NodeId(2)]

        def restart() -> None:
            node.disk.fails_syncs = False
            node.kill()
            node.boot()

        def lose_power() -> None:
            for each in self.cluster.nodes.values():
                each.lose_power()

        schedule.after(3_000, lambda: setattr(node.disk, "fails_syncs", True))
        schedule.after(3_050, restart)
        schedule.after(11_000, lose_power)


@pytest.mark.long
def test_a_restart_after_a_failed_fsync_loses_nothing_at_the_next_power_loss() -> None:
    for seed in range(2):
        simulation = RestartedProcess(seed, OPTIONS, [])
        simulation.plan()
        result = simulation.run()
        assert result.violation is None, "\n".join([str(result.violation), *result.story[-30:]])
