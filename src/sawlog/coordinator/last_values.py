"""Finds the last value of each key in a coordinator's log, which consists of many small batches.

A restart waits for this. Most batches hold one uncompressed record, and these are parsed here;
every other batch, and every damaged one, goes to the generic reader in `protocol/records.py`.
"""

import struct

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.record_batch import CODEC_MASK, CONTROL, HEADER_SIZE, MAGIC
from sawlog.protocol.records import iterate

_FRONT = struct.Struct(">qi4xb4xhi30xi")  # base offset, length, magic, attributes, delta, count
_UNCOUNTED_BYTES = 12  # base offset and length, which the length field does not count
_SMALLEST_LENGTH = HEADER_SIZE - _UNCOUNTED_BYTES
MAX_BATCH_BYTES = 256 * 1024 * 1024

LastValues = dict[bytes, bytes | None]
"""The last value of each key; the keys are in the order of their last records."""


def keep_last(data: bytes, from_offset: int, last: LastValues) -> int:
    """Put the records of the complete batches at the start of `data` into `last`, without those
    before `from_offset`; return the offset after them. KafkaError if a batch is damaged."""
    end_offset = from_offset
    position = 0
    size = len(data)
    while position + HEADER_SIZE <= size:
        base_offset, length, magic, attributes, delta, count = _FRONT.unpack_from(data, position)
        end = position + length + _UNCOUNTED_BYTES
        if end > size:
            break
        if length < _SMALLEST_LENGTH:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch has only {length} bytes")
        if not attributes & CONTROL and not (
            magic == MAGIC
            and not attributes & CODEC_MASK
            and base_offset >= from_offset
            and _keep_plain(data, position + HEADER_SIZE, end, count, last)
        ):
            _keep_generic(data[position:end], from_offset, last)
        end_offset = base_offset + delta + 1
        position = end
    return end_offset


def _keep_generic(batch: bytes, from_offset: int, last: LastValues) -> None:
    for record in iterate(batch, max_decompressed_bytes=MAX_BATCH_BYTES):
        if record.key is not None and record.offset >= from_offset:
            last.pop(record.key, None)
            last[record.key] = record.value


def _keep_plain(data: bytes, position: int, end: int, count: int, last: LastValues) -> bool:
    """Keep the records between `position` and `end`; False if one of them is not of the usual form:
    a key, at most a value, no headers, nothing longer than 8 KB. Some may be kept already."""
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
            position += 1  # attributes
            while data[position] >= 0x80:  # timestamp delta
                position += 1
            position += 1
            while data[position] >= 0x80:  # offset delta
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
