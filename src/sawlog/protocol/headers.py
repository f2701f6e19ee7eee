"""Request and response headers, coded by hand because every request passes here.

The client id has an int16 length in all versions, so that any broker can read it.
"""

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import NamedTuple

from sawlog.core.errors import MalformedFrame
from sawlog.protocol.apis import ApiKey, first_flexible_version
from sawlog.protocol.wire_primitives import (
    MAX_STRING_BYTES,
    NotEncodable,
    continue_uvarint,
    skip_tags,
)

_REQUEST = Struct(">hhih")
_RESPONSE = (Struct(">ii"), Struct(">iix"))
_RESPONSE_HEADER_SIZES = (4, 5)
_INT32 = Struct(">i")
_MAX_TAGS = 1000
_FIRST_FLEXIBLE = {int(api): first_flexible_version(api) for api in ApiKey}


class RequestHeader(NamedTuple):
    """`client_id` is empty for null; Kafka treats both alike."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str


def read_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """Return the header and the position of the body. Every version of a known API is accepted; the
    caller checks whether it is supported."""
    try:
        api_key, api_version, correlation_id, length = _REQUEST.unpack_from(frame)
        first_flexible = _FIRST_FLEXIBLE.get(api_key)
        if first_flexible is None:
            raise MalformedFrame(f"request header: unknown API key {api_key}")
        position = 10
        client_id = ""
        if length > 0:
            position += length
            if position > len(frame):
                raise MalformedFrame(
                    f"request header: the client id of {length} bytes is truncated"
                )
            client_id = frame[10:position].tobytes().decode()
        if api_version >= first_flexible:
            count = frame[position]
            position += 1
            if count:
                position = _skip_tags(frame, position, count)
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise MalformedFrame(f"request header: {error}") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def write_request_header(header: RequestHeader, header_version: int) -> bytes:
    """Encode a header without frame length: version 0 has no client id, 2 has tagged fields."""
    client_id = header.client_id.encode()
    if len(client_id) > MAX_STRING_BYTES:
        raise NotEncodable(f"the client id has more than {MAX_STRING_BYTES} bytes")
    fixed = _REQUEST.pack(header.api_key, header.api_version, header.correlation_id, len(client_id))
    if header_version == 0:
        return fixed[:8]
    return fixed + client_id + (b"\0" if header_version >= 2 else b"")


def response_prefix(correlation_id: int, header_version: int, body_length: int) -> bytes:
    """Encode the frame length and the header of a response."""
    length = body_length + _RESPONSE_HEADER_SIZES[header_version]
    return _RESPONSE[header_version].pack(length, correlation_id)


def read_response_header(frame: memoryview, header_version: int) -> tuple[int, int]:
    """Return the correlation id and the position of the body."""
    try:
        (correlation_id,) = _INT32.unpack_from(frame)
        position = 4
        if header_version >= 1:
            count = frame[position]
            position += 1
            if count:
                position = _skip_tags(frame, position, count)
    except (StructError, IndexError) as error:
        raise MalformedFrame(f"response header: {error}") from None
    return correlation_id, position


def _skip_tags(frame: memoryview, position: int, count: int) -> int:
    if count > 0x7F:
        count, position = continue_uvarint(frame, position, count)
    if count > _MAX_TAGS:
        raise MalformedFrame(f"a header has {count} tagged fields, the limit is {_MAX_TAGS}")
    return skip_tags(frame, position, count)
