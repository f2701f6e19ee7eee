"""How much of everything a listener's clients may have, in one place.

The names on the right are Kafka's settings for the same thing, where it has one.
"""

import resource
from dataclasses import dataclass

from sawlog.core.config import BrokerConfig

KIB = 1 << 10
MIB = 1 << 20
DEFAULT_FRAMES_TOTAL_BYTES = 256 * MIB
DEFAULT_BACKLOG = 512

_NO_LIMIT = 1 << 31
_LEAST_FILES = 64
_OTHER_DESCRIPTORS = 48
"""The process's own, listening sockets, and files that are open for a moment on disk threads."""


@dataclass(frozen=True, slots=True)
class Limits:
    frame_bytes: int = 100 * MIB  # socket.request.max.bytes
    frames_total_bytes: int = (
        DEFAULT_FRAMES_TOTAL_BYTES  # queued.max.request.bytes, but never without a limit
    )
    exchanges: int = 64  # requests of one connection under way; Kafka allows one
    waiting_bytes: int = 256 * KIB  # answers of one connection that wait for an earlier one
    connections: int = _NO_LIMIT  # max.connections
    connections_per_ip: int = _NO_LIMIT  # max.connections.per.ip
    idle_ms: int = 600_000  # connections.max.idle.ms; below 0: for ever
    stall_ms: int = 30_000  # a frame that has begun brings `stall_bytes` in each such time, or ends
    stall_bytes: int = 30 * 256 * KIB  # 100 MiB within 400 s
    send_buffer_bytes: int = -1  # socket.send.buffer.bytes; -1: the system's choice
    receive_buffer_bytes: int = -1  # socket.receive.buffer.bytes; likewise
    backlog: int = DEFAULT_BACKLOG  # socket.listen.backlog.size


def file_descriptors(descriptors: int) -> int:
    """How many of a process's descriptors are for the files of logs: a quarter."""
    return max(_LEAST_FILES, descriptors // 4)


def connection_descriptors(descriptors: int) -> int:
    """How many are for connections: they must not keep a new log from being opened."""
    return max(1, descriptors - file_descriptors(descriptors) - _OTHER_DESCRIPTORS)


def granted_descriptors() -> int:
    """How many the system grants this process now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _NO_LIMIT if soft == resource.RLIM_INFINITY else soft


def limits_from(config: BrokerConfig) -> Limits:
    """The limits that a broker's settings ask for, as far as the system's go.

    Kafka's fixed socket buffers count only where they were set: left alone, the system sizes them
    better.
    """
    given = config.given
    total: int = config["queued.max.request.bytes"]
    return Limits(
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
