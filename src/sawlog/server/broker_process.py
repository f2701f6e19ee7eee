"""One broker as a process: sockets, disk, store, broker and listener.

Start: bind the sockets, lock the data directory, open the store, join the cluster, open the logs
with the first image, accept connections. A port that is in use thus leaves nothing on the disk.
Stop: let other brokers lead, stop reading, answer parked requests, leave the cluster, close the
logs, write the clean-shutdown marker.
"""

import asyncio
import contextlib
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sawlog import __version__
from sawlog.broker.assembly import Ports, assemble
from sawlog.cluster.broker_registration import Registration, RegistrationRefused
from sawlog.core.config import BrokerConfig
from sawlog.core.config_warnings import Notice
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import NodeId
from sawlog.core.metrics import Registry
from sawlog.core.ports import DiskError
from sawlog.server import process
from sawlog.server.address import ALL_INTERFACES, Address, bound_address, listen
from sawlog.server.cleaner_process import CleanerProcess
from sawlog.server.clock import LoopTimer, SystemClock, SystemRandom
from sawlog.server.connection_limits import limits_from
from sawlog.server.connection_resources import ConnectionResources
from sawlog.server.coordination import (
    NO_ZOOKEEPER,
    Coordination,
    ZooKeeperOptions,
    ZooKeeperUnreachable,
)
from sawlog.server.disk import RealDisk
from sawlog.server.listener import Listener
from sawlog.server.log_format import json_line, set_up_logging
from sawlog.server.metrics_endpoint import MetricsEndpoint
from sawlog.server.peers import SocketPeers
from sawlog.server.preload import preload
from sawlog.server.ready_line import ReadyLine

logger = EventLogger(__name__)

DRAIN_MS = 500
"""How long a stop waits until responses are sent."""

STOPPED = 0
CANNOT_START = 1


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """The options of `sawlog broker`."""

    data: Path
    node_id: NodeId
    listen: Address
    advertise: Address | None
    metrics: Address | None
    zookeeper: ZooKeeperOptions | None
    config: BrokerConfig
    notices: tuple[Notice, ...]
    log_as_json: bool
    log_level: str


def run(options: BrokerOptions) -> int:
    """Run a broker until a stop signal; return the exit code of the process."""
    set_up_logging(as_json=options.log_as_json, level=options.log_level)
    for notice in (*options.config.notices, *options.notices):
        logger.warning(notice.message, setting=notice.setting)

    async def main(loop: asyncio.AbstractEventLoop) -> int:
        try:
            broker = BrokerProcess(options, loop)
            await broker.start_or_leave()
        except DiskError as error:
            logger.error("cannot start", reason=str(error), directory=str(options.data))
            return CANNOT_START
        except OSError as error:
            logger.error("cannot start", reason=str(error))
            return NO_ZOOKEEPER if isinstance(error, ZooKeeperUnreachable) else CANNOT_START
        broker.announce()
        return await broker.until_stopped()

    return process.run(main)


class BrokerProcess:
    """One broker process with its resources.

    The constructor binds the sockets and opens data directory and store; OSError or DiskError if
    one of them is not available.
    """

    def __init__(self, options: BrokerOptions, loop: asyncio.AbstractEventLoop) -> None:
        self._options = options
        self._loop = loop
        timer = self._timer = LoopTimer(loop)
        self._registry = Registry()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._stop: asyncio.Future[int] = loop.create_future()
        limits = limits_from(options.config)
        with _error_context(
            f"cannot listen on {options.listen} (--listen, or the setting listeners)"
        ):
            sockets = listen(options.listen, limits.backlog, limits.receive_buffer_bytes)
        self._metrics: MetricsEndpoint | None = None
        if options.metrics is not None:
            self._metrics = MetricsEndpoint(self._registry, timer, options.metrics)
            with _error_context(f"cannot serve metrics on {options.metrics} (--metrics)"):
                self._metrics.bind()
        self._disk = RealDisk(str(options.data), loop.call_soon_threadsafe, loop=loop)
        bound = bound_address(options.listen, sockets)
        self.advertised = _advertised(options.advertise or bound, bound.port)
        self._disk.lock()
        self._coordination = Coordination(self._disk, timer, loop, options.zookeeper)
        config = options.config.started_with(
            {
                **_zookeeper_settings(options.zookeeper),
                "broker.id": str(options.node_id),
                "log.dirs": self._disk.root,
                "listeners": f"PLAINTEXT://{bound}",
                "advertised.listeners": f"PLAINTEXT://{self.advertised}",
            }
        )
        self.broker = assemble(
            Ports(
                SystemClock(),
                timer,
                SystemRandom(),
                self._disk,
                self._coordination.store,
                SocketPeers(loop, timer, client_id=f"broker-{options.node_id}"),
                start_cleaner=partial(CleanerProcess, loop, timer, self._disk.root),
            ),
            config,
            Registration(options.node_id, *self.advertised, rack=config["broker.rack"]),
            self._image_applied,
        )
        resources = ConnectionResources(loop, self.broker, limits, registry=self._registry)
        self.listener = Listener(resources, bound, sockets)
        settings = self.broker.components.config
        settings.subscribe(
            ("max.connections", "max.connections.per.ip"),
            lambda: resources.quota.set_limits(limits_from(settings)),
        )

    async def start_or_leave(self) -> None:
        """Start, and leave the cluster again if that fails."""
        try:
            await self.start()
        except (DiskError, OSError):
            left: asyncio.Future[None] = self._loop.create_future()
            self.broker.components.member.stop(lambda: left.set_result(None))
            await left  # so that the next start need not wait until the session expires
            raise

    async def start(self) -> None:
        """Return when clients can be served; DiskError if the logs cannot be opened, OSError if the
        coordination store is not available."""
        await self._coordination.ready(self._options.node_id)
        self.broker.start()
        await self._ready
        if self._metrics is not None:
            self.broker.declare_metrics(self._registry)
            process.declare_process_metrics(self._registry)
            process.declare_file_system_metrics(self._registry, self._disk)
            await self._metrics.open()
        self.listener.open()
        process.on_stop_signal(self._loop, self._stop_signalled)
        process.freeze_garbage_collector()
        if self._options.zookeeper is not None:
            preload(self._timer)

    def announce(self) -> None:
        """Write the ready line with the address to standard output.

        It is a sentence, or a JSON object if the log is JSON. A closed standard output is ignored.
        """
        if self.listener.address.host in ALL_INTERFACES:
            logger.warning(
                "this broker listens on all interfaces without authentication: any client can read,"
                " write and delete; listen on 127.0.0.1 to restrict it to this machine",
                listen=str(self.listener.address),
                advertised=str(self.advertised),
            )
        ready = self._ready_line()
        line = json_line("ready", ready.fields()) if self._options.log_as_json else str(ready)
        with contextlib.suppress(OSError):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    def _ready_line(self) -> ReadyLine:
        directory = self.broker.components.directory
        return ReadyLine(
            node_id=self._options.node_id,
            version=__version__,
            listen=str(self.listener.address),
            advertised=str(self.advertised),
            data=self._disk.root,
            partitions=len(self.broker.replicas),
            recovered_partitions=directory.recovery.recovered_logs,
            recovery_seconds=directory.recovery_ms / 1_000,
            metrics=str(self._metrics.address) if self._metrics is not None else None,
            seconds=round(process.seconds_since_start(), 2),
        )

    async def until_stopped(self) -> int:
        code = await self._stop
        began = time.perf_counter()
        handed_over: asyncio.Future[None] = self._loop.create_future()
        self.broker.hand_over(lambda: handed_over.set_result(None))
        await handed_over
        stopped: asyncio.Future[None] = self._loop.create_future()
        self.listener.quiesce()
        self.broker.stop(lambda: stopped.set_result(None))
        await self.listener.drain(DRAIN_MS)
        await stopped
        if self._metrics is not None:
            self._metrics.close()
        self._disk.close()
        logger.info("stopped", seconds=round(time.perf_counter() - began, 3))
        return code

    def _stop_signalled(self) -> None:
        if not self._stop.done():
            self._stop.set_result(STOPPED)

    def _image_applied(self, error: Exception | None) -> None:
        """The first image decides whether the broker starts; Ctrl-C cancels `_ready` before it."""
        if self._ready.done():
            if isinstance(error, RegistrationRefused):  # the broker lost its session
                logger.error("the registration of this broker is refused", reason=str(error))
            return
        if error is not None:
            self._ready.set_exception(error)
        else:
            self._ready.set_result(None)


def _zookeeper_settings(options: ZooKeeperOptions | None) -> dict[str, str]:
    return {} if options is None else {"zookeeper.connect": str(options.address)}


def _advertised(address: Address, bound_port: int) -> Address:
    """Return the advertised address: a host name in place of a wildcard, and the bound port."""
    host = socket.gethostname() if address.host in ALL_INTERFACES else address.host
    return Address(host, address.port or bound_port)


@contextlib.contextmanager
def _error_context(what: str) -> Iterator[None]:
    """Prefix an OSError with its subject, which the system's message lacks."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{what}: {error.strerror or error}") from error
