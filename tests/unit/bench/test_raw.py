"""Frames and responses of the raw protocol client."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench import raw
from bench.commits import checker, commits
from sawlog.core.errors import ErrorCode
from sawlog.protocol import headers
from sawlog.protocol.codec import decode, encode
from sawlog.protocol.messages.offset_commit_request import OffsetCommitRequest
from sawlog.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from sawlog.protocol.schema import Message


def requested(frame: bytes, request_class: type[Message], version: int) -> Message:
    """Decode a request as a broker does."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    view = memoryview(frame)[4:]
    header, start = headers.read_request_header(view)
    assert (header.api_version, header.correlation_id) == (version, raw.CORRELATION)
    return decode(request_class, version, view[start:])


def answered(code: int, correlation_id: int = raw.CORRELATION) -> bytes:
    """The response to a commit, without the length."""
    partitions = [OffsetCommitResponsePartition(0, code)]
    body = encode(
        OffsetCommitResponse(0, [OffsetCommitResponseTopic("t", partitions=partitions)]), 9
    )
    return headers.response_prefix(correlation_id, 1, len(body))[4:] + body


@contextmanager
def listening() -> Iterator[tuple[raw.Wire, socket.socket]]:
    """A connection and its peer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        wire = raw.Wire(f"127.0.0.1:{server.getsockname()[1]}")
        other, _ = server.accept()
        with other:
            yield wire, other
        wire.close()


def test_each_commit_is_a_complete_request_with_its_offset() -> None:
    found = [requested(frame, OffsetCommitRequest, 9) for frame in commits("g", "t", 3)]
    offsets = [request.topics[0].partitions[0].committed_offset for request in found]  # type: ignore[attr-defined]
    assert offsets == [1, 2, 3]
    assert {request.group_id for request in found} == {"g"}  # type: ignore[attr-defined]


def test_a_refused_commit_raises_bad_answer() -> None:
    checked = checker()
    checked(0, answered(0))
    checked(0, answered(0))
    with pytest.raises(raw.BadAnswer, match="NOT_COORDINATOR"):
        checked(0, answered(int(ErrorCode.NOT_COORDINATOR)))


def test_a_response_with_another_correlation_id_is_refused() -> None:
    with pytest.raises(raw.BadAnswer, match="not sent"):
        raw.read(answered(0, correlation_id=8), OffsetCommitResponse)


def test_complete_responses_are_taken_and_the_rest_is_kept() -> None:
    received = bytearray(b"\0\0\0\x02ab\0\0\0\x01c\0\0\0\x05de")
    assert [raw.take(received) for _ in range(3)] == [b"ab", b"c", None]
    assert received == b"\0\0\0\x05de"


def test_a_response_may_arrive_in_pieces() -> None:
    with listening() as (wire, other):
        other.sendall(b"\0\0\0\x03a")
        assert wire.receive() is None
        other.sendall(b"bc")
        assert wire.receive() == b"abc"
        other.sendall(b"\0\0\0\x01d")
        assert wire.receive() == b"d"


def test_a_closed_connection_is_an_error() -> None:
    with listening() as (wire, other):
        other.close()
        with pytest.raises(raw.BadAnswer, match="closed"):
            wire.receive()
