"""One broker as a process: puts the machine, the disk, the store and the listener together.

The order of a start: take the ports, lock the directory, open the store, join the cluster, open the
logs with the first image, accept. A port that is in use thus leaves nothing on the disk. The order
of a stop: accept and read no more, answer what is under way, leave the cluster, close the logs,
write the marker.
"""

import asyncio
import contextlib
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sawlog.broker.broker import Broker
from sawlog.cluster.embedded import EmbeddedStore
from sawlog.cluster.image import MetadataImage
from sawlog.cluster.journal import JOURNAL_PREFIX, SNAPSHOT, is_store_file
from sawlog.cluster.member import Member, Registration
from sawlog.core.config import BrokerConfig
from sawlog.core.config_notices import Notice
from sawlog.core.ids import NodeId
from sawlog.core.log import EventLogger
from sawlog.core.metrics import Registry
from sawlog.core.ports import DiskError
from sawlog.core.store import SessionState
from sawlog.server import process
from sawlog.server.address import EVERY_INTERFACE, Address
from sawlog.server.clock import LoopTimer, SystemClock, SystemRandom
from sawlog.server.disk import RealDisk
from sawlog.server.limits import limits_from
from sawlog.server.listener import Listener
from sawlog.server.logging import set_up_logging
from sawlog.server.metrics import MetricsEndpoint
from sawlog.server.resources import Resources
from sawlog.storage.files import META_PROPERTIES, parse_partition_directory

log = EventLogger(__name__)

DRAIN_MS = 500
"""How long a stop waits for answers that are on their way to clients."""

STOPPED = 0
CANNOT_START = 1
FAILED = 4


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """What the command line asks for."""

    data: Path
    node_id: NodeId
    listen: Address
    advertise: Address | None
    metrics: Address | None
    config: BrokerConfig
    notices: tuple[Notice, ...]
    log_as_json: bool
    log_level: str


def run(options: BrokerOptions) -> int:
    """Runs a broker until it is told to stop; the exit code of the process."""
    set_up_logging(as_json=options.log_as_json, level=options.log_level)
    for notice in (*options.config.notices, *options.notices):
        log.warning(notice.words, setting=notice.setting)

    async def main(loop: asyncio.AbstractEventLoop) -> int:
        try:
            running = BrokerProcess(options, loop)
            await running.start()
        except DiskError as error:
            log.error("cannot start", reason=str(error), directory=str(options.data))
            return CANNOT_START
        except OSError as error:
            log.error("cannot start", reason=str(error))
            return CANNOT_START
        running.announce()
        return await running.until_stopped()

    return process.run(main)


def require_store(disk: RealDisk) -> None:
    """Refuses a directory that holds logs and has lost the store that says whose they are: a new
    store would take every one of them for a stray."""
    names = disk.list("")
    if not any(map(is_store_file, names)) and any(
        name == META_PROPERTIES or parse_partition_directory(name) is not None for name in names
    ):
        raise DiskError(
            disk.root,
            "there are logs, but the coordination store is missing "
            f"({JOURNAL_PREFIX}*, {SNAPSHOT}): put it back, or name another data directory",
        )


class BrokerProcess:
    """Everything that one running broker is made of."""

    def __init__(self, options: BrokerOptions, loop: asyncio.AbstractEventLoop) -> None:
        self._options = options
        self._loop = loop
        self._clock = SystemClock()
        self._timer = LoopTimer(loop)
        self._random = SystemRandom()
        self._registry = Registry()
        self._disk = RealDisk(str(options.data), loop.call_soon_threadsafe, loop=loop)
        self._ready: asyncio.Future[None] = loop.create_future()
        self._stop: asyncio.Future[int] = loop.create_future()
        self.broker = Broker(
            options.node_id,
            options.config,
            self._disk,
            clock=self._clock,
            timer=self._timer,
            random=self._random,
        )
        resources = Resources(
            loop, self.broker, limits_from(options.config), registry=self._registry
        )
        self.listener = Listener(resources, options.listen)
        self._metrics: MetricsEndpoint | None = None
        if options.metrics is not None:
            self._metrics = MetricsEndpoint(self._registry, self._timer, options.metrics)

    async def start(self) -> None:
        """Returns when clients can be served; DiskError, OSError where that cannot be."""
        options = self._options
        with _named(f"cannot listen on {options.listen} (--listen, or the setting listeners)"):
            self.listener.bind()
        if self._metrics is not None:
            with _named(f"cannot serve metrics on {options.metrics} (--metrics)"):
                self._metrics.bind()
        self._disk.lock()
        require_store(self._disk)
        store = EmbeddedStore(self._disk, self._timer)
        store.on_state(self._store_changed)
        member = Member(
            store,
            self._registration(),
            options.config,
            clock=self._clock,
            timer=self._timer,
            random=self._random,
            on_image=self._on_image,
        )
        self.broker.join(member)
        member.start()
        await self._ready
        if self._metrics is not None:
            self.broker.metrics.declare(self._registry)
            process.declare_process_metrics(self._registry)
            await self._metrics.open()
        self.listener.open()
        process.on_stop_signal(self._loop, self._told_to_stop)
        process.settle_memory()

    def announce(self) -> None:
        """The one line on standard output that says where clients find this broker; where that
        is closed, nobody wants to know.
        """
        seconds = process.seconds_since_start()
        partitions = len(self.broker.partitions)
        where = f", metrics on {self._metrics.address}" if self._metrics is not None else ""
        with contextlib.suppress(OSError):
            sys.stdout.write(
                f"sawlog broker {self._options.node_id} ready on {self.listener.address} "
                f"in {seconds:.2f} s ({partitions} partitions{where})\n"
            )
            sys.stdout.flush()

    async def until_stopped(self) -> int:
        code = await self._stop
        began = time.perf_counter()
        stopped: asyncio.Future[None] = self._loop.create_future()
        self.listener.quiesce()
        self.broker.stop(lambda: stopped.set_result(None))
        await self.listener.drain(DRAIN_MS)
        await stopped
        if self._metrics is not None:
            self._metrics.close()
        self._disk.close()
        log.info("stopped", seconds=round(time.perf_counter() - began, 3))
        return code

    def _told_to_stop(self) -> None:
        if not self._stop.done():
            self._stop.set_result(STOPPED)

    def _store_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST and not self._stop.done():
            log.error(
                "the coordination store failed: records are still served, but topics and settings "
                "cannot be changed until the disk is mended and the broker started again"
            )

    def _on_image(self, old: MetadataImage, new: MetadataImage) -> None:
        if self._ready.done():
            self.broker.apply(old, new)
            return
        failure: Exception | None = None
        try:
            self.broker.apply(old, new)
        except Exception as error:
            failure = error
        if self._ready.done():
            return  # cancelled: Ctrl-C came while the logs were opened
        if failure is not None:
            self._ready.set_exception(failure)
        else:
            self._ready.set_result(None)

    def _registration(self) -> Registration:
        options = self._options
        bound = self.listener.address
        told = options.advertise or bound
        host = told.host if told.host not in EVERY_INTERFACE else socket.gethostname()
        return Registration(
            options.node_id, host, told.port or bound.port, options.config["broker.rack"]
        )


@contextlib.contextmanager
def _named(what: str) -> Iterator[None]:
    """The system says why a socket cannot be had, not which."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{what}: {error.strerror or error}") from error
