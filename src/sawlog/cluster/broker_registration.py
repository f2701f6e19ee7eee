"""The registration of this broker: ephemeral nodes in `/brokers/ids` and `/brokers/registrations`.

The change number at which the first is created is the broker epoch; the second has a name of its
own (`znodes.registration_path`). A registration of an earlier process of this broker is replaced
(KAFKA-1029, KAFKA-7165) if that process has ended for certain, else it is waited out. A broker is
refused while another data directory has its id, or others have another `flush.policy`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sawlog.cluster import znodes
from sawlog.cluster.controller import RETRY_MS
from sawlog.cluster.metadata_image import BrokerImage
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import NodeId
from sawlog.core.ports import Clock, Timer
from sawlog.core.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    Node,
    NodeExists,
    NodeStat,
    NoNode,
    Operation,
    Result,
    SetData,
    Store,
    StoreError,
    StoreUnavailable,
    WatchEvent,
)

logger = EventLogger("sawlog.cluster.broker_registration")


EXPIRY_MS = 60_000
"""Longer than ZooKeeper keeps the session of a dead process by default: twenty ticks of 2 s."""


class RegistrationRefused(OSError):
    """The cluster does not accept this broker as it is configured."""


@dataclass(frozen=True, slots=True)
class Registration:
    """The broker's data under `/brokers/ids`; `BrokerImage` explains the fields."""

    id: NodeId
    host: str
    port: int
    rack: str | None = None
    directory_id: str = ""
    flush_policy: str = "commit"
    clean_stop: bool = True


class BrokerRegistration:
    """Invariant: there is at most one registration of this broker per session of the store.

    `begin` is called at every (re)connection, `seen` with every set of live brokers. `on_refused`
    is called once for each reason; the registration is attempted again until the reason is gone.
    """

    def __init__(
        self,
        store: Store,
        registration: Registration,
        clock: Clock,
        timer: Timer,
        on_refused: Callable[[RegistrationRefused], None],
    ) -> None:
        self._store = store
        self._registration = registration
        self._clock = clock
        self._timer = timer
        self._on_refused = on_refused
        self._path = znodes.broker_path(registration.id)
        self._connection = 0
        self._is_stopped = False
        self._session = 0  # in which the broker is registered
        self._withdrawn = 0  # registrations that this process deleted itself
        self._process_epoch = 0  # of the first registration that was seen
        self._is_shutting_down = False
        self._refused_for = ""

    @property
    def is_new_session(self) -> bool:
        return self._store.session_id != self._session

    def begin(self) -> None:
        """Register after a (re)connection. In the same session the registration still exists,
        unless it was being written when the connection was lost."""
        self._connection += 1
        if self.is_new_session:
            self._register(self._connection)

    def stop(self) -> None:
        self._is_stopped = True

    def seen(self, broker: BrokerImage, others: list[BrokerImage]) -> None:
        """The store shows this session's registration, beside those of other brokers. Of two
        brokers that registered at the same time with different policies, the later one leaves."""
        self._process_epoch = self._process_epoch or broker.epoch
        wrong = next((o for o in others if self._differs(o) and o.epoch < broker.epoch), None)
        if wrong is not None and not self.is_new_session and not self._is_stopped:
            self._session = 0
            deletes = [Delete(self._path), Delete(znodes.registration_path(self._name()))]
            self._store.multi(deletes, lambda _: None)
            self._withdrawn += 1
            self._refuse(self._policy_reason(wrong), self._connection)

    def announce_shutdown(self, done: Callable[[bool], None]) -> None:
        """Tell the controller to move leaders away; `done(False)` if the store does not know it."""
        self._is_shutting_down = True

        def written(result: list[Result] | StoreError) -> None:
            done(not isinstance(result, StoreError))

        self._store.multi([SetData(self._path, self._data())], written)

    # Registering

    def _is_obsolete(self, connection: int) -> bool:
        return connection != self._connection or self._is_stopped

    def _register(self, connection: int) -> None:
        """Read the other registrations, and create the own one if they agree with it."""
        found: list[BrokerImage] = []
        left: list[NodeId] = []

        def listed(names: list[str] | StoreError) -> None:
            if self._is_obsolete(connection) or isinstance(names, StoreError):
                return
            left.extend(NodeId(int(n)) for n in names if int(n) != self._registration.id)
            read_next()

        def read_next() -> None:
            if left:
                self._store.get(znodes.broker_path(left[-1]), got)
                return
            wrong = next((broker for broker in found if self._differs(broker)), None)
            if wrong is not None:
                self._refuse(self._policy_reason(wrong), connection)
            else:
                self._create(connection)

        def got(node: Node | StoreError) -> None:
            if self._is_obsolete(connection):
                return
            other = left.pop()
            if isinstance(node, Node):
                found.append(znodes.decode_broker(other, node))
            elif not isinstance(node, NoNode):
                return  # the connection is lost
            read_next()

        if not self._is_obsolete(connection):
            self._store.children(znodes.BROKER_IDS, listed)

    def _name(self) -> str:
        """The name of the registration in this session: it stays the same when a create is
        repeated of which it is not known whether it happened."""
        return f"{self._registration.id}-{self._store.session_id:x}-{self._withdrawn}"

    def _data(self) -> bytes:
        own = self._registration
        broker = BrokerImage(
            own.id,
            own.host,
            own.port,
            own.rack,
            0,
            own.directory_id,
            own.flush_policy,
            own.clean_stop,
            self._process_epoch,
            self._is_shutting_down,
            self._name(),
        )
        return znodes.encode_broker(broker, self._clock.now_ms())

    def _creates(self) -> list[Operation]:
        return [
            Create(self._path, self._data(), ephemeral=True),
            Create(znodes.registration_path(self._name()), ephemeral=True),
        ]

    def _create(self, connection: int) -> None:
        def registered(result: list[Result] | StoreError) -> None:
            if self._is_obsolete(connection):
                return
            if isinstance(result, NodeExists):
                self._await_expiry(connection)
            elif isinstance(result, StoreUnavailable):
                logger.warning(
                    "cannot register the broker; retrying",
                    node=self._registration.id,
                    reason=str(result),
                )
                self._retry(connection)
            elif not isinstance(result, StoreError):
                self._registered()

        self._store.multi(self._creates(), registered)

    def _registered(self) -> None:
        self._session = self._store.session_id
        self._refused_for = ""

    def _retry(self, connection: int) -> None:
        self._timer.after(RETRY_MS, lambda: self._register(connection))

    def _await_expiry(self, connection: int) -> None:
        """Register when the session that owns this broker id ends: that of an earlier process on
        the same data directory. Another directory with the same id is refused."""

        def watched(_: WatchEvent) -> None:
            self._register(connection)

        def found(node: Node | StoreError) -> None:
            if self._is_obsolete(connection):
                return
            if isinstance(node, NoNode):
                self._register(connection)
            elif isinstance(node, Node):
                if node.stat.owner == self._store.session_id:
                    self._registered()  # created just before the connection was lost
                    return
                other = znodes.decode_broker(self._registration.id, node)
                if other.directory_id != self._registration.directory_id:
                    self._refuse(self._id_reason(other), connection)
                    return
                if self._is_own(other):
                    self._take_over(node, connection)
                    return
                self._await_end(other, connection)

        self._store.get(self._path, found, watched)

    def _await_end(self, other: BrokerImage, connection: int) -> None:
        """Wait for the end of another process's session. If it lasts longer than any session of a
        dead process, the process is alive, on a copy of the data directory."""
        logger.warning(
            "this broker id is registered by an earlier process; waiting until its session ends",
            node=self._registration.id,
            registered=f"{other.host}:{other.port}",
        )

        def check() -> None:
            if not self._is_obsolete(connection) and self.is_new_session:
                self._store.get(self._path, found)

        def found(node: Node | StoreError) -> None:
            if isinstance(node, Node) and node.stat.created == other.epoch:
                self._refuse(self._alive_reason(other), connection)

        self._timer.after(EXPIRY_MS, check)

    def _is_own(self, other: BrokerImage) -> bool:
        """Whether the process that registered has ended for certain: this one has the lock on its
        data directory and listens at its address. A copied directory on another machine has the
        same id, and another address."""
        own = self._registration
        return bool(own.directory_id) and (other.directory_id, other.host, other.port) == (
            own.directory_id,
            own.host,
            own.port,
        )

    def _take_over(self, old: Node, connection: int) -> None:
        """Replace the registration of an ended process, and end its term as controller, before its
        session does. An election since the reading changes the controller epoch's version."""
        operations: list[Operation] = []
        old_name = znodes.decode_broker(self._registration.id, old).registration

        def read_epoch(node: Node | StoreError) -> None:
            if not self._is_obsolete(connection) and isinstance(node, Node):
                operations.append(Check(znodes.CONTROLLER_EPOCH, node.stat.version))
                self._store.exists(znodes.CONTROLLER, read_controller)

        def read_controller(stat: NodeStat | StoreError | None) -> None:
            if self._is_obsolete(connection) or isinstance(stat, StoreError):
                return
            if stat is not None and stat.owner == old.stat.owner:
                operations.append(Delete(znodes.CONTROLLER))
            if old_name:
                self._store.exists(znodes.registration_path(old_name), read_registration)
            else:
                read_registration(None)

        def read_registration(stat: NodeStat | StoreError | None) -> None:
            if self._is_obsolete(connection) or isinstance(stat, StoreError):
                return
            operations.append(Delete(self._path, old.stat.version))
            if stat is not None:
                operations.append(Delete(znodes.registration_path(old_name)))
            operations.extend(self._creates())
            self._store.multi(operations, written)

        def written(result: list[Result] | StoreError) -> None:
            if self._is_obsolete(connection):
                return
            if isinstance(result, BadVersion | NoNode | NodeExists):
                self._register(connection)
            elif isinstance(result, StoreUnavailable):
                self._retry(connection)
            elif not isinstance(result, StoreError):
                logger.info(
                    "replaced the registration of an ended process", node=self._registration.id
                )
                self._registered()

        self._store.get(znodes.CONTROLLER_EPOCH, read_epoch)

    # Refusals

    def _differs(self, other: BrokerImage) -> bool:
        return other.flush_policy != self._registration.flush_policy

    def _policy_reason(self, other: BrokerImage) -> str:
        return (
            f"this broker has flush.policy={self._registration.flush_policy}, but broker {other.id}"
            f" of the cluster has flush.policy={other.flush_policy}: all brokers need the same"
        )

    def _id_reason(self, other: BrokerImage) -> str:
        return (
            f"broker {other.id} is registered already, at {other.host}:{other.port} and with"
            f" another data directory ({other.directory_id}): choose another --node-id, or stop"
            " that broker and wait until its session ends"
        )

    def _alive_reason(self, other: BrokerImage) -> str:
        return (
            f"broker {other.id} is registered already, at {other.host}:{other.port} and with the"
            f" same data directory id ({other.directory_id}), for more than {EXPIRY_MS // 1000} s:"
            " stop that broker; or, if this data directory is a copy, use an empty one and another"
            " --node-id"
        )

    def _refuse(self, reason: str, connection: int) -> None:
        self._retry(connection)
        if reason != self._refused_for:
            self._refused_for = reason
            self._on_refused(RegistrationRefused(reason))
