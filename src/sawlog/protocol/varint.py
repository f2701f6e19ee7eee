"""Zigzag varints, the encoding of numbers in records.

As in Kafka, padding within ten bytes is accepted, and longer forms are rejected.
"""

from sawlog.core.errors import ErrorCode, KafkaError

_MAX_BYTES = 10  # for 64 bits
_SIGN = 1 << 63
_WORD = (1 << 64) - 1


def encode_varint(value: int) -> bytes:
    """Encode a signed 64-bit number."""
    if 0 <= value < len(_SMALL):
        return _SMALL[value]
    return _encode(value)


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """Return the number at `position` and its end; IndexError if it is truncated."""
    first = buffer[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    second = buffer[position + 1]
    if second < 0x80:
        return (first & 0x7F | second << 7) >> 1 ^ -(first & 1), position + 2
    value, position = read_zigzag(buffer, position, _MAX_BYTES)
    return (value >> 1) ^ -(value & 1), position


def read_zigzag(buffer: bytes, position: int, max_bytes: int) -> tuple[int, int]:
    """Return the number at `position`, still in zigzag encoding, and its end; IndexError if it is
    truncated, CORRUPT_MESSAGE beyond `max_bytes`."""
    value = 0
    for shift in range(0, 7 * max_bytes, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _WORD, position
    raise KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"the varint at byte {position - max_bytes} is longer than {max_bytes} bytes",
    )


def _encode(value: int) -> bytes:
    if not -_SIGN <= value < _SIGN:
        raise ValueError(f"{value} does not fit into 64 bits")
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_SMALL = tuple(_encode(value) for value in range(1024))
