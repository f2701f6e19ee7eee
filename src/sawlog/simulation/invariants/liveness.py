"""Liveness: after all faults heal, in-sync sets are full, writes to all partitions succeed, groups
commit what was written, and every request gets its response."""

from collections.abc import Callable, Collection, Iterator

from sawlog.cluster import znodes
from sawlog.cluster.metadata_image import NO_NODE
from sawlog.simulation.history.history import History, Outcome, Write
from sawlog.simulation.invariants.violation import Violation
from sawlog.simulation.world.simulated_cluster import SimulatedCluster


class Liveness:
    """Judges a cluster from the moment in which its faults healed."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        history: History,
        groups: Collection[str],
        missing_transactions: Callable[[], str] = lambda: "",
    ) -> None:
        """`groups` are those that have members; `missing_transactions` says which client of
        transactions makes no progress."""
        self._cluster = cluster
        self._history = history
        self._groups = groups
        self._missing_transactions = missing_transactions
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
        return (
            self._missing_changes()
            or self._missing_writes()
            or self._missing_commits()
            or self._missing_transactions()
        )

    def _missing_changes(self) -> str:
        """Say which deletion or which change of a config has not reached every broker."""
        tree = self._cluster.service.tree
        deletions = tree.children(znodes.DELETE_TOPICS)
        if deletions:
            return f"the topics {deletions} are still being deleted"
        for node in self._cluster.nodes.values():
            assert node.broker is not None
            for name, log in node.broker.components.directory.logs.items():
                if tree.exists(znodes.topic_path(name.topic)) is None:
                    return f"broker {node.id} has the log {name} of a deleted topic"
                topic = znodes.decode_assignment(tree.get(znodes.topic_path(name.topic)))
                if log.topic_id != topic.topic_id:
                    return f"broker {node.id} has the log {name} of an earlier topic"
                configs = znodes.decode_configs(tree.get(znodes.config_path(name.topic)))
                for config, value in (
                    ("internal.segment.bytes", log.config.segment_bytes),
                    ("min.insync.replicas", log.config.min_insync_replicas),
                ):
                    if int(configs.get(config, value)) != value:
                        return f"broker {node.id} has {config}={value} for {name}: {configs}"
        return ""

    def _missing_writes(self) -> str:
        acknowledged = {write.partition for write in self._acknowledged()}
        wanted = {write.partition for write in self._history.writes}
        if wanted - acknowledged:
            return f"no write to the partitions {sorted(wanted - acknowledged)} was acknowledged"
        return ""

    def _missing_commits(self) -> str:
        """Say which group has not read one of the records that were written since."""
        first: dict[int, int] = {}
        for write in self._acknowledged():
            if write.offset >= 0:
                first.setdefault(write.partition, write.offset)
        for group in sorted(self._groups):
            for partition, offset in sorted(first.items()):
                committed = self._history.committed.get((group, partition), -1)
                if committed <= offset:
                    return (
                        f"{group} has committed {committed} of partition {partition}, where "
                        f"{offset} was written since"
                    )
        return ""

    def _acknowledged(self) -> Iterator[Write]:
        """The writes since all faults healed that succeeded."""
        for write in self._history.writes[self._writes_before :]:
            if write.outcome is Outcome.ACKNOWLEDGED:
                yield write

    def check_requests(self, since_ms: int) -> None:
        """Check that every request that was sent since then got a response."""
        requests = self._cluster.requests
        failed = requests.last_unanswered
        if failed is not None and failed.sent_ms >= since_ms:
            raise Violation("liveness", f"no response: {failed.text}, sent at {failed.sent_ms} ms")
        for each in requests.open.values():
            raise Violation("liveness", f"no response yet: {each.text}, sent at {each.sent_ms} ms")
