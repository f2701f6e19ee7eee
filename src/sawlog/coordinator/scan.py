"""Reading a coordinator's log at its start: the last value of each key, out of many small batches.

Most batches hold one record and are not compressed; such are taken apart right here, as this is
what a restart waits for. Whatever looks different, or wrong, is given to the general reader.
"""

import struct

from sawlog.protocol.batches import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    MAGIC,
    read_header,
)
from sawlog.protocol.records import iterate

_FRONT = struct.Struct(">qi4xb4xhi30xi")  # base offset, length, magic, attributes, delta, count
_UNCOUNTED_BYTES = 12
MAX_BATCH_BYTES = 256 * 1024 * 1024

Last = dict[bytes, bytes | None]
"""The last value of each key, and the keys in the order in which they were written last."""


def keep_last(data: bytes, position: int, from_offset: int, last: Last) -> tuple[int, int]:
    """Puts the records of the first batch at `position` and of those behind it into `last`, as far as
    they are whole and at or behind `from_offset`.

    Returns the position and the offset behind the last whole batch. KafkaError where a batch is
    damaged."""
    size = len(data)
    while position + HEADER_SIZE <= size:
        base_offset, length, magic, attributes, delta, count = _FRONT.unpack_from(data, position)
        end = position + length + _UNCOUNTED_BYTES
        if end > size:
            break
        is_plain = magic == MAGIC and not attributes & (CODEC_MASK | CONTROL)
        if (
            not is_plain
            or base_offset < from_offset
            or not _keep_plain(data, position + HEADER_SIZE, end, count, last)
        ):
            _keep_any(data[position:end], from_offset, last)
        from_offset = base_offset + delta + 1
        position = end
    return position, from_offset


def _keep_plain(data: bytes, position: int, end: int, count: int, last: Last) -> bool:
    """The records between `position` and `end`; False where they do not look as usual."""
    try:
        for _ in range(count):
            while data[position] >= 0x80:  # the length of the record
                position += 1
            position += 2  # and its attributes
            while data[position] >= 0x80:  # the time
                position += 1
            position += 1
            while data[position] >= 0x80:  # the offset
                position += 1
            ...
    except IndexError:
        return False
    return position == end
