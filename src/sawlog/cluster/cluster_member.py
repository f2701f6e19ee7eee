"""A broker as a member of the cluster: its registration, its metadata image, its controller role.

`start` registers the broker and makes it a candidate for controller. `on_image(old, new)` is called
with every new image. The first one comes when the broker is registered and a controller is elected;
if that is this broker, when it has elected all leaders. After a lost session all of this is
repeated; in between, the image does not show this broker as a leader.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sawlog.cluster import znodes
from sawlog.cluster.broker_registration import (
    BrokerRegistration,
    Registration,
    RegistrationRefused,
)
from sawlog.cluster.callbacks import guarded
from sawlog.cluster.controller import Controller
from sawlog.cluster.metadata_image import EMPTY_IMAGE, NO_NODE, MetadataImage
from sawlog.cluster.store_view import StoreView
from sawlog.cluster.store_watcher import StoreWatcher
from sawlog.core.config import BrokerConfig
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import format_topic_id
from sawlog.core.ports import Clock, Random, Timer, TimerHandle
from sawlog.core.store import (
    ConnectionLost,
    Create,
    NodeExists,
    Result,
    SessionLost,
    SessionState,
    Store,
    StoreError,
)

OnImage = Callable[[MetadataImage, MetadataImage], None]
OnRefused = Callable[[RegistrationRefused], None]
Condition = Callable[[MetadataImage], bool]
logger = EventLogger("sawlog.cluster.cluster_member")


@dataclass(slots=True, eq=False)
class _Waiter:
    condition: Condition
    done: Callable[[bool], None]
    timeout: TimerHandle | None = None


class ClusterMember:
    """`image` is the image that `on_image` was called with last."""

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
        on_refused: OnRefused = lambda _: None,
    ) -> None:
        self.store = store
        self.image = EMPTY_IMAGE
        self.node_id = registration.id
        self.directory_id = registration.directory_id
        self._registration = BrokerRegistration(store, registration, clock, timer, on_refused)
        self.clock = clock
        self._timer = timer
        self._random = random
        self._on_image = on_image
        self._view = StoreView()
        self._watcher = StoreWatcher(store, timer, self._view, self._view_changed)
        self._controller = Controller(
            store, registration.id, self._view, config, clock, timer, self._view_changed
        )
        self._waiters: dict[_Waiter, None] = {}
        self._is_stopped = False

    @property
    def is_controller(self) -> bool:
        return self._controller.is_active

    def start(self) -> None:
        self.store.on_state(self._state_changed)
        if self.store.state is SessionState.CONNECTED:
            self._begin()

    def stop(self, done: Callable[[], None]) -> None:
        """Leave the cluster: delete the registration and resign as controller."""
        self._is_stopped = True
        self._registration.stop()
        self._watcher.stop()
        self._controller.stop()
        for waiter in list(self._waiters):
            self._finish(waiter, fulfilled=False)
        self.store.close(done)

    def announce_shutdown(self, done: Callable[[bool], None]) -> None:
        """Mark the registration: the controller moves leaders away and elects this broker no
        more. `done(False)` if the store does not know it."""
        self._registration.announce_shutdown(done)

    @property
    def view(self) -> StoreView:
        """The copy of the store from which images are built; only to be read."""
        return self._view

    @property
    def broker_epoch(self) -> int:
        """The epoch of this process's registration in the present session; -1 if there is none."""
        return self._view.brokers[self.node_id].epoch if self._is_registered() else -1

    def when(self, condition: Condition, timeout_ms: int, done: Callable[[bool], None]) -> None:
        """Call `done(True)` with the first image that meets the condition, or `done(False)` after
        the timeout; never from inside this call."""
        waiter = _Waiter(condition, done)
        self._waiters[waiter] = None
        is_fulfilled = condition(self.image)
        waiter.timeout = self._timer.after(
            0 if is_fulfilled else max(0, timeout_ms),
            lambda: self._finish(waiter, fulfilled=is_fulfilled),
        )

    def reconsider_elections(self) -> None:
        """Let the controller examine all partitions again: a setting of elections has changed."""
        self._view.mark_all_changed()
        self._timer.after(0, self._view_changed)

    # Images

    def _view_changed(self) -> None:
        """The view changed, or this broker's controller made progress."""
        if self._is_stopped or not self._view.is_loaded:
            return
        if self._is_registered():
            brokers = self._view.brokers
            others = [broker for node, broker in brokers.items() if node != self.node_id]
            self._registration.seen(brokers[self.node_id], others)
        self._controller.run()
        if self.image is EMPTY_IMAGE and not self._is_ready():
            return
        if self.node_id in self._view.brokers and not self._is_registered():
            return  # the registration of a session that was lost: it would show its leaders
        self._publish(self._view.image(self.image))

    def _publish(self, new: MetadataImage) -> None:
        old = self.image
        if new is old:
            return
        self.image = new
        guarded(self._on_image, old, new)
        for waiter in [w for w in self._waiters if guarded(w.condition, new)]:
            self._finish(waiter, fulfilled=True)

    def _is_registered(self) -> bool:
        """Whether the view shows the registration of this process, not of an earlier one."""
        view, own_id = self._view, self.node_id
        return (
            own_id in view.brokers
            and view.sessions[own_id] == self.store.session_id
            and self.store.state is not SessionState.LOST
        )

    def _is_ready(self) -> bool:
        view, own_id = self._view, self.node_id
        if not self._is_registered():
            return False
        if view.controller_id == NO_NODE:
            return False
        return view.controller_id != own_id or (
            self._controller.is_active and self._controller.is_idle
        )

    def _finish(self, waiter: _Waiter, *, fulfilled: bool) -> None:
        if self._waiters.pop(waiter, waiter) is None:
            assert waiter.timeout is not None
            waiter.timeout.cancel()
            guarded(waiter.done, fulfilled)

    # The session

    def _state_changed(self, state: SessionState) -> None:
        if self._is_stopped:
            return
        if state is SessionState.CONNECTED:
            self._begin()
        elif state is SessionState.LOST and self.store.may_have_expired():
            self._end_session()

    def _end_session(self) -> None:
        """The registration is gone, and other brokers may lead in place of this one: its image does
        not show it as a leader any more, even if the view is not loaded at this moment."""
        self._controller.stop()
        self._view.keep_brokers([node for node in self._view.brokers if node != self.node_id])
        if self.image is not EMPTY_IMAGE:
            self._publish(self.image.without_leader(self.node_id))

    def _begin(self) -> None:
        """Start after a (re)connection."""
        if self._registration.is_new_session:
            for path, data in znodes.PERSISTENT_PATHS:
                self._create_node(path, data)
            cluster_id = format_topic_id(self._random.bytes(16))
            self._create_node(znodes.CLUSTER_ID, znodes.encode_cluster_id(cluster_id))
        self._registration.begin()
        self._controller.start()
        self._watcher.start()

    def _create_node(self, path: str, data: bytes) -> None:
        def created(result: list[Result] | StoreError) -> None:
            # After a lost connection, all of this is repeated.
            if isinstance(result, StoreError) and not isinstance(
                result, NodeExists | ConnectionLost | SessionLost
            ):
                logger.warning("cannot create a node in the store", path=path, reason=str(result))

        self.store.multi([Create(path, data)], created)
