"""Request and response headers in all versions."""

import pytest

from sawlog.core.errors import MalformedFrame
from sawlog.protocol.codec import encode
from sawlog.protocol.headers import (
    RequestHeader,
    read_request_header,
    read_response_header,
    response_prefix,
    write_request_header,
)
from sawlog.protocol.messages import request_header, response_header
from sawlog.protocol.wire_primitives import NotEncodable

API_VERSIONS = 18


def read(text: str) -> tuple[RequestHeader, int]:
    return read_request_header(memoryview(bytes.fromhex(text)))


def test_a_header_without_tags_ends_after_the_client_id() -> None:
    header, body = read("0000 0003 00000007 0002 6162 eeee")
    assert header == RequestHeader(0, 3, 7, "ab")
    assert body == 12


def test_a_flexible_header_has_tags_after_the_client_id() -> None:
    header, body = read("0000 0009 00000007 0002 6162 00 eeee")
    assert header == RequestHeader(0, 9, 7, "ab")
    assert body == 13


def test_tags_in_a_header_are_skipped() -> None:
    assert read("0000 0009 00000007 0000 02 00 01 ff 07 02 ffff ee")[1] == 18


@pytest.mark.parametrize("length", ["ffff", "0000"])
def test_a_null_client_id_is_read_as_empty(length: str) -> None:
    assert read(f"0003 0001 00000001 {length}") == (RequestHeader(3, 1, 1, ""), 10)


def test_unknown_versions_of_api_versions_are_read_as_flexible() -> None:
    header, body = read("0012 0063 00000001 0001 61 00")
    assert header == RequestHeader(API_VERSIONS, 99, 1, "a")
    assert body == 12


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ("", "unpack_from"),
        ("0000 0003 00000007 00", "unpack_from"),
        ("03e8 0000 00000007 0000", "unknown API key 1000"),
        ("ffff 0000 00000007 0000", "unknown API key -1"),
        ("0000 0003 00000007 0005 61", "client id of 5 bytes"),
        ("0000 0003 00000007 0001 ff", "utf-8"),
        ("0000 0009 00000007 0000", "index out of"),
        ("0000 0009 00000007 0000 01 00 05 00", "has 5 bytes"),
        ("0000 0009 00000007 0000 ffffffff0f", "4294967295 tagged fields"),
    ],
)
def test_a_malformed_header_is_rejected(frame: str, reason: str) -> None:
    with pytest.raises(MalformedFrame, match=reason):
        read(frame)


@pytest.mark.parametrize("version", [1, 2])
def test_a_request_header_is_encoded_like_its_definition(version: int) -> None:
    header = RequestHeader(3, 12 if version == 2 else 1, 99, "client")
    written = write_request_header(header, version)
    assert written == encode(request_header.RequestHeader(*header), version)
    assert read_request_header(memoryview(written)) == (header, len(written))


def test_request_header_version_0_ends_before_the_client_id() -> None:
    assert write_request_header(RequestHeader(7, 0, 5, "x"), 0).hex() == "0007000000000005"


def test_a_client_id_that_is_too_long_is_rejected() -> None:
    with pytest.raises(NotEncodable, match="32767"):
        write_request_header(RequestHeader(0, 9, 1, "x" * 0x8000), 2)


@pytest.mark.parametrize(("version", "size"), [(0, 4), (1, 5)])
def test_a_response_prefix_is_the_frame_length_and_the_header(version: int, size: int) -> None:
    prefix = response_prefix(1234, version, 100)
    assert int.from_bytes(prefix[:4], "big") == 100 + size
    assert prefix[4:] == encode(response_header.ResponseHeader(1234), version)
    assert read_response_header(memoryview(prefix[4:]), version) == (1234, size)


def test_tags_in_a_response_header_are_skipped() -> None:
    frame = memoryview(bytes.fromhex("00000007 01 05 02 aabb ee"))
    assert read_response_header(frame, 1) == (7, 9)


@pytest.mark.parametrize("frame", ["", "0000", "00000007", "00000007 01", "00000007 01 00 02"])
def test_a_malformed_response_header_is_rejected(frame: str) -> None:
    with pytest.raises(MalformedFrame):
        read_response_header(memoryview(bytes.fromhex(frame)), 1)
