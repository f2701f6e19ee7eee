"""The controller: the broker that created `/controller`. It elects leaders and deletes topics.

Its election is one multi that creates `/controller` and increments `/controller_epoch`. Every write
is a multi that checks this epoch, so that writes of a former controller fail. The controller works
from the view: everything that the view shows as pending (a partition without a state or a leader, a
topic to delete) becomes a write, until the view shows it done.
"""

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import NamedTuple

from sawlog.cluster import znodes
from sawlog.cluster.controller_steps import (
    MAX_BYTES,
    MAX_OPERATIONS,
    Pending,
    Step,
    StepKey,
    StepKind,
    size_of,
)
from sawlog.cluster.store_view import StoreView
from sawlog.core.config import BrokerConfig
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import NodeId
from sawlog.core.ports import Clock, Timer
from sawlog.core.store import (
    BadVersion,
    Check,
    Create,
    Node,
    NodeExists,
    NodeStat,
    NoNode,
    NotEmpty,
    Operation,
    Result,
    SetData,
    Store,
    StoreError,
    StoreUnavailable,
    WatchEvent,
)

RETRY_MS = 1000
logger = EventLogger("sawlog.cluster.controller")


class ControllerTerm(NamedTuple):
    """One broker's time as controller."""

    epoch: int
    version: int  # of the node /controller_epoch


class Controller:
    """`progressed` is called after a successful election and after every successful write."""

    def __init__(
        self,
        store: Store,
        node: NodeId,
        view: StoreView,
        config: BrokerConfig,
        clock: Clock,
        timer: Timer,
        progressed: Callable[[], None],
    ) -> None:
        self._store = store
        self._node = node
        self._view = view
        self._config = config
        self._clock = clock
        self._timer = timer
        self._progressed = progressed
        self._run_number = 0  # of the last start or stop; results of earlier runs are ignored
        self._term: ControllerTerm | None = None
        self._sent: set[StepKey] = set()
        self._is_rebalancing = False
        self._rejected: set[StepKey] = set()  # by a full disk, at the last attempt

    @property
    def is_active(self) -> bool:
        return self._term is not None

    @property
    def is_idle(self) -> bool:
        """Whether the view shows all steps done, except those that a full disk rejected."""
        is_open = any(step.key not in self._rejected for step in self._open_steps())
        return not is_open and self._sent <= self._rejected

    def start(self) -> None:
        """Become a candidate, now and whenever there is no controller. A lost session ends the
        current term."""
        self._run_number += 1
        self._term = None
        self._sent = set()
        self._rejected = set()
        self._find_controller()

    def stop(self) -> None:
        self._run_number += 1
        self._term = None

    # Election

    def _find_controller(self) -> None:
        run_number = self._run_number

        def watched(_: WatchEvent) -> None:
            if run_number == self._run_number:
                self.start()

        def found(stat: NodeStat | StoreError | None) -> None:
            if run_number != self._run_number:
                return
            if isinstance(stat, StoreError):
                logger.warning("cannot read the node of the controller", reason=str(stat))
            elif stat is None:
                self._store.get(znodes.CONTROLLER_EPOCH, read_epoch)
            elif stat.owner == self._store.session_id:
                # The connection was lost, but not the session: the term continues.
                self._store.get(znodes.CONTROLLER_EPOCH, continue_term)

        def read_epoch(node: Node | StoreError) -> None:
            if run_number == self._run_number and isinstance(node, Node):
                self._elect(int(node.data) + 1, node.stat.version)

        def continue_term(node: Node | StoreError) -> None:
            if run_number == self._run_number and isinstance(node, Node):
                self._begin_term(ControllerTerm(int(node.data), node.stat.version))

        self._store.exists(znodes.CONTROLLER, found, watched)

    def _elect(self, epoch: int, version: int) -> None:
        run_number = self._run_number

        def answered(result: list[Result] | StoreError) -> None:
            if run_number != self._run_number:
                return
            if not isinstance(result, StoreError):
                logger.info("elected controller", node=self._node, epoch=epoch)
                self._begin_term(ControllerTerm(epoch, version + 1))
            elif not isinstance(result, (NodeExists, BadVersion)):
                logger.warning("controller election failed; retrying", reason=str(result))
                self._timer.after(RETRY_MS, self._restart(run_number))

        record = znodes.encode_controller(self._node, self._clock.now_ms())
        self._store.multi(
            [
                SetData(znodes.CONTROLLER_EPOCH, str(epoch).encode(), version),
                Create(znodes.CONTROLLER, record, ephemeral=True),
            ],
            answered,
            urgent=True,
        )

    def _begin_term(self, term: ControllerTerm) -> None:
        self._term = term
        self._view.mark_all_changed()
        self._progressed()
        self._schedule_rebalance(self._run_number)

    def _restart(self, run_number: int) -> Callable[[], None]:
        def restart() -> None:
            if run_number == self._run_number:
                self.start()

        return restart

    # Steps

    def _open_steps(self) -> list[Step]:
        term = self._term
        if term is None or not self._view.is_loaded:
            return []
        pending = Pending(self._view, self._config, term.epoch, self._sent, self._is_rebalancing)
        found = pending.steps()
        # Steps that the view no longer shows are done or obsolete.
        self._sent &= {step.key for step in found}
        return [step for step in found if step.key not in self._sent]

    def run(self) -> None:
        """Write all pending steps of the view, partitions without a leader before those that only
        lose a follower: brokers hear of changes in the order of the writes."""
        term = self._term
        if term is None:
            return
        by_kind: dict[StepKind, list[Step]] = {kind: [] for kind in StepKind}
        for step in self._open_steps():
            by_kind[step.kind].append(step)
        for kind, todo in by_kind.items():
            for batch in _batches(sorted(todo, key=attrgetter("is_led"))):
                self._write(term, kind, batch)

    # Preferred leaders

    def _schedule_rebalance(self, run_number: int) -> None:
        interval_ms: int = self._config["leader.imbalance.check.interval.seconds"] * 1000
        self._timer.after(interval_ms, lambda: self._rebalance(run_number))

    def _rebalance(self, run_number: int) -> None:
        """Move leaders back to the first replicas of their partitions, as far as those are in
        sync: after a restart of a broker the others lead more than their share."""
        if run_number != self._run_number or self._term is None:
            return
        self._schedule_rebalance(run_number)
        if self._config["auto.leader.rebalance.enable"] and self._view.is_loaded:
            self._view.mark_all_changed()
            self._is_rebalancing = True
            self.run()
            self._is_rebalancing = False

    # Writing

    def _write(self, term: ControllerTerm, kind: StepKind, batch: list[Step]) -> None:
        """Write steps of one kind: on a full disk one kind may succeed where another fails."""
        run_number = self._run_number
        keys = {step.key for step in batch}
        self._sent |= keys

        def answered(result: list[Result] | StoreError) -> None:
            if run_number != self._run_number:
                return
            if isinstance(result, StoreError):
                self._sent -= keys
                if isinstance(result, StoreUnavailable):
                    self._rejected |= keys
                others = [step for step in batch if not _names(step, result.path)]
                if isinstance(result, BadVersion) and 0 < len(others) < len(batch):
                    # Another broker changed one of the nodes first: the other steps are still due.
                    self._write(term, kind, others)
                self._failed(result)
            else:
                self._rejected -= keys
                for step in batch:
                    if step.unclean is not None:
                        step.unclean.warn()
                self._progressed()

        operations: list[Operation] = [Check(znodes.CONTROLLER_EPOCH, term.version)]
        for step in batch:
            operations += step.operations
        self._store.multi(operations, answered, urgent=kind is not StepKind.CREATION)

    def _failed(self, error: StoreError) -> None:
        if isinstance(error, BadVersion) and error.path == znodes.CONTROLLER_EPOCH:
            logger.warning("another broker is controller now; resigning", node=self._node)
            self.start()
            return
        is_logged = isinstance(error, StoreUnavailable)  # by the store, once
        if not is_logged and not isinstance(error, (BadVersion, NodeExists, NoNode, NotEmpty)):
            logger.warning("a write of the controller failed; retrying", reason=str(error))
        # If the view was only stale, its next change runs the controller before this timer does.
        self._timer.after(RETRY_MS, self._progressed)


def _batches(steps: list[Step]) -> Iterator[list[Step]]:
    """Group the steps into multis within ZooKeeper's limits; a step is never divided."""
    batch: list[Step] = []
    size = count = 0
    for step in steps:
        more = size_of(step.operations)
        if batch and (size + more > MAX_BYTES or count + len(step.operations) > MAX_OPERATIONS):
            yield batch
            batch, size, count = [], 0, 0
        batch.append(step)
        size += more
        count += len(step.operations)
    if batch:
        yield batch


def _names(step: Step, path: str) -> bool:
    return any(operation.path == path for operation in step.operations)
