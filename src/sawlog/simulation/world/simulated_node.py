"""One machine of a simulated cluster: a disk, a clock, and one broker process after the other.

The broker is the real one, built by `assemble`. The machine boots it, kills it, pauses it, cuts its
power, and empties its disk, as the faults of a simulation ask for.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from sawlog.broker.assembly import Ports, assemble
from sawlog.broker.broker import Broker
from sawlog.cluster.broker_registration import Registration
from sawlog.cluster.metadata_image import InSyncMember
from sawlog.cluster.znodes import broker_path
from sawlog.core.config import BrokerConfig
from sawlog.core.ids import NodeId
from sawlog.core.store import SessionState
from sawlog.simulation.schedule import SeededRandom
from sawlog.simulation.simulated_disk import SimulatedDisk
from sawlog.simulation.stepped_cleaner import SteppedCleaner
from sawlog.simulation.world.process import Process, ProcessClock

if TYPE_CHECKING:
    from sawlog.core.store import Store
    from sawlog.simulation.simulated_store import SimulatedStore
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster

PORT = 9092
MAX_DISK_DELAY_MS = 2
RESTART_MS = 1_000
"""Delay before a broker that could not start is started again, as by a supervisor."""


class SimulatedNode:
    """Invariant: `broker`, `process` and `store` are those of the running process, None without."""

    def __init__(
        self, cluster: "SimulatedCluster", node_id: NodeId, settings: dict[str, str], seed: int
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self.id = node_id
        self.host = f"broker-{node_id}"
        self.random = SeededRandom(seed)
        self.clock = ProcessClock(cluster.schedule)
        self.disk = SimulatedDisk(self._defer)
        self.lives = 0
        self._lost_epoch = -1
        """The newest broker epoch at the last power loss."""
        self.broker: Broker | None = None
        self.process: Process | None = None
        self.store: SimulatedStore | None = None
        self.is_stopping = False
        self._is_listening = False

    @property
    def is_running(self) -> bool:
        return self.process is not None

    @property
    def is_serving(self) -> bool:
        """Whether the broker has its first image and the process is not paused."""
        return self._is_listening and self.process is not None and not self.process.is_paused

    @property
    def is_connected(self) -> bool:
        """Whether the broker serves and its store session is connected."""
        store = self.store
        return self.is_serving and store is not None and store.state is SessionState.CONNECTED

    @property
    def directory_id(self) -> str:
        """The id of the data directory of the running process; empty without one."""
        return "" if self.broker is None else self.broker.components.directory.directory_id

    def has_log_of(self, member: InSyncMember) -> bool:
        """Whether the running broker must have everything that it had as this member of an in-sync
        set: it has the same directory, and with `flush.policy=os` no power loss came between."""
        return self.directory_id == member.directory_id and (
            self._cluster.commits_on_flush or member.broker_epoch > self._lost_epoch
        )

    @property
    def is_offline(self) -> bool:
        """Whether a failed fsync took the log directory of the running process offline."""
        return self.broker is not None and self.broker.components.directory.offline is not None

    # The life of the process

    def boot(self) -> None:
        """Start a broker on the present disk; it listens once it has applied its first image."""
        assert self.process is None
        cluster = self._cluster
        self.lives += 1
        cluster.trace.note(f"broker {self.id} starts")
        process = self.process = Process(cluster.schedule, partial(cluster.touched.add, self.id))
        self.store = cluster.service.connect(process)
        self.broker = self._assemble(process, self.store)
        self.broker.start()

    def _assemble(self, process: Process, store: "Store") -> Broker:
        ports = Ports(
            self.clock,
            process,
            self.random,
            self.disk,
            store,
            peers=self._cluster.network.peers(self.host, process),
            start_cleaner=lambda _: SteppedCleaner(self.disk, process),
        )
        registration = Registration(self.id, self.host, PORT, None)
        applied = partial(self._image_applied, process)
        return assemble(ports, BrokerConfig(self._settings), registration, applied)

    def kill(self) -> None:
        """kill -9: the process is gone; the page cache survives."""
        self._cluster.trace.note(f"broker {self.id} is killed")
        self._end_process()
        self.disk.kill()

    def lose_power(self) -> None:
        """Crash the machine; the disk keeps what was synced, and perhaps more."""
        self._cluster.trace.note(f"broker {self.id} loses power")
        stat = self._cluster.service.tree.exists(broker_path(self.id))
        if stat is not None:
            self._lost_epoch = stat.created
        self._end_process(silently=True)
        self.disk.power_loss(self.random)

    def wipe(self) -> None:
        """Replace the disk by an empty one, while no process uses it."""
        assert self.process is None
        self._cluster.trace.note(f"broker {self.id} gets an empty disk")
        self.disk = SimulatedDisk(self._defer)

    def stop(self) -> None:
        """Stop the broker cleanly, as SIGTERM does; the process ends by itself."""
        assert self.broker is not None
        assert self.process is not None
        self._cluster.trace.note(f"broker {self.id} is stopped cleanly")
        process = self.process
        self.is_stopping = True
        process.run(partial(self.broker.stop, partial(self._stopped, process)))

    def pause(self) -> None:
        """SIGSTOP: no code of the process runs, and its store session gets no pings."""
        assert self.process is not None
        assert self.store is not None
        self._cluster.trace.note(f"broker {self.id} is paused")
        self.process.pause()
        self.store.fall_silent()

    def resume(self) -> None:
        """SIGCONT."""
        assert self.process is not None
        assert self.store is not None
        self._cluster.trace.note(f"broker {self.id} is resumed")
        self.process.resume()
        self.store.be_heard()

    def jump_clock(self, offset_ms: int) -> None:
        """Set how far the wall clock of the machine is off; monotonic time is not affected."""
        self._cluster.trace.note(f"broker {self.id} has its clock off by {offset_ms} ms")
        self.clock.offset_ms = offset_ms

    def _end_process(self, *, silently: bool = False) -> None:
        assert self.process is not None
        assert self.store is not None
        if self._cluster.on_end is not None:
            self._cluster.on_end(self)
        self.process.close()
        self.store.crash()
        self.process = self.broker = self.store = None
        self._is_listening = self.is_stopping = False
        self._cluster.network.crash(self.host, silently=silently)
        self._cluster.touched.add(self.id)

    def _stopped(self, process: Process) -> None:
        if process is self.process:
            self._cluster.trace.note(f"broker {self.id} has stopped")
            self._end_process()
            self.disk.kill()

    def _image_applied(self, process: Process, error: Exception | None) -> None:
        if process is not self.process or self._is_listening:
            return
        if error is None:
            self._is_listening = True
            assert self.broker is not None
            self._cluster.network.listen(self.host, PORT, self.broker, process)
            self._cluster.trace.note(f"broker {self.id} serves")
            return
        self._cluster.trace.note(f"broker {self.id} cannot start: {error!r}")
        self._cluster.schedule.soon(partial(self._give_up, process))

    def _give_up(self, process: Process) -> None:
        if process is self.process:
            self.kill()
            self._cluster.schedule.after(RESTART_MS, self._restart)

    def _restart(self) -> None:
        if self.process is None:
            self.boot()

    def _defer(self, action: Callable[[], None]) -> None:
        """Let an operation of the disk take its time, in the process that asked for it."""
        if self.process is not None:
            self.process.after(self.random.below(MAX_DISK_DELAY_MS + 1), action)
