"""Kafka's protocol with nothing around it: frames made beforehand, one socket for each connection.

For drivers that must cost less than the broker they measure. A connection has one request under
way at a time, so that correlation ids need not tell answers apart; all carry the same.
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
"""What a broker says about a group while it makes the groups' topic, or loads it."""

# One version of each, which both brokers know.
VERSIONS = {
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
}
_LENGTH = struct.Struct(">i")

Answer = TypeVar("Answer", bound=Message)


class BadAnswer(Exception):
    """The broker answered with an error, or with something that cannot be."""


def frame(request: Message) -> bytes:
    """A request as it goes over the wire."""
    api = ApiKey(request.SCHEMA.api_key)
    version = VERSIONS[api]
    header = headers.write_request_header(
        headers.RequestHeader(api, version, CORRELATION, CLIENT_ID),
        request_header_version(api, version),
    )
    body = encode(request, version)
    return b"".join((_LENGTH.pack(len(header) + len(body)), header, body))


def read(answer: bytes, response_class: type[Answer]) -> Answer:
    """An answer without its length; BadAnswer where it is not one to such a request."""
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
    """BadAnswer where the answer as a whole is an error."""
    if answer.error_code:
        raise BadAnswer(f"{type(answer).__name__}: {ErrorCode(answer.error_code).name}")


def take(received: bytearray) -> bytes | None:
    """Takes an answer, without its length, from the front of what was received, if it is whole."""
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
        """Reads once: the answer, where it is there as a whole."""
        data = self._socket.recv(RECEIVE_BYTES)
        if not data:
            raise BadAnswer("the broker closed a connection")
        self._received += data
        return take(self._received)

    def ask(self, request: Message, response_class: type[Answer]) -> Answer:
        """Sends a request and waits for its answer."""
        self.send(frame(request))
        while (answer := self.receive()) is None:
            pass
        return read(answer, response_class)

    def close(self) -> None:
        self._socket.close()


class Wires:
    """Many connections, waited for together."""

    def __init__(self, bootstrap: str, count: int) -> None:
        self.all = [Wire(bootstrap) for _ in range(count)]
        self._numbers = {wire.fileno(): number for number, wire in enumerate(self.all)}
        self._poll = select.epoll()
        for descriptor in self._numbers:
            self._poll.register(descriptor, select.EPOLLIN)

    def answers(self) -> Iterator[tuple[int, bytes]]:
        """Waits until something comes; the numbers of connections, and what was answered there."""
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
        """Sends the frames of each connection, each when the one before is answered."""
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
    """Returns when the broker coordinates all of these groups, and has loaded what it knows."""
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


def not_answered(wire: Wire, asked: list[OffsetFetchRequestGroup]) -> list[str]:
    """Asks for offsets; those groups whose coordinator does not answer yet."""
    answer = wire.ask(OffsetFetchRequest(groups=asked), OffsetFetchResponse)
    for group in answer.groups:
        if group.error_code not in (0, *NOT_YET):
            check(group)
    return [group.group_id for group in answer.groups if group.error_code]
