"""Liveness: after all faults heal, in-sync sets are full, and writes to all partitions succeed."""

from sawlog.cluster.metadata_image import NO_NODE
from sawlog.simulation.history.history import History, Outcome
from sawlog.simulation.invariants.observer import Observer
from sawlog.simulation.world.simulated_cluster import SimulatedCluster


class Liveness:
    """Judges a cluster from the moment in which its faults healed."""

    def __init__(self, cluster: SimulatedCluster, observer: Observer, history: History) -> None:
        self._cluster = cluster
        self._observer = observer
        self._history = history
        self._healed_ms = cluster.schedule.monotonic_ms()
        self._next_check_ms = 0
        self._writes_before = len(history.writes)

    def is_whole(self) -> bool:
        """Whether nothing is missing any more; looks a few times per simulated second only."""
        now_ms = self._cluster.schedule.monotonic_ms()
        if now_ms < self._next_check_ms:
            return False
        self._next_check_ms = now_ms + 250
        return not self.missing()

    def missing(self) -> str:
        """Say what does not work yet; empty if everything does."""
        for node in self._cluster.nodes.values():
            if not node.is_serving:
                return f"broker {node.id} does not serve"
        topics = next(iter(self._cluster.nodes.values())).broker
        assert topics is not None
        image = topics.metadata.image
        for topic in image.topics.values():
            for index, state in enumerate(topic.partitions):
                if state.leader == NO_NODE:
                    return f"{topic.name}-{index} has no leader: {state}"
                if state.adding or state.removing:
                    return f"{topic.name}-{index} is still being reassigned: {state}"
                if set(state.isr) != set(state.replicas):
                    return f"{topic.name}-{index} has the in-sync set {state.isr}: {state}"
        acknowledged = {
            write.partition
            for write in self._history.writes[self._writes_before :]
            if write.outcome is Outcome.ACKNOWLEDGED
        }
        wanted = {write.partition for write in self._history.writes}
        if wanted - acknowledged:
            return f"no write to the partitions {sorted(wanted - acknowledged)} was acknowledged"
        return ""
