"""What a task tells the driver while it runs: a datagram with the offsets that it has read.

Spark has no way for a Python task to tell the driver anything before its end: accumulators, too,
are sent with its result. So a task sends a small UDP datagram to the driver's host now and then. A
report that is lost, or that a firewall drops, changes only the display.
"""

import hmac
import socket
import struct
import time
from contextlib import suppress
from typing import NamedTuple

_REPORT = struct.Struct("!16sQQ")  # token, task, offsets read
REPORT_BYTES = _REPORT.size
TOKEN_BYTES = 16
_EVERY_S = 0.25


class ProgressAddress(NamedTuple):
    """Where the driver listens; a report without its token is ignored."""

    host: str
    port: int
    token: bytes


def encode_report(token: bytes, task: int, read: int) -> bytes:
    return _REPORT.pack(token, task, read)


def decode_report(data: bytes, token: bytes) -> tuple[int, int] | None:
    """The task and what it has read; None for anything but a report with this token."""
    if len(data) != REPORT_BYTES:
        return None
    found, task, read = _REPORT.unpack(data)
    return (task, read) if hmac.compare_digest(found, token) else None


class ProgressSender:
    """Sends the reports of one task: the first and the last, and a few per second between."""

    def __init__(self, address: ProgressAddress | None, task: int, planned: int) -> None:
        self._token = b"" if address is None else address.token
        self._task = task
        self._planned = planned
        self._next_s = 0.0
        self._socket = None if address is None else _connected(address)

    def report(self, read: int) -> None:
        now_s = time.monotonic()
        if self._socket is None or (now_s < self._next_s and 0 < read < self._planned):
            return
        self._next_s = now_s + _EVERY_S
        with suppress(OSError):  # nothing listens, or the buffer is full
            self._socket.send(encode_report(self._token, self._task, read))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def _connected(address: ProgressAddress) -> socket.socket | None:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_DGRAM
        )[0]
        connected = socket.socket(family, kind, protocol)
    except OSError:
        return None
    try:
        connected.setblocking(False)
        connected.connect(place)
    except OSError:
        connected.close()
        return None
    return connected
