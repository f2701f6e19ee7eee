"""One broker's part in the cluster: its registration, its image, its turn at being controller.

`start` registers the broker; `on_image(old, new)` follows with every new image, the first time when
the broker is registered, a controller rules, and, where that is this broker, has nothing left to
do. `when` calls back once an image fulfils a condition. After a lost session all begins again.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sawlog.cluster import znodes
from sawlog.cluster.controller import RETRY_MS, Controller
from sawlog.cluster.image import EMPTY_IMAGE, NO_NODE, MetadataImage
from sawlog.cluster.view import View
from sawlog.cluster.watcher import Watcher
from sawlog.core.config import BrokerConfig
from sawlog.core.ids import NodeId, format_topic_id
from sawlog.core.log import EventLogger
from sawlog.core.ports import Clock, Random, Timer, TimerHandle
from sawlog.core.store import (
    Create,
    NodeExists,
    NodeStat,
    Result,
    SessionState,
    Store,
    StoreError,
    WatchEvent,
)

OnImage = Callable[[MetadataImage, MetadataImage], None]
Condition = Callable[[MetadataImage], bool]
log = EventLogger("sawlog.cluster.member")


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker tells of itself under `/brokers/ids`."""

    id: NodeId
    host: str
    port: int
    rack: str | None = None


@dataclass(slots=True, eq=False)
class _Waiter:
    condition: Condition
    done: Callable[[bool], None]
    timeout: TimerHandle | None = None


class Member:
    """`image` is the newest image that `on_image` was told."""

    def __init__(
        self,
        store: Store,
        registration: Registration,
        config: BrokerConfig,
        *,
        clock: Clock,
        timer: Timer,
        random: Random,
        on_image: OnImage,
    ) -> None:
        self.store = store
        self.image = EMPTY_IMAGE
        self._registration = registration
        self._clock = clock
        self._timer = timer
        self._random = random
        self._on_image = on_image
        self._view = View()
        self._watcher = Watcher(store, timer, self._view, self._view_changed)
        self._controller = Controller(store, registration.id, self._view, config, clock, timer)
        self._waiters: dict[_Waiter, None] = {}
        self._session_id = 0
        self._is_stopped = False

    @property
    def is_controller(self) -> bool:
        return self._controller.is_active

    def start(self) -> None:
        self.store.on_state(self._state_changed)
        if self.store.state is SessionState.CONNECTED:
            self._begin()

    def stop(self, done: Callable[[], None]) -> None:
        """Leaves the cluster: the registration goes, and with it any reign as controller."""
        self._is_stopped = True
        self._watcher.stop()
        self._controller.stop()
        for waiter in list(self._waiters):
            self._finish(waiter, fulfilled=False)
        self.store.close(done)

    def when(self, condition: Condition, timeout_ms: int, done: Callable[[bool], None]) -> None:
        """Calls `done(True)` with the first image that fulfils the condition, `done(False)` when
        the time is over; never from inside this call."""
        waiter = _Waiter(condition, done)
        self._waiters[waiter] = None
        is_fulfilled = condition(self.image)
        waiter.timeout = self._timer.after(
            0 if is_fulfilled else max(0, timeout_ms),
            lambda: self._finish(waiter, fulfilled=is_fulfilled),
        )

    # Images

    def _view_changed(self) -> None:
        self._controller.consider()
        if self.image is EMPTY_IMAGE and not self._is_ready():
            return
        old = self.image
        new = self._view.image(old)
        if new is old:
            return
        self.image = new
        self._on_image(old, new)
        for waiter in [w for w in self._waiters if w.condition(new)]:
            self._finish(waiter, fulfilled=True)

    def _is_ready(self) -> bool:
        view = self._view
        if self._registration.id not in view.brokers or view.controller_id == NO_NODE:
            return False
        return view.controller_id != self._registration.id or (
            self._controller.is_active and self._controller.is_idle
        )

    def _finish(self, waiter: _Waiter, *, fulfilled: bool) -> None:
        if self._waiters.pop(waiter, waiter) is None:
            assert waiter.timeout is not None
            waiter.timeout.cancel()
            waiter.done(fulfilled)

    # The session

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED and not self._is_stopped:
            self._begin()

    def _begin(self) -> None:
        """A new connection: ephemerals are there only if the session is the same as before."""
        is_new_session = self.store.session_id != self._session_id
        self._session_id = self.store.session_id
        if is_new_session:
            for path, data in znodes.PERSISTENT_PATHS:
                self._make(path, data)
            cluster_id = format_topic_id(self._random.bytes(16))
            self._make(znodes.CLUSTER_ID, znodes.encode_cluster_id(cluster_id))
            self._register()
        self._controller.start()
        self._watcher.start()

    def _make(self, path: str, data: bytes) -> None:
        def made(result: list[Result] | StoreError) -> None:
            if isinstance(result, StoreError) and not isinstance(result, NodeExists):
                log.warning("node not made", path=path, reason=str(result))

        self.store.multi([Create(path, data)], made)

    def _register(self) -> None:
        session_id = self._session_id
        registration = self._registration

        def registered(result: list[Result] | StoreError) -> None:
            if session_id != self._session_id or self._is_stopped:
                return
            if isinstance(result, NodeExists):
                log.warning("another broker has this id", node=registration.id)
                self._await_vacancy()
            elif isinstance(result, StoreError):
                log.warning("no registration", node=registration.id, reason=str(result))
                self._timer.after(RETRY_MS, self._register)

        data = znodes.encode_broker(
            registration.host, registration.port, registration.rack, self._clock.now_ms()
        )
        path = znodes.broker_path(registration.id)
        self.store.multi([Create(path, data, ephemeral=True)], registered)

    def _await_vacancy(self) -> None:
        """Until the session of the other one, or of this broker's earlier life, is over."""

        def told(_: WatchEvent) -> None:
            if not self._is_stopped:
                self._register()

        def found(stat: NodeStat | StoreError | None) -> None:
            if stat is None and not self._is_stopped:
                self._register()

        self.store.exists(znodes.broker_path(self._registration.id), found, told)
