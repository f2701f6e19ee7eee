"""Finds the last value of each key in a coordinator's log, which consists of many small batches.

A restart waits for this. Most batches hold one uncompressed record, and these are parsed here;
every other batch, and every damaged one, goes to the generic reader in `protocol/records.py`.
"""

import struct

from sawlog.coordinator.pending_values import PendingValues
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import ProducerId
from sawlog.protocol.control_records import read_marker
from sawlog.protocol.record_batch import CODEC_MASK, CONTROL, HEADER_SIZE, MAGIC, TRANSACTIONAL
from sawlog.protocol.records import iterate

_FRONT = struct.Struct(">qi4xb4xhi16xq6xi")
"""Base offset, length, magic, attributes, last offset delta, producer id, count."""

_UNCOUNTED_BYTES = 12  # base offset and length, which the length field does not count
_SMALLEST_LENGTH = HEADER_SIZE - _UNCOUNTED_BYTES
MAX_BATCH_BYTES = 256 * 1024 * 1024

_Values = dict[bytes, bytes | None]


class LastValues:
    """The last value of each key in the batches read so far.

    values: without open and aborted transactions; the keys are in the order of their last records,
        those of transactions in the order of the markers. None: a tombstone.
    pending: the values of open transactions.
    """

    __slots__ = ("pending", "values")

    def __init__(self) -> None:
        self.values: _Values = {}
        self.pending: PendingValues[bytes, bytes] = PendingValues()

    def read(self, data: bytes, from_offset: int) -> int:
        """Read the complete batches at the start of `data`, without the records before
        `from_offset`; return the offset after them. KafkaError if a batch is damaged."""
        end_offset = from_offset
        position = 0
        size = len(data)
        values = self.values
        is_open = bool(self.pending)
        while position + HEADER_SIZE <= size:
            front = _FRONT.unpack_from(data, position)
            base_offset, length, magic, attributes, delta, producer_id, count = front
            end = position + length + _UNCOUNTED_BYTES
            if end > size:
                break
            if length < _SMALLEST_LENGTH:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch has only {length} bytes")
            if attributes & CONTROL:
                self._end_transaction(ProducerId(producer_id), data[position:end])
                is_open = bool(self.pending)
            else:
                is_direct = not (attributes & TRANSACTIONAL or is_open)
                kept: _Values = values if is_direct else {}
                if not (
                    magic == MAGIC
                    and not attributes & CODEC_MASK
                    and base_offset >= from_offset
                    and _keep_plain(data, position + HEADER_SIZE, end, count, kept)
                ):
                    _keep_generic(data[position:end], from_offset, kept)
                if not is_direct:
                    self._put(kept, ProducerId(producer_id), attributes & TRANSACTIONAL != 0)
                    is_open = bool(self.pending)
            end_offset = base_offset + delta + 1
            position = end
        return end_offset

    def _put(self, kept: _Values, producer_id: ProducerId, is_transactional: bool) -> None:
        """Keep records while a transaction is open: plain ones supersede pending values of their
        keys. A tombstone always takes effect at once, as in Kafka."""
        for key, value in kept.items():
            if value is not None and is_transactional:
                self.pending.put(producer_id, key, value)
                continue
            if value is None:
                self.pending.remove(key)
            else:
                self.pending.supersede(key)
            self.values.pop(key, None)
            self.values[key] = value

    def _end_transaction(self, producer_id: ProducerId, batch: bytes) -> None:
        """Apply a marker; other control records have no meaning for a coordinator."""
        try:
            marker = read_marker(batch)
        except KafkaError as error:
            if error.code is ErrorCode.INVALID_RECORD:
                return
            raise
        if marker.is_abort:
            self.pending.abort(producer_id)
            return
        for key, value in self.pending.commit(producer_id):
            self.values.pop(key, None)
            self.values[key] = value


def _keep_generic(batch: bytes, from_offset: int, kept: _Values) -> None:
    for record in iterate(batch, max_decompressed_bytes=MAX_BATCH_BYTES):
        if record.key is not None and record.offset >= from_offset:
            kept.pop(record.key, None)
            kept[record.key] = record.value


def _keep_plain(data: bytes, position: int, end: int, count: int, kept: _Values) -> bool:
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
            kept.pop(key, None)
            kept[key] = value
    except IndexError:
        return False
    return position == end
