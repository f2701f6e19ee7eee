"""One run of a seed: boot a cluster, let clients work and faults happen, heal, check everything.

The same seed and the same faults give the same run, event by event.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from sawlog.cluster.znodes import PartitionState
from sawlog.simulation.clients.admin_client import AdminClient
from sawlog.simulation.clients.topic_replacer import TopicReplacer
from sawlog.simulation.cluster_profile import ClusterProfile
from sawlog.simulation.history.checks import check_history
from sawlog.simulation.history.history import Outcome
from sawlog.simulation.invariants.acknowledgements import Acknowledgements
from sawlog.simulation.invariants.all_invariants import all_invariants
from sawlog.simulation.invariants.coordinators import Coordinators
from sawlog.simulation.invariants.deleted_records import DeletedRecords
from sawlog.simulation.invariants.liveness import Liveness
from sawlog.simulation.invariants.observer import Observer
from sawlog.simulation.invariants.violation import Violation
from sawlog.simulation.world.fault_injector import FaultInjector
from sawlog.simulation.world.faults import Fault, plan_faults
from sawlog.simulation.world.simulated_cluster import SimulatedCluster
from sawlog.simulation.world.transactional_workload import TransactionalWorkload
from sawlog.simulation.world.workload import TOPIC, ClusterWorkload

START_MS = 60_000
"""How long a cluster without faults may take to serve."""
RECOVERY_MS = 120_000
"""How long a healed cluster may take to be whole again."""
WHOLE_MS = 1_000
"""How long clients go on with a cluster that is whole again: each request must be answered."""
MAX_EVENTS = 2_000_000


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """`duration_ms` is the simulated time in which faults happen; without a profile, the seed
    decides it."""

    brokers: int = 3
    duration_ms: int = 20_000
    replication_factor: int = 3
    profile: ClusterProfile | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run; `violation` is None if all promises were kept."""

    seed: int
    violation: Violation | None
    events: int
    simulated_ms: int
    faults: int
    acknowledged: int
    read: int
    trace_hash: int
    story: list[str]


class _ErrorLines(logging.Handler):
    """Collects logged errors with a traceback: the code of a broker has failed."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None:
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


class Simulation:
    """A run of one seed, with the faults that the seed plans or those of a list."""

    def __init__(
        self, seed: int, options: SimulationOptions, faults: list[Fault] | None = None
    ) -> None:
        self._seed = seed
        self._options = options
        if faults is None:
            faults = plan_faults(seed, options.brokers, options.duration_ms)
        self.faults = faults
        self._factor = min(options.replication_factor, options.brokers)
        self.profile = options.profile or ClusterProfile.of(seed)
        self.cluster = SimulatedCluster(
            seed, options.brokers, self._factor, self.profile.broker_settings
        )
        self.cluster.trace.note(f"a cluster with {self.profile}")
        self.workload = ClusterWorkload(self.cluster, seed, self._factor, self.profile)
        self.transactional = TransactionalWorkload(self.cluster, seed, self._factor, self.profile)
        acknowledgements = Acknowledgements(self.cluster.schedule, TOPIC, self.workload.min_in_sync)
        self.workload.history.on_acknowledged = acknowledgements.acknowledged
        deleted = DeletedRecords(TOPIC, self.profile.cleanup, self.workload.deleted)
        invariants = [*all_invariants(self.cluster, self.profile), deleted, acknowledgements]
        self.observer = Observer(
            self.cluster, invariants, [Coordinators()], is_compacted=self.profile.is_compacted
        )
        admin = AdminClient(self.cluster, "administrator", TOPIC, seed + 67)
        self._replacer = TopicReplacer(self.cluster, seed + 63, self._factor)
        self.injector = FaultInjector(
            self.cluster,
            self._stored_states,
            admin,
            self._replacer,
            self.workload.min_in_sync,
            self._factor,
        )
        self.events = 0
        self._errors = _ErrorLines()

    def run(self) -> RunResult:
        violation: Violation | None = None
        logger = logging.getLogger("sawlog")
        logger.addHandler(self._errors)
        propagates, logger.propagate = logger.propagate, False
        try:
            self._run()
        except Violation as found:
            violation = found
            self.cluster.trace.note(f"VIOLATION of {found}")
        finally:
            logger.removeHandler(self._errors)
            logger.propagate = propagates
        history = self.workload.history
        return RunResult(
            self._seed,
            violation,
            self.events,
            self.cluster.schedule.monotonic_ms(),
            self.injector.count,
            history.count(Outcome.ACKNOWLEDGED),
            history.records_read,
            self.cluster.trace.hash,
            list(self.cluster.trace.lines),
        )

    def _run(self) -> None:
        cluster, workload, transactional = self.cluster, self.workload, self.transactional
        cluster.boot()
        nodes = cluster.nodes.values()
        self._run_until(lambda: all(node.is_serving for node in nodes), START_MS, "brokers serve")
        workload.create_topic()
        transactional.create_topic()
        self._run_until(
            lambda: workload.has_topic and transactional.has_topic, START_MS, "the topics exist"
        )
        workload.start()
        transactional.start()
        self.injector.schedule(self.faults)
        self._run_for(self._options.duration_ms)
        self.injector.heal()
        transactions = len(transactional.history.transactions)
        liveness = Liveness(
            cluster,
            workload.history,
            workload.groups,
            lambda: transactional.missing(transactions),
        )
        self._run_until(liveness.is_whole, RECOVERY_MS, liveness.missing)
        whole_ms = cluster.schedule.monotonic_ms()
        self._run_for(WHOLE_MS)
        workload.stop()
        transactional.stop()
        self._replacer.stop()
        self._run_for(10_000)
        liveness.check_requests(whole_ms)
        workload.read_everything()
        transactional.read_everything()
        self._run_until(
            lambda: workload.has_read_everything and transactional.has_read_everything,
            RECOVERY_MS,
            "all records are read",
        )
        cluster.trace.count(repr(sorted(workload.history.last_reads.items())))
        workload.history.start_offsets = {
            key.name.partition: partition.start_offset
            for key, partition in self.observer.partitions.items()
            if key.name.topic == TOPIC
        }
        check_history(workload.history)
        transactional.check()

    def _stored_states(self) -> list[PartitionState]:
        partitions = self.observer.partitions.values()
        return [each.stored for each in partitions if each.stored is not None]

    # Events

    def _step(self) -> None:
        try:
            has_event = self.cluster.step()
        except Violation:
            raise
        except Exception as error:
            raise Violation("errors", f"an event failed: {error!r}") from error
        if not has_event:
            raise Violation("liveness", "no event is left")
        self.events += 1
        self.observer.after_event()
        if self._errors.found:
            raise Violation("errors", f"a broker logged: {self._errors.found[0]}")
        if self.events > MAX_EVENTS:
            raise Violation("liveness", f"{MAX_EVENTS} events without an end")

    def _run_for(self, duration_ms: int) -> None:
        schedule = self.cluster.schedule
        end_ms = schedule.monotonic_ms() + duration_ms
        while schedule.monotonic_ms() < end_ms:
            self._step()

    def _run_until(
        self, condition: Callable[[], bool], limit_ms: int, expected: str | Callable[[], str]
    ) -> None:
        schedule = self.cluster.schedule
        end_ms = schedule.monotonic_ms() + limit_ms
        while not condition():
            if schedule.monotonic_ms() > end_ms:
                text = expected if isinstance(expected, str) else expected()
                raise Violation("liveness", f"not within {limit_ms} ms: {text}")
            self._step()
