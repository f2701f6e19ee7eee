"""How much of everything a listener's clients may have, in one place.

The names on the right are Kafka's settings for the same thing, where it has one.
"""

from dataclasses import dataclass

KIB = 1 << 10
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    frame_bytes: int = 100 * MIB  # socket.request.max.bytes
    frames_total_bytes: int = 512 * MIB  # queued.max.request.bytes, but never without a limit
    exchanges: int = 64  # requests of one connection under way; Kafka allows one
    connections: int = 1 << 31  # max.connections
    connections_per_ip: int = 1 << 31  # max.connections.per.ip
    idle_ms: int = 600_000  # connections.max.idle.ms
    stall_ms: int = 30_000  # a frame that has begun must bring `stall_bytes` in each such time
    stall_bytes: int = 32 * KIB
    send_buffer_bytes: int = -1  # socket.send.buffer.bytes; -1: the system's choice
    receive_buffer_bytes: int = -1  # socket.receive.buffer.bytes; likewise
    backlog: int = 512  # socket.listen.backlog.size
