"""The controller: the broker that created `/controller`. It elects leaders; nothing else is its.

Election is one multi that creates `/controller` and raises `/controller_epoch`; each of its writes
is a multi that checks this epoch, so that nothing of a deposed controller lands. It works from the
view: whatever the view shows undone (a partition without a state or without a leader, a topic to
delete) becomes a write, and when the view shows it done nothing is left to do.
"""

from collections.abc import Callable
from typing import NamedTuple

from sawlog.cluster import znodes
from sawlog.cluster.leader_election import Step, StepKey, StepKind, steps
from sawlog.cluster.store_view import View
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

MAX_OPERATIONS = 1500
"""In one multi, so that it stays far below what ZooKeeper takes in one request (1 MiB)."""
RETRY_MS = 1000
logger = EventLogger("sawlog.cluster.controller")


class ControllerTerm(NamedTuple):
    """One time of being controller."""

    epoch: int
    version: int  # of the node that holds the epoch


class Controller:
    """Knows only the store and the view. `moved` is called when a reign begins and
    when work is done."""

    def __init__(
        self,
        store: Store,
        node: NodeId,
        view: View,
        config: BrokerConfig,
        clock: Clock,
        timer: Timer,
        moved: Callable[[], None],
    ) -> None:
        self._store = store
        self._node = node
        self._view = view
        self._config = config
        self._clock = clock
        self._timer = timer
        self._moved = moved
        self._generation = 0
        self._reign: ControllerTerm | None = None
        self._sent: set[StepKey] = set()
        self._refused: set[StepKey] = set()  # for lack of room, at the last try

    @property
    def is_active(self) -> bool:
        return self._reign is not None

    @property
    def is_idle(self) -> bool:
        """Nothing is to be done, and the view shows all that was, but for what has no room."""
        is_open = any(step.key not in self._refused for step in self._open_steps())
        return not is_open and self._sent <= self._refused

    def start(self) -> None:
        """Stands for election, now and whenever there is no controller; also after a lost session,
        which ends any reign."""
        self._generation += 1
        self._reign = None
        self._sent = set()
        self._refused = set()
        self._look()

    def stop(self) -> None:
        self._generation += 1
        self._reign = None

    # Election

    def _look(self) -> None:
        generation = self._generation

        def told(_: WatchEvent) -> None:
            if generation == self._generation:
                self.start()

        def found(stat: NodeStat | StoreError | None) -> None:
            if generation != self._generation:
                return
            if isinstance(stat, StoreError):
                logger.warning("no look at the controller", reason=str(stat))
            elif stat is None:
                self._store.get(znodes.CONTROLLER_EPOCH, stand)
            elif stat.owner == self._store.session_id:
                # A connection broke and came back, and the session outlived it.
                self._store.get(znodes.CONTROLLER_EPOCH, go_on)

        def stand(node: Node | StoreError) -> None:
            if generation == self._generation and isinstance(node, Node):
                self._stand(int(node.data) + 1, node.stat.version)

        def go_on(node: Node | StoreError) -> None:
            if generation == self._generation and isinstance(node, Node):
                self._rule(ControllerTerm(int(node.data), node.stat.version))

        self._store.exists(znodes.CONTROLLER, found, told)

    def _stand(self, epoch: int, version: int) -> None:
        generation = self._generation

        def answered(result: list[Result] | StoreError) -> None:
            if generation != self._generation:
                return
            if not isinstance(result, StoreError):
                logger.info("elected controller", node=self._node, epoch=epoch)
                self._rule(ControllerTerm(epoch, version + 1))
            elif not isinstance(result, (NodeExists, BadVersion)):
                logger.warning("election of the controller failed", reason=str(result))
                self._timer.after(RETRY_MS, self._again(generation))

        record = znodes.encode_controller(self._node, self._clock.now_ms())
        self._store.multi(
            [
                SetData(znodes.CONTROLLER_EPOCH, str(epoch).encode(), version),
                Create(znodes.CONTROLLER, record, ephemeral=True),
            ],
            answered,
            urgent=True,
        )

    def _rule(self, reign: ControllerTerm) -> None:
        self._reign = reign
        self._view.mark_all_changed()
        self._moved()

    def _again(self, generation: int) -> Callable[[], None]:
        def again() -> None:
            if generation == self._generation:
                self.start()

        return again

    # Work

    def _open_steps(self) -> list[Step]:
        reign = self._reign
        if reign is None or not self._view.is_loaded:
            return []
        found = steps(self._view, self._config, reign.epoch, self._sent)
        # What the view no longer asks for is done, or was overtaken.
        self._sent &= {step.key for step in found}
        return [step for step in found if step.key not in self._sent]

    def consider(self) -> None:
        """Looks at the view, and writes what is to be done."""
        reign = self._reign
        if reign is None:
            return
        by_kind: dict[StepKind, list[Step]] = {kind: [] for kind in StepKind}
        for step in self._open_steps():
            by_kind[step.kind].append(step)
        for kind, todo in by_kind.items():
            batch: list[Step] = []
            size = 0
            for step in todo:
                if batch and size + len(step.operations) > MAX_OPERATIONS:
                    self._write(reign, kind, batch)
                    batch, size = [], 0
                batch.append(step)
                size += len(step.operations)
            if batch:
                self._write(reign, kind, batch)

    def _write(self, reign: ControllerTerm, kind: StepKind, batch: list[Step]) -> None:
        """Of one kind, because each may land where the others have no room."""
        generation = self._generation
        keys = {step.key for step in batch}
        self._sent |= keys

        def answered(result: list[Result] | StoreError) -> None:
            if generation != self._generation:
                return
            if isinstance(result, StoreError):
                self._sent -= keys
                if isinstance(result, StoreUnavailable):
                    self._refused |= keys
                self._failed(result)
            else:
                self._refused -= keys
                self._moved()

        operations: list[Operation] = [Check(znodes.CONTROLLER_EPOCH, reign.version)]
        for step in batch:
            operations += step.operations
        self._store.multi(operations, answered, urgent=kind is not StepKind.CREATION)

    def _failed(self, error: StoreError) -> None:
        if isinstance(error, BadVersion) and error.path == znodes.CONTROLLER_EPOCH:
            logger.warning("another controller rules: standing down", node=self._node)
            self.start()
            return
        is_known = isinstance(error, StoreUnavailable)  # the store itself told why, once
        if not is_known and not isinstance(error, (BadVersion, NodeExists, NoNode, NotEmpty)):
            logger.warning("a write of the controller failed", reason=str(error))
        # Where the view was only behind, its next change brings the controller back before this.
        self._timer.after(RETRY_MS, self._moved)
