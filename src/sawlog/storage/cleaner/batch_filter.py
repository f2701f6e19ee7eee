"""Which records of a batch a cleaning retains, and the batch that is left of them.

The rules are those of Kafka's Cleaner and MemoryRecords.filterTo, for batches of magic 2; see
`BatchFilter`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.compression import Codec, compress, decompress
from sawlog.protocol.control_records import EndTransactionMarker, read_marker
from sawlog.protocol.record_batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    encode_batch,
    read_header,
)
from sawlog.protocol.records import NO_TIMESTAMP
from sawlog.protocol.varint import encode_varint, read_varint
from sawlog.storage.cleaner.cleaned_transactions import CleanedTransactions
from sawlog.storage.cleaner.offset_map import OffsetMap, map_keys
from sawlog.storage.cleaner.record_columns import (
    RecordColumns,
    scan_records,
    scan_some,
    scan_starts,
)

MAX_DECOMPRESSED_BYTES = 256 << 20
_NO_OFFSET = -1
_FIRST_MS, _LAST_MS, _ALL_MS = -(1 << 63), (1 << 63) - 1, 1 << 64


Batch = tuple[bytes | bytearray, BatchHeader]
"""A batch with its header."""


@dataclass(slots=True)
class CleanerStats:
    """Counts of one cleaning."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    keyless_records: int = 0  # written before the topic was compacted, and dropped
    changed_batches: int = 0  # removed or rebuilt


def total(first: CleanerStats, second: CleanerStats) -> CleanerStats:
    """The counts of two parts of a cleaning together."""
    return CleanerStats(
        *(getattr(first, name) + getattr(second, name) for name in CleanerStats.__slots__)
    )


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """The parameters of one cleaning of one log."""

    now_ms: int
    delete_retention_ms: int
    end_offset: int  # the first offset that may not be cleaned
    last_offsets: Mapping[int, int]  # of active producers: the last offset of their last batch
    last_epochs: Mapping[int, int] = field(default_factory=dict)
    """The epochs of active producers that have no batch in the log, but a marker."""


def is_known(header: BatchHeader, offsets: OffsetMap) -> bool:
    """Whether a batch is part of the offset map and has no gaps: then the offsets in the map say
    which of its records are live."""
    return (
        header.base_offset >= offsets.first_offset and header.last_offset_delta == header.count - 1
    )


def open_records(batch: bytes, position: int, header: BatchHeader) -> tuple[bytes, RecordColumns]:
    """The uncompressed records of the batch at `position`, as bytes and as columns.

    KafkaError if they cannot be read.
    """
    end = position + header.size
    if header.codec == Codec.NONE:
        body = batch
        columns = scan_records(batch, position + HEADER_SIZE, end, header.count)
    else:
        body = decompress(header.codec, batch[position + HEADER_SIZE : end], MAX_DECOMPRESSED_BYTES)
        columns = scan_records(body, 0, len(body), header.count)
    deltas = columns.offset_deltas
    if not deltas or deltas[-1] > header.last_offset_delta:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"{header.count} records, the last with offset delta {deltas[-1] if deltas else None}:"
            f" expected at most {header.last_offset_delta}",
        )
    return body, columns


class BatchFilter:
    """Filters the batches of one log by its offset map.

    - A record goes if a later record of the dirty part has its key. A record without a key goes,
      too: it was written before the topic was compacted.
    - A tombstone stays until the delete horizon of its batch. The first cleaning that retains one
      sets the horizon, delete.retention.ms after that cleaning, in place of the base timestamp
      (KIP-534).
    - A batch without records goes, unless it holds the last sequence of an active producer or is
      the last batch of the cleaned range: then its header stays, with a count of 0.
    - The records of an aborted transaction go. A marker stays as long as a batch of its transaction
      was there, and then until its delete horizon, as a tombstone does; it stays for good if it is
      the only trace of an active producer's epoch.
    - Base offset, last offset, leader epoch, producer and sequence of a batch never change.
    """

    def __init__(
        self,
        offsets: OffsetMap,
        rules: RetentionRules,
        stats: CleanerStats,
        transactions: CleanedTransactions,
    ) -> None:
        self._offsets = offsets
        self._rules = rules
        self._stats = stats
        self._transactions = transactions

    def filter(self, data: bytes, position: int, header: BatchHeader) -> Batch | None:
        """Return what is left of the batch at `position`, or None if it is removed.

        A batch lies wholly before or after the end of the offset map, which is built of whole
        batches. KafkaError if the records cannot be read.
        """
        stats = self._stats
        stats.bytes_read += header.size
        stats.records_read += header.count
        marker: EndTransactionMarker | None = None
        if header.is_control:
            marker = _marker(data, position, header)
            is_gone = self._transactions.may_remove(header, marker)
        else:
            is_gone = self._transactions.is_aborted(header)
        if header.base_offset > self._offsets.latest_offset:
            stats.records_written += header.count
            stats.bytes_written += header.size
            return data[position : position + header.size], header
        if header.is_control:
            batch = self._filter_control(data, position, header, is_gone=is_gone)
        elif header.count == 0 or is_gone:
            batch = None
        elif is_known(header, self._offsets):
            batch = self._filter_known(data, position, header)
        else:
            body, columns = open_records(data, position, header)
            kept = self._retained(header, columns)
            batch = self._rest(
                data, position, header, body, columns.starts, columns.tombstones, kept
            )
        if batch is None and self._is_needed(header):
            batch = _empty_batch(header)
        if batch is None:
            stats.changed_batches += 1
        else:
            stats.bytes_written += len(batch[0])
            stats.changed_batches += batch[1] != header
        return batch

    def _filter_control(
        self, data: bytes, position: int, header: BatchHeader, *, is_gone: bool
    ) -> Batch | None:
        """What is left of a control batch; `is_gone` tells that its transaction has no batch any
        more."""
        if header.count == 0:
            return None
        whole = data[position : position + header.size], header
        rules = self._rules
        if not is_gone or rules.last_epochs.get(header.producer_id) == header.producer_epoch:
            self._stats.records_written += header.count
            return whole
        if header.attributes & DELETE_HORIZON:
            if self._is_horizon_over(header):
                return None
            self._stats.records_written += header.count
            return whole
        body, columns = open_records(data, position, header)
        every = range(header.count)
        return self._rest(data, position, header, body, columns.starts, every, every)

    def _filter_known(self, data: bytes, position: int, header: BatchHeader) -> Batch | None:
        """What is left of a batch that `is_known`. It is opened only if a record is live; the ones
        without a key were counted when the map was built."""
        base = header.base_offset
        live = self._offsets.live_offsets(base, header.last_offset)
        if not live:
            return None
        body, starts = _open_starts(data, position, header)
        kept: Sequence[int] = [offset - base for offset in live]
        tombstones, lowest, highest = scan_some(body, starts, kept)
        max_timestamp: int | None = None
        if tombstones and self._is_horizon_over(header):
            kept = _without(kept, tombstones)
        elif header.base_timestamp + lowest >= _FIRST_MS:
            max_timestamp = header.base_timestamp + highest
        return self._rest(data, position, header, body, starts, tombstones, kept, max_timestamp)

    def _retained(self, header: BatchHeader, columns: RecordColumns) -> Sequence[int]:
        """The numbers of the records that stay."""
        base = header.base_offset
        get = self._offsets.get
        keys = columns.keys
        kept: Sequence[int] = [
            number
            for number, (key, delta) in enumerate(
                zip(map_keys(keys), columns.offset_deltas, strict=True)
            )
            if base + delta >= get(key, _NO_OFFSET)
        ]
        if None in keys:
            with_key = [number for number in kept if keys[number] is not None]
            self._stats.keyless_records += len(kept) - len(with_key)
            kept = with_key
        if columns.tombstones and self._is_horizon_over(header):
            kept = _without(kept, columns.tombstones)
        return kept

    def _is_horizon_over(self, header: BatchHeader) -> bool:
        is_set = header.attributes & DELETE_HORIZON != 0
        return is_set and self._rules.now_ms >= header.base_timestamp

    def _is_needed(self, header: BatchHeader) -> bool:
        """Whether a batch stays even without records."""
        if header.next_offset == self._rules.end_offset:
            return True
        return (
            header.has_producer
            and self._rules.last_offsets.get(header.producer_id) == header.last_offset
        )

    def _rest(
        self,
        data: bytes,
        position: int,
        header: BatchHeader,
        body: bytes,
        starts: list[int],
        tombstones: Sequence[int],
        kept: Sequence[int],
        max_timestamp: int | None = None,
    ) -> Batch | None:
        """The batch with the records `kept` only; None without any.

        `max_timestamp` is that of these records, if it is known and did not overflow.
        """
        self._stats.records_written += len(kept)
        if not kept:
            return None
        needs_horizon = (
            bool(tombstones)
            and not header.attributes & DELETE_HORIZON
            and not set(tombstones).isdisjoint(kept)
        )
        if len(kept) == header.count and not needs_horizon:
            return data[position : position + header.size], header
        records = _join(body, starts, kept)
        if needs_horizon:
            horizon_ms = self._rules.now_ms + self._rules.delete_retention_ms
            records = _shift_timestamps(records, header.base_timestamp - horizon_ms)
            header = header._replace(
                base_timestamp=horizon_ms, attributes=header.attributes | DELETE_HORIZON
            )
        if not header.attributes & LOG_APPEND_TIME:
            if max_timestamp is None or max_timestamp > _LAST_MS:
                max_timestamp = _max_timestamp(records, header.base_timestamp)
            header = header._replace(max_timestamp=max_timestamp)
        return _pack(header._replace(count=len(kept)), compress(header.codec, records))


def _marker(data: bytes, position: int, header: BatchHeader) -> EndTransactionMarker | None:
    """The marker of a control batch; None if an earlier cleaning has removed it. KafkaError if it
    cannot be read."""
    if header.count == 0:
        return None
    return read_marker(memoryview(data)[position : position + header.size])


def _open_starts(batch: bytes, position: int, header: BatchHeader) -> tuple[bytes, list[int]]:
    """Like `open_records`, for records that were read before: where they start and end."""
    end = position + header.size
    if header.codec == Codec.NONE:
        return batch, scan_starts(batch, position + HEADER_SIZE, end, header.count)
    body = decompress(header.codec, batch[position + HEADER_SIZE : end], MAX_DECOMPRESSED_BYTES)
    return body, scan_starts(body, 0, len(body), header.count)


def _without(kept: Sequence[int], gone: Sequence[int]) -> Sequence[int]:
    removed = set(gone)
    return [number for number in kept if number not in removed]


def _join(body: bytes, starts: list[int], kept: Sequence[int]) -> bytes:
    """The bytes of the records `kept`; neighbours are copied together."""
    flags = bytearray(len(starts) - 1)
    for number in kept:
        flags[number] = 1
    pieces: list[bytes] = []
    first = 0
    while (first := flags.find(1, first)) >= 0:
        last = flags.find(0, first)
        last = len(flags) if last < 0 else last
        pieces.append(body[starts[first] : starts[last]])
        first = last
    return b"".join(pieces)


def _pack(header: BatchHeader, body: bytes) -> Batch:
    batch = encode_batch(header, body)
    return batch, read_header(batch)


def _empty_batch(header: BatchHeader) -> Batch:
    """The header of a batch whose records are all gone, as Kafka writes it."""
    return _pack(
        header._replace(
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON),
            base_timestamp=NO_TIMESTAMP,
            count=0,
        ),
        b"",
    )


def _max_timestamp(records: bytes, base_timestamp: int) -> int:
    """The highest timestamp of uncompressed records."""
    highest = _FIRST_MS
    position = 0
    while position < len(records):
        length, position = read_varint(records, position)
        delta, _ = read_varint(records, position + 1)
        highest = max(highest, _wrap(base_timestamp + delta))
        position += length
    return highest


def _shift_timestamps(records: bytes, difference: int) -> bytes:
    """Uncompressed records with `difference` added to each timestamp delta."""
    pieces: list[bytes] = []
    position = 0
    while position < len(records):
        length, start = read_varint(records, position)
        delta, rest = read_varint(records, start + 1)
        position = start + length
        shifted = encode_varint(_wrap(delta + difference))
        pieces.append(encode_varint(1 + len(shifted) + position - rest))
        pieces.append(records[start : start + 1] + shifted)
        pieces.append(records[rest:position])
    return b"".join(pieces)


def _wrap(timestamp: int) -> int:
    """A 64-bit number that overflows as in Java."""
    return (timestamp - _FIRST_MS) % _ALL_MS + _FIRST_MS
