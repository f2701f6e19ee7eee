"""The transactional clients of a run: they copy numbers to a topic of their own, and consumers read
it with read_committed. All of them write to one history."""

from sawlog.simulation.clients.cluster_client import ClusterClient
from sawlog.simulation.clients.partition_reader import READ_COMMITTED, ConsumerClient
from sawlog.simulation.clients.pipelining_client import PipeliningClient
from sawlog.simulation.clients.transactional_client import TransactionalClient
from sawlog.simulation.cluster_profile import ClusterProfile
from sawlog.simulation.history.checks import check_history
from sawlog.simulation.history.history import History, Outcome
from sawlog.simulation.history.transactions import TransactionHistory, check_transactions
from sawlog.simulation.world.simulated_cluster import SimulatedCluster
from sawlog.simulation.world.workload import PARTITIONS, SMALL_SEGMENTS, create_topic

TRANSACTIONAL_TOPIC = "transfers"
LATE_MS = 6_000
"""A consumer that starts late reads the aborted transactions of closed segments."""


class TransactionalWorkload:
    """The transactional clients of the profile, none of which runs yet; without any all methods do
    nothing."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        seed: int,
        replication_factor: int,
        profile: ClusterProfile,
    ) -> None:
        self._cluster = cluster
        self._seed = seed * 31 + 11
        self._factor = replication_factor
        self.history = TransactionHistory()
        count = profile.transactional_clients
        self._clients = [
            (PipeliningClient if number < profile.pipelining_clients else TransactionalClient)(
                cluster,
                f"copier-{number}",
                TRANSACTIONAL_TOPIC,
                self._seed + number,
                self.history,
                is_older=number >= count - profile.older_clients,
            )
            for number in range(count)
        ]
        self._readers: list[ConsumerClient] = []
        self._last_reader: ConsumerClient | None = None
        self._last_reads = History()
        self.has_topic = not self._clients
        self._is_stopped = False

    def create_topic(self) -> None:
        if not self._clients:
            return

        def created() -> None:
            self.has_topic = True

        admin = ClusterClient(self._cluster, "copy-admin", TRANSACTIONAL_TOPIC, self._seed + 20)
        configs = {**SMALL_SEGMENTS, "min.insync.replicas": str(max(1, self._factor - 1))}
        create_topic(admin, self._factor, configs, created)

    def start(self) -> None:
        for client in self._clients:
            client.start()
        if self._clients:
            self._start_reader("committed-reader")
            self._cluster.schedule.after(LATE_MS, self._start_late_reader)

    def _start_late_reader(self) -> None:
        if not self._is_stopped:
            self._start_reader("late-committed-reader")

    def _start_reader(self, name: str) -> None:
        seed = self._seed + 30 + len(self._readers)
        reader = ConsumerClient(self._cluster, name, TRANSACTIONAL_TOPIC, seed)
        reader.read(self.history.reads, isolation=READ_COMMITTED)
        self._readers.append(reader)

    def missing(self, since: int) -> str:
        """Say which client has committed nothing since as many transactions had been begun."""
        for client in self._clients:
            if not any(
                each.client == client.name and each.outcome is Outcome.ACKNOWLEDGED
                for each in self.history.transactions[since:]
            ):
                return f"{client.name} has committed no transaction"
        return ""

    def stop(self) -> None:
        self._is_stopped = True
        for client in (*self._clients, *self._readers):
            client.is_stopped = True

    def read_everything(self) -> None:
        """Begin to read all that is committed, and the committed offsets of all clients."""
        if not self._clients:
            return
        reader = ConsumerClient(
            self._cluster, "last-committed-reader", TRANSACTIONAL_TOPIC, self._seed + 40
        )
        reader.read(self._last_reads, isolation=READ_COMMITTED)
        self._last_reader = reader
        for client in self._clients:
            client.read_last_offset()

    @property
    def has_read_everything(self) -> bool:
        """Whether the last reader has reached the high watermark of every partition, so that no
        transaction is open, and all committed offsets are known."""
        if self._last_reader is None:
            return True
        readers = self._last_reader.readers
        if (
            len(self.history.last_offsets) < len(self._clients)
            or len(readers) < PARTITIONS
            or not all(0 <= each.high_watermark <= each.position for each in readers.values())
        ):
            return False
        self._last_reader.is_stopped = True
        reads: dict[int, list[tuple[int, bytes]]] = {index: [] for index in readers}
        for poll in self._last_reads.polls:
            reads[poll.partition] += poll.records
        self.history.reads.last_reads = reads
        return True

    def check(self) -> None:
        """Raise Violation if a reader or a client saw what must never happen."""
        check_transactions(self.history)
        check_history(self.history.reads)
