"""What compiled codecs call at run time: unsigned varints, tags, and the ways to fail.

A varint of one byte, nearly all of them, is handled in the compiled code itself; these are the
rest. Numbers of more than 32 bits, and of more than five bytes, are refused.
"""

from sawlog.core.errors import MalformedFrame

Readable = bytes | memoryview

MAX_STRING_BYTES = 0x7FFF
"""Kafka's own limit, in both styles of length."""

MAX_REQUEST_ELEMENTS = 500_000
"""Elements of arrays and tags that one request may have altogether.

An element of two bytes becomes an object of a hundred: without a limit a frame would grow fifty
times over. Real requests stay far below; a fetch of 10,000 partitions has as many elements.
"""

MAX_ELEMENTS = 20_000_000
"""The same for everything else, which comes from brokers and our own files: metadata of a cluster
with a million partitions fits."""


class NotEncodable(ValueError):
    """A value that its field cannot take: our mistake, not the client's."""


class UnsupportedField(NotEncodable):
    """A field with a value in a version that lacks it, and that may not be left out silently."""


def continue_uvarint(buffer: Readable, position: int, first: int) -> tuple[int, int]:
    """The varint whose first byte was not its last, and where it ends."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise MalformedFrame("a varint has more than 32 bits")


def read_uvarint(buffer: Readable, position: int) -> tuple[int, int]:
    byte = buffer[position]
    if byte < 0x80:
        return byte, position + 1
    return continue_uvarint(buffer, position + 1, byte)


def read_tag(buffer: Readable, position: int, previous: int) -> tuple[int, int, int]:
    """The next tagged field: its tag, where its value begins and where it ends."""
    tag, position = read_uvarint(buffer, position)
    size, position = read_uvarint(buffer, position)
    if tag <= previous:
        raise MalformedFrame(f"tag {tag} comes after tag {previous}")
    if size > len(buffer) - position:
        raise MalformedFrame(f"tag {tag} claims {size} bytes, {len(buffer) - position} are left")
    return tag, position, position + size


def skip_tags(buffer: Readable, position: int, count: int) -> int:
    """Passes over tagged fields that mean nothing here; returns where they end."""
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
    """The compact length of a string, one more than its bytes, where one byte is not enough."""
    if value > MAX_STRING_BYTES + 1:
        raise NotEncodable(f"a string of {value - 1} bytes is too long")
    return uvarint(value)
