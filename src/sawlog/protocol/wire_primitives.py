"""Functions that compiled codecs call: unsigned varints, tagged fields, errors.

The compiled code handles varints of one byte itself. Varints of more than 32 bits or five bytes are
rejected.
"""

from sawlog.core.errors import MalformedFrame

Readable = bytes | memoryview

MAX_STRING_BYTES = 0x7FFF
"""Kafka's limit, in both encodings of the length."""

MAX_REQUEST_ELEMENTS = 500_000
"""The maximum number of array elements and tags in one request.

An element of two bytes becomes an object of a hundred bytes: without a limit a frame could take
fifty times its size in memory. A fetch of 10,000 partitions has about as many elements.
"""

MAX_ELEMENTS = 20_000_000
"""The same limit for responses and coordinator records: enough for the metadata of a cluster with a
million partitions."""


class NotEncodable(ValueError):
    """A value does not fit into its field: a bug of the sender."""


class UnsupportedField(NotEncodable):
    """A field has a value, does not exist in the version, and may not be ignored."""


def continue_uvarint(buffer: Readable, position: int, first: int) -> tuple[int, int]:
    """Return the varint with the given first byte, and its end."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise MalformedFrame("a varint is longer than 32 bits")


def read_uvarint(buffer: Readable, position: int) -> tuple[int, int]:
    byte = buffer[position]
    if byte < 0x80:
        return byte, position + 1
    return continue_uvarint(buffer, position + 1, byte)


def read_tag(buffer: Readable, position: int, previous: int) -> tuple[int, int, int]:
    """Return the next tagged field: its tag, and the start and end of its value."""
    tag, position = read_uvarint(buffer, position)
    size, position = read_uvarint(buffer, position)
    if tag <= previous:
        raise MalformedFrame(f"tag {tag} follows tag {previous}: tags must rise")
    if size > len(buffer) - position:
        raise MalformedFrame(f"tag {tag} has {size} bytes, but {len(buffer) - position} are left")
    return tag, position, position + size


def skip_tags(buffer: Readable, position: int, count: int) -> int:
    """Skip unknown tagged fields; return their end."""
    tag = -1
    for _ in range(count):
        tag, _, position = read_tag(buffer, position, tag)
    return position


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes(1, "big")
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def string_length(value: int) -> bytes:
    """Encode the compact length of a string (its bytes plus one) in more than one byte."""
    if value > MAX_STRING_BYTES + 1:
        raise NotEncodable(f"a string has {value - 1} bytes, the limit is {MAX_STRING_BYTES}")
    return uvarint(value)
