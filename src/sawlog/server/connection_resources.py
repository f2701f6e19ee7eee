"""Resources that all connections of a process share: loop, application, memory, threads."""

import asyncio
from typing import TYPE_CHECKING

from sawlog.core.event_logger import EventLogger, ThrottledLogger
from sawlog.core.metrics import Registry
from sawlog.core.ports import Clock, Timer
from sawlog.server.clock import LoopTimer, SystemClock
from sawlog.server.connection_limits import ConnectionLimits, ConnectionQuota
from sawlog.server.disk_threads import DiskThreads
from sawlog.server.exchange import Application
from sawlog.server.file_slices import PageCache
from sawlog.server.frames import FrameMemory
from sawlog.server.request_memory import ByteBudget
from sawlog.server.response_sender import SendResources

if TYPE_CHECKING:
    from sawlog.server.connection import Connection

_COLD_THREADS = 8


class ConnectionResources:
    """Created once per process and passed to every listener."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        application: Application,
        limits: ConnectionLimits,
        *,
        clock: Clock | None = None,
        timer: Timer | None = None,
        send_resources: SendResources | None = None,
        registry: Registry | None = None,
    ) -> None:
        self.loop = loop
        self.application = application
        self.limits = limits
        self.clock = clock or SystemClock()
        self.timer = timer or LoopTimer(loop)
        self.budget = ByteBudget(limits.frames_total_bytes)
        self.frame_memory = FrameMemory(self.budget, self.clock)
        self.send_resources = send_resources or SendResources(
            loop, DiskThreads(loop.call_soon_threadsafe, limit=_COLD_THREADS), PageCache()
        )
        self.quota = ConnectionQuota(limits)
        self.logger = ThrottledLogger(EventLogger("sawlog.server.connection"), self.clock)
        self._to_flush: list[Connection] = []
        if registry is not None:
            self._declare(registry)

    def flush_soon(self, connection: "Connection") -> None:
        """Flush at the end of this turn of the loop, so that its responses are sent together."""
        if not self._to_flush:
            self.loop.call_soon(self._flush)
        self._to_flush.append(connection)

    def _flush(self) -> None:
        connections = self._to_flush
        self._to_flush = []
        for connection in connections:
            connection.flush()

    def _declare(self, registry: Registry) -> None:
        registry.read_counter(
            "sawlog_network_received_bytes_total",
            "Bytes received from clients.",
            lambda: self.frame_memory.bytes_received,
        )
        registry.read_counter(
            "sawlog_network_sent_bytes_total",
            "Bytes sent to clients.",
            lambda: self.send_resources.bytes_sent,
        )
        registry.read_counter(
            "sawlog_network_cold_sends_total",
            "File slices that were not in the page cache and were sent from a thread.",
            lambda: self.send_resources.cold_sends,
        )
        registry.read_counter(
            "sawlog_network_refused_connections_total",
            "Connections closed at once because a connection limit was reached.",
            lambda: self.quota.rejected,
        )
        registry.read_gauge(
            "sawlog_network_frame_bytes",
            "Memory of large request frames that are being received.",
            lambda: self.budget.taken,
        )
        registry.read_gauge(
            "sawlog_network_connections",
            "Open connections.",
            lambda: self.quota.total,
        )
        registry.read_gauge(
            "sawlog_network_frames_waiting",
            "Connections whose reads are paused until memory for their frame is free.",
            lambda: self.budget.waiting,
        )
