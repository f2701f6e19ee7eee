"""Limits on what a listener's clients may use, and the count of connections against them.

The comments name Kafka's setting for the same limit, where there is one.
"""

import resource
from dataclasses import dataclass

from sawlog.core.config import BrokerConfig

KIB = 1 << 10
MIB = 1 << 20
DEFAULT_FRAMES_TOTAL_BYTES = 256 * MIB
DEFAULT_BACKLOG = 512

_NO_LIMIT = 1 << 31
_MIN_LOG_FILES = 64
_OTHER_DESCRIPTORS = 48
"""The process's own, listening sockets, and files that disk threads open for a moment."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    frame_bytes: int = 100 * MIB  # socket.request.max.bytes
    frames_total_bytes: int = DEFAULT_FRAMES_TOTAL_BYTES  # queued.max.request.bytes; never off
    exchanges: int = 64  # requests in flight on one connection; Kafka processes one at a time
    waiting_bytes: int = 256 * KIB  # finished responses of one connection behind a pending one
    connections: int = _NO_LIMIT  # max.connections
    connections_per_ip: int = _NO_LIMIT  # max.connections.per.ip
    idle_ms: int = 600_000  # connections.max.idle.ms; negative: no timeout
    stall_ms: int = 30_000  # a started frame must receive `stall_bytes` in every such interval
    stall_bytes: int = 30 * 256 * KIB  # 100 MiB within 400 s
    send_buffer_bytes: int = -1  # socket.send.buffer.bytes; -1: the system's default
    receive_buffer_bytes: int = -1  # socket.receive.buffer.bytes; -1: the system's default
    backlog: int = DEFAULT_BACKLOG  # socket.listen.backlog.size


def file_descriptors(descriptors: int) -> int:
    """Return how many of the process's descriptors are reserved for log files: a quarter."""
    return max(_MIN_LOG_FILES, descriptors // 4)


def connection_descriptors(descriptors: int) -> int:
    """Return how many descriptors connections may use without keeping logs from being opened."""
    return max(1, descriptors - file_descriptors(descriptors) - _OTHER_DESCRIPTORS)


def granted_descriptors() -> int:
    """Return the process's current limit on open descriptors (RLIMIT_NOFILE)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _NO_LIMIT if soft == resource.RLIM_INFINITY else soft


def limits_from(config: BrokerConfig) -> ConnectionLimits:
    """Return the limits that the broker's settings and the system's limits allow.

    Kafka's defaults for socket buffers are ignored: unless they are set, the system sizes the
    buffers better.
    """
    given = config.given
    total: int = config["queued.max.request.bytes"]
    return ConnectionLimits(
        frame_bytes=config["socket.request.max.bytes"],
        frames_total_bytes=total if total > 0 else DEFAULT_FRAMES_TOTAL_BYTES,
        connections=min(config["max.connections"], connection_descriptors(granted_descriptors())),
        connections_per_ip=config["max.connections.per.ip"],
        idle_ms=config["connections.max.idle.ms"],
        send_buffer_bytes=(
            config["socket.send.buffer.bytes"] if "socket.send.buffer.bytes" in given else -1
        ),
        receive_buffer_bytes=(
            config["socket.receive.buffer.bytes"] if "socket.receive.buffer.bytes" in given else -1
        ),
        backlog=max(config["socket.listen.backlog.size"], DEFAULT_BACKLOG),
    )


class ConnectionQuota:
    """Counts open connections, in total and per address, against the limits.

    Invariant: `total` is the sum over all addresses; addresses without connections are not kept.
    """

    __slots__ = ("_by_ip", "_limits", "rejected", "total")

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._by_ip: dict[str, int] = {}
        self.total = 0
        self.rejected = 0

    def set_limits(self, limits: ConnectionLimits) -> None:
        """Apply other limits to new connections; open ones stay."""
        self._limits = limits

    def acquire(self, ip: str) -> str | None:
        """Count a new connection; return the reason if it is rejected because of a limit."""
        count = self._by_ip.get(ip, 0)
        if self.total >= self._limits.connections:
            self.rejected += 1
            return (
                f"{self.total} connections are open, the limit (max.connections, or the"
                " descriptors that `ulimit -n` leaves for connections)"
            )
        if count >= self._limits.connections_per_ip:
            self.rejected += 1
            return (
                f"{count} connections from this address are open, the limit"
                " (max.connections.per.ip)"
            )
        self._by_ip[ip] = count + 1
        self.total += 1
        return None

    def release(self, ip: str) -> None:
        self.total -= 1
        count = self._by_ip[ip] - 1
        if count:
            self._by_ip[ip] = count
        else:
            del self._by_ip[ip]
