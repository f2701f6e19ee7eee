"""Reading a coordinator's log at its start: the last value of each key, out of many small batches.

Most batches hold one record and are not compressed; such are taken apart right here, as this is
what a restart waits for. Whatever looks different, or wrong, is given to the general reader.
"""

import struct

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.record_batch import CODEC_MASK, CONTROL, HEADER_SIZE, MAGIC
from sawlog.protocol.records import iterate

_FRONT = struct.Struct(">qi4xb4xhi30xi")  # base offset, length, magic, attributes, delta, count
_UNCOUNTED_BYTES = 12  # base offset and length, which the length field does not count
_SMALLEST_LENGTH = HEADER_SIZE - _UNCOUNTED_BYTES
MAX_BATCH_BYTES = 256 * 1024 * 1024

Last = dict[bytes, bytes | None]
"""The last value of each key, and the keys in the order in which they were written last."""


def keep_last(data: bytes, from_offset: int, last: Last) -> int:
    """Puts the records of the whole batches that `data` begins with into `last`, as far as they are
    not before `from_offset`; returns the offset behind them. KafkaError where one is damaged."""
    end_offset = from_offset
    position = 0
    size = len(data)
    while position + HEADER_SIZE <= size:
        base_offset, length, magic, attributes, delta, count = _FRONT.unpack_from(data, position)
        end = position + length + _UNCOUNTED_BYTES
        if end > size:
            break
        if length < _SMALLEST_LENGTH:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {length} bytes")
        if not attributes & CONTROL and not (
            magic == MAGIC
            and not attributes & CODEC_MASK
            and base_offset >= from_offset
            and _keep_plain(data, position + HEADER_SIZE, end, count, last)
        ):
            _keep_any(data[position:end], from_offset, last)
        end_offset = base_offset + delta + 1
        position = end
    return end_offset


def _keep_any(batch: bytes, from_offset: int, last: Last) -> None:
    for record in iterate(batch, max_decompressed_bytes=MAX_BATCH_BYTES):
        if record.key is not None and record.offset >= from_offset:
            last.pop(record.key, None)
            last[record.key] = record.value


def _keep_plain(data: bytes, position: int, end: int, count: int, last: Last) -> bool:
    """The records between `position` and `end`; False where they do not look as usual: a key and
    maybe a value, no headers, nothing longer than 8 KB. Some may have been kept by then."""
    try:
        for _ in range(count):
            number = data[position]
            position += 1
            if number >= 0x80:
                if data[position] >= 0x80:
                    return False
                number = number & 0x7F | data[position] << 7
                position += 1
            record_end = position + (number >> 1)
            position += 1  # no attributes
            while data[position] >= 0x80:  # the time
                position += 1
            position += 1
            while data[position] >= 0x80:  # the offset
                position += 1
            position += 1

            number = data[position]
            position += 1
            if number >= 0x80:
                if data[position] >= 0x80:
                    return False
                number = number & 0x7F | data[position] << 7
                position += 1
            start = position
            position += number >> 1
            if number & 1 or position > end:
                return False
            key = data[start:position]

            number = data[position]
            position += 1
            if number == 1:
                value = None
            else:
                if number >= 0x80:
                    if data[position] >= 0x80:
                        return False
                    number = number & 0x7F | data[position] << 7
                    position += 1
                start = position
                position += number >> 1
                if number & 1 or position > end:
                    return False
                value = data[start:position]

            if data[position] != 0 or position + 1 != record_end:
                return False
            position = record_end
            last.pop(key, None)
            last[key] = value
    except IndexError:
        return False
    return position == end
