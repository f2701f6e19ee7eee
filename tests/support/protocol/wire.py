"""A raw connection that sends and receives frames without retries or corrections."""

import contextlib
import select
import socket
import struct
from typing import Any, Self

from sawlog.protocol.apis import (
    ApiKey,
    request_header_version,
    response_class,
    response_header_version,
)
from sawlog.protocol.codec import decode, encode
from sawlog.protocol.headers import RequestHeader, read_response_header, write_request_header
from sawlog.protocol.schema import Message

GUARD_S = 60
CLIENT_ID = "script"


class Wire:
    """One connection to a broker."""

    def __init__(self, host: str, port: int, *, receive_buffer_bytes: int | None = None) -> None:
        self._socket = socket.socket()
        self._socket.settimeout(GUARD_S)
        if receive_buffer_bytes is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self._socket.connect((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def patience_s(self, seconds: float) -> None:
        """Set the timeout for the peer's response."""
        self._socket.settimeout(seconds)

    def send_bytes(self, data: bytes) -> None:
        """Send raw bytes; a closed connection is detected when receiving."""
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(data)

    def send_frame(self, frame: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def finish_sending(self) -> None:
        """Shut down the sending side only."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def has_bytes(self, within_s: float) -> bool:
        """Whether bytes can be received within the time."""
        return bool(select.select([self._socket], [], [], within_s)[0])

    def receive_frame(self) -> bytes | None:
        """Return the next frame, or None if the connection is closed."""
        size = self._receive(4)
        return None if size is None else self._receive(struct.unpack(">i", size)[0])

    def _receive(self, count: int) -> bytes | None:
        pieces: list[bytes] = []
        while count:
            try:
                piece = self._socket.recv(min(count, 1 << 20))
            except ConnectionError:
                return None
            if not piece:
                return None
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)

    def send(self, message: Message, version: int) -> None:
        self.send_frame(self.frame_of(message, version))

    def frame_of(self, message: Message, version: int) -> bytes:
        """Return the request's frame without its length, with the next correlation id."""
        self._correlation_id += 1
        api = ApiKey(type(message).SCHEMA.api_key)
        header = RequestHeader(api, version, self._correlation_id, CLIENT_ID)
        front = write_request_header(header, request_header_version(api, version))
        return front + encode(message, version)

    def receive(self, api: ApiKey, version: int) -> Any | None:
        """Return the response to the last request, or None if the connection is closed."""
        frame = self.receive_frame()
        if frame is None:
            return None
        header_version = response_header_version(api, version)
        correlation_id, position = read_response_header(memoryview(frame), header_version)
        assert correlation_id == self._correlation_id
        return decode(response_class(api), version, memoryview(frame)[position:])

    def ask(self, message: Message, version: int) -> Any | None:
        self.send(message, version)
        return self.receive(ApiKey(type(message).SCHEMA.api_key), version)
