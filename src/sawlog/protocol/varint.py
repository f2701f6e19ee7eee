"""Zigzag varints, the numbers inside record batches: small magnitudes take few bytes.

Tolerates what Kafka's readers tolerate (padding within the longest form), refuses the rest.
"""

from sawlog.core.errors import ErrorCode, KafkaError

_LONGEST_BYTES = 10  # of 64 bits
_SIGN = 1 << 63
_WORD = (1 << 64) - 1


def encode_varint(value: int) -> bytes:
    """A number of up to 64 bits, sign included."""
    if 0 <= value < len(_SMALL):
        return _SMALL[value]
    return _encode(value)


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """The number at `position` and the position after it; IndexError where the bytes end."""
    first = buffer[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    second = buffer[position + 1]
    if second < 0x80:
        return (first & 0x7F | second << 7) >> 1 ^ -(first & 1), position + 2
    return _read_long(buffer, position)


def _read_long(buffer: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _LONGEST_BYTES, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= _WORD
            return (value >> 1) ^ -(value & 1), position
    raise KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"a number at byte {position - _LONGEST_BYTES} has no end after {_LONGEST_BYTES} bytes",
    )


def _encode(value: int) -> bytes:
    if not -_SIGN <= value < _SIGN:
        raise ValueError(f"a varint holds 64 bits, not {value}")
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_SMALL = tuple(_encode(value) for value in range(1024))
