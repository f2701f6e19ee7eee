"""A proxy before one broker that can hold a request of a client, or lose it.

`script` decides about each request, in a thread of its connection: it may block, which holds the
request, and returns whether the request passes. If not, the connection is closed.
"""

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from sawlog.protocol.schema import Message
from support.kafka.shared_brokers import START, Server
from support.pipeline.drivers import kill_all
from tools.kafka_node import HOST, free_port

_HEAD = struct.Struct(">hh")  # API key and version
_LENGTH = struct.Struct(">i")
_PIECE_BYTES = 65536


@dataclass(frozen=True)
class GatedRequest:
    """A request at the gate; `frame` is its header and body."""

    api_key: int
    frame: bytes
    port: int  # of the client's end of the connection
    gate_port: int

    def is_a(self, kind: type[Message], name: str = "") -> bool:
        """Whether it is a request of this kind that contains this name."""
        return self.api_key == kind.SCHEMA.api_key and name.encode() in self.frame

    @property
    def senders(self) -> list[psutil.Process]:
        """The processes that have the client's end of the connection.

        Both ports identify it: a connection to another server may have the same local port.
        """
        pids = {
            connection.pid
            for connection in psutil.net_connections("tcp4")
            if connection.raddr
            and (connection.laddr.port, connection.raddr.port) == (self.port, self.gate_port)
        }
        return [psutil.Process(pid) for pid in pids - {None, os.getpid()}]


Script = Callable[[GatedRequest], bool]


class RequestGate:
    """Forwards connections to `target_port`, which is known once the broker runs."""

    def __init__(self) -> None:
        self.script: Script = pass_all
        self.target_port = 0
        self.port = free_port()
        self._is_closed = False
        self._server = socket.create_server((HOST, self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._is_closed = True
        self.script = pass_all
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                near, _ = self._server.accept()
                far = socket.create_connection((HOST, self.target_port))
            except OSError:
                continue
            threading.Thread(target=self._forward_requests, args=(near, far), daemon=True).start()
            threading.Thread(target=_forward_responses, args=(far, near), daemon=True).start()

    def _forward_requests(self, near: socket.socket, far: socket.socket) -> None:
        port = near.getpeername()[1]
        with _closing(near, far), contextlib.suppress(OSError):
            while length := _received(near, _LENGTH.size):
                frame = _received(near, _LENGTH.unpack(length)[0])
                api_key, _ = _HEAD.unpack_from(frame)
                if not self.script(GatedRequest(api_key, frame, port, self.port)):
                    return
                far.sendall(length + frame)


def pass_all(_: GatedRequest) -> bool:
    return True


def nth(number: int, kind: type[Message], then: Script, name: str = "") -> Script:
    """A script for one request only: the first of this kind has the number 1."""
    lock = threading.Lock()
    count = 0

    def script(request: GatedRequest) -> bool:
        nonlocal count
        if not request.is_a(kind, name):
            return True
        with lock:
            count += 1
            is_it = count == number
        return then(request) if is_it else True

    return script


def kill_sender(request: GatedRequest) -> bool:
    """The request is lost, and the process that has sent it is killed."""
    kill_all(request.senders)
    return False


@contextlib.contextmanager
def gated_broker(
    kind: str, directory: Path, settings: Mapping[str, str]
) -> Iterator[tuple[Server, RequestGate]]:
    """A broker whose clients all connect through the gate, after their first connection."""
    gate = RequestGate()
    advertised = {"advertised.listeners": f"PLAINTEXT://{HOST}:{gate.port}"}
    with contextlib.closing(gate), START[kind](directory, {**settings, **advertised}) as server:
        gate.target_port = server.port
        yield server, gate


def _forward_responses(far: socket.socket, near: socket.socket) -> None:
    with _closing(near, far), contextlib.suppress(OSError):
        while piece := far.recv(_PIECE_BYTES):
            near.sendall(piece)


def _received(source: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes, or none at the end of the connection."""
    pieces: list[bytes] = []
    while size > 0:
        piece = source.recv(min(size, _PIECE_BYTES))
        if not piece:
            return b""
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


@contextlib.contextmanager
def _closing(*sockets: socket.socket) -> Iterator[None]:
    """Close both ends, also for the thread that reads from the other one."""
    try:
        yield
    finally:
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
