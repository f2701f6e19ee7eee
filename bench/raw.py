"""A raw protocol client: prepared frames, one socket per connection.

For load generators that must use less CPU than the broker. A connection has one request in flight,
so all requests can have the same correlation id.
"""

import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from sawlog.core.errors import ErrorCode
from sawlog.protocol import headers
from sawlog.protocol.apis import ApiKey, request_header_version, response_header_version
from sawlog.protocol.codec import decode, encode
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from sawlog.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from sawlog.protocol.messages.offset_fetch_response import OffsetFetchResponse
from sawlog.protocol.schema import Message

CORRELATION = 7
CLIENT_ID = "bench"
RECEIVE_BYTES = 1 << 14
SILENCE_S = 60.0
ASK_AGAIN_S = 0.005
NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors while the broker creates or loads `__consumer_offsets`."""

# Versions that both brokers support.
VERSIONS = {
    ApiKey.METADATA: 12,
    ApiKey.PRODUCE: 9,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
    ApiKey.DESCRIBE_QUORUM: 1,
}
_LENGTH = struct.Struct(">i")

Answer = TypeVar("Answer", bound=Message)


class BadAnswer(Exception):
    """The broker returned an error or an invalid response."""


def frame(request: Message) -> bytes:
    """Encode a request with its length and header."""
    api = ApiKey(request.SCHEMA.api_key)
    version = VERSIONS[api]
    header = headers.write_request_header(
        headers.RequestHeader(api, version, CORRELATION, CLIENT_ID),
        request_header_version(api, version),
    )
    body = encode(request, version)
    return b"".join((_LENGTH.pack(len(header) + len(body)), header, body))


def read(answer: bytes, response_class: type[Answer]) -> Answer:
    """Decode a response without its length; raise BadAnswer if it is invalid."""
    api = ApiKey(response_class.SCHEMA.api_key)
    version = VERSIONS[api]
    view = memoryview(answer)
    correlation_id, start = headers.read_response_header(
        view, response_header_version(api, version)
    )
    if correlation_id != CORRELATION:
        raise BadAnswer(f"an answer to request {correlation_id}, which was not sent")
    return decode(response_class, version, view[start:])


def check(answer: Any) -> None:
    """Raise BadAnswer if the response has a top-level error."""
    if answer.error_code:
        raise BadAnswer(f"{type(answer).__name__}: {ErrorCode(answer.error_code).name}")


def take(received: bytearray) -> bytes | None:
    """Take a complete response, without its length, from the front of the buffer."""
    if len(received) < _LENGTH.size:
        return None
    end = _LENGTH.size + _LENGTH.unpack_from(received)[0]
    if len(received) < end:
        return None
    answer = bytes(received[_LENGTH.size : end])
    del received[:end]
    return answer


class Wire:
    """One connection."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=SILENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self.send: Callable[[bytes], None] = self._socket.sendall

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> bytes | None:
        """Read once; return the response if it is complete."""
        data = self._socket.recv(RECEIVE_BYTES)
        if not data:
            raise BadAnswer("the broker closed a connection")
        self._received += data
        return take(self._received)

    def ask(self, request: Message, response_class: type[Answer]) -> Answer:
        """Send a request and wait for its response."""
        self.send(frame(request))
        while (answer := self.receive()) is None:
            pass
        return read(answer, response_class)

    def close(self) -> None:
        self._socket.close()


class Wires:
    """Many connections with one selector."""

    def __init__(self, bootstrap: str, count: int) -> None:
        self.all = [Wire(bootstrap) for _ in range(count)]
        self._numbers = {wire.fileno(): number for number, wire in enumerate(self.all)}
        self._poll = select.epoll()
        for descriptor in self._numbers:
            self._poll.register(descriptor, select.EPOLLIN)

    def answers(self) -> Iterator[tuple[int, bytes]]:
        """Wait for responses; return them with the numbers of their connections."""
        events = self._poll.poll(SILENCE_S)
        if not events:
            raise BadAnswer(f"nothing came for {SILENCE_S:.0f} s")
        numbers, wires = self._numbers, self.all
        for descriptor, _ in events:
            number = numbers[descriptor]
            answer = wires[number].receive()
            if answer is not None:
                yield number, answer

    def pump(
        self, frames: Sequence[Iterator[bytes]], checked: Callable[[int, bytes], None]
    ) -> None:
        """Send the frames of each connection, one at a time."""
        under_way = 0
        for wire, own in zip(self.all, frames, strict=True):
            first = next(own, None)
            if first is not None:
                wire.send(first)
                under_way += 1
        while under_way:
            for number, answer in self.answers():
                checked(number, answer)
                following = next(frames[number], None)
                if following is None:
                    under_way -= 1
                else:
                    self.all[number].send(following)

    def close(self) -> None:
        self._poll.close()
        for wire in self.all:
            wire.close()


def wait_for_groups(wire: Wire, groups: Sequence[str]) -> None:
    """Return when the broker is the coordinator of these groups and has loaded them."""
    deadline = time.monotonic() + SILENCE_S
    waiting = list(groups)
    while True:
        found = wire.ask(FindCoordinatorRequest(coordinator_keys=waiting), FindCoordinatorResponse)
        if not any(one.error_code for one in found.coordinators):
            waiting = not_answered(wire, [OffsetFetchRequestGroup(group) for group in waiting])
            if not waiting:
                return
        if time.monotonic() > deadline:
            raise BadAnswer(f"{len(waiting)} groups have no coordinator")
        time.sleep(ASK_AGAIN_S)


def not_answered(wire: Wire, wanted: list[OffsetFetchRequestGroup]) -> list[str]:
    """Fetch offsets; return the groups whose coordinator is not ready."""
    answer = wire.ask(OffsetFetchRequest(groups=wanted), OffsetFetchResponse)
    for group in answer.groups:
        if group.error_code not in (0, *NOT_YET):
            check(group)
    return [group.group_id for group in answer.groups if group.error_code]
