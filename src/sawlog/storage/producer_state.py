"""The state of a log's producers and their transactions, and the format of its snapshot file.

Promise: a (producer id, epoch, sequence) is appended once. A batch is checked against the last five
of its producer; a duplicate is recognised and the offset of the first append returned. The state is
a function of the log's batches in order: rebuilt from them it equals the live one.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.checksum import crc32c
from sawlog.protocol.control_records import EndTransactionMarker
from sawlog.protocol.record_batch import TRANSACTIONAL, BatchHeader
from sawlog.storage.log_files import CorruptFile

BATCHES_KEPT = 5
NO_OFFSET = -1
SEQUENCES = 2**31
LAST_EPOCH = 2**15 - 1
FIRST_VERSION_WITH_BUMPED_MARKERS = 2
"""From this transaction version on a marker has a higher epoch than the records (KIP-1228)."""

_VERSION = 1
_PREFIX = struct.Struct(">hIi")  # version, CRC of the rest of the file, number of entries
_CRC_START = 6
# id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, transaction
_ENTRY = struct.Struct(">qhiqiqiq")


_new = tuple.__new__


class BatchRange(NamedTuple):
    """The sequences and offsets of one appended batch, both ends included."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


@dataclass(slots=True)
class ProducerState:
    """The state of one producer id: its epoch and its last batches of that epoch, oldest first.

    `seen_ms` is the time of its last append by the broker's clock. Batch timestamps are set by the
    producer and can be old, for example when it copies records.
    """

    epoch: int
    batches: list[BatchRange] = field(default_factory=list)
    seen_ms: int = -1
    coordinator_epoch: int = -1  # of the last marker
    current_txn_first_offset: int = NO_OFFSET


class ProducerStates:
    """All producers of one log, in the order in which they first wrote.

    A snapshot holds one entry per kept batch, the oldest of a producer first. Kafka keeps only the
    last batch and uses the last entry of an id, so it can read these files; Sawlog restores all
    five and recognises every duplicate after a restart. The timestamp of the last entry of a
    producer is its `seen_ms`.
    """

    __slots__ = ("_states", "is_changed")

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self.is_changed = False  # since the last snapshot

    @property
    def states(self) -> Mapping[int, ProducerState]:
        return self._states

    def __len__(self) -> int:
        return len(self._states)

    def has_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has an open transaction of this epoch."""
        state = self._states.get(producer_id)
        return state is not None and state.current_txn_first_offset >= 0 and state.epoch == epoch

    def open_transactions(self) -> list[tuple[int, int]]:
        """The first offset of each open transaction, with its producer id."""
        return [
            (state.current_txn_first_offset, producer_id)
            for producer_id, state in self._states.items()
            if state.current_txn_first_offset >= 0
        ]

    def last_offsets(self, end_offset: int | None = None) -> dict[int, int]:
        """The last offset of each producer's last batch; with `end_offset`, of the last one that
        ends before it. A producer without such a batch is left out."""
        last: dict[int, int] = {}
        for producer_id, state in self._states.items():
            for batch in state.batches:
                if end_offset is None or batch.last_offset < end_offset:
                    last[producer_id] = batch.last_offset
        return last

    def check(self, header: BatchHeader) -> BatchRange | None:
        """Check a batch before its append: returns the earlier range if it is a duplicate, raises
        KafkaError if it is not the producer's next one.

        An unknown producer may begin with any sequence: its records may have been removed by
        retention or its state expired, as in Kafka.
        """
        state = self._states.get(header[9])
        if state is None:
            return None
        first = header[11]
        if header[10] == state.epoch:
            batches = state.batches
            expected = (batches[-1][1] + 1) % SEQUENCES if batches else 0
            if first == expected:
                if state.current_txn_first_offset >= 0:
                    _check_kind(header)
                return None
            duplicate = _duplicate(header, state)
            if duplicate is not None:
                return duplicate
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence {first}, expected {expected}",
            )
        self.check_epoch(header.producer_id, header.producer_epoch)
        if first != 0:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} begins epoch {header.producer_epoch} with"
                f" sequence {first}, expected 0",
            )
        if state.current_txn_first_offset >= 0:
            _check_kind(header)
        return None

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """INVALID_PRODUCER_EPOCH if `epoch` is older than the producer's."""
        state = self._states.get(producer_id)
        if state is not None and epoch < state.epoch:
            raise _fenced(producer_id, epoch, state)

    def duplicate(self, header: BatchHeader) -> BatchRange | None:
        """The earlier range of a batch that is one of the last five of its producer."""
        state = self._states.get(header.producer_id)
        if state is None or state.epoch != header.producer_epoch:
            return None
        return _duplicate(header, state)

    def check_marker(
        self, header: BatchHeader, marker: EndTransactionMarker, transaction_version: int
    ) -> None:
        """Check a marker of a coordinator: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.

        With transaction version 2 its epoch is higher than that of the records. The epoch of the
        last transaction is accepted once more: the coordinator repeats a marker whose response was
        lost (KAFKA-19999), and the highest epoch of all cannot be bumped.
        """
        state = self._states.get(header.producer_id)
        if state is None:
            return
        epoch = header.producer_epoch
        is_repeated = epoch == state.epoch and (
            transaction_version < FIRST_VERSION_WITH_BUMPED_MARKERS
            or state.current_txn_first_offset < 0
            or epoch == LAST_EPOCH
        )
        if epoch <= state.epoch and not is_repeated:
            raise _fenced(header.producer_id, epoch, state)
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker for producer {header.producer_id} has coordinator epoch"
                f" {marker.coordinator_epoch}, older than the current epoch"
                f" {state.coordinator_epoch}",
            )

    def update(self, header: BatchHeader, base_offset: int, timestamp: int, seen_ms: int) -> None:
        """Record a batch after its append, or while the log is replayed."""
        self.is_changed = True
        producer_id, epoch, first = header[9], header[10], header[11]
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(epoch)
        elif state.epoch != epoch:
            state.epoch = epoch
            state.batches.clear()
        batches = state.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        delta = header[6]
        last = (first + delta) % SEQUENCES if first >= 0 else -1
        batches.append(_new(BatchRange, (first, last, base_offset, base_offset + delta, timestamp)))
        state.seen_ms = seen_ms

    def begin_transaction(self, producer_id: int, first_offset: int) -> bool:
        """Record that a transactional batch was appended, after its `update`; returns whether it is
        the first of its transaction."""
        state = self._states[producer_id]
        if state.current_txn_first_offset >= 0:
            return False
        state.current_txn_first_offset = first_offset
        return True

    def end_transaction(
        self, header: BatchHeader, marker: EndTransactionMarker, seen_ms: int
    ) -> int | None:
        """Record a marker after its append, or while the log is replayed; returns the first offset
        of the transaction that it ends, if one is open."""
        self.is_changed = True
        epoch = header.producer_epoch
        state = self._states.get(header.producer_id)
        if state is None:
            state = self._states[header.producer_id] = ProducerState(epoch)
        elif state.epoch != epoch:
            state.epoch = epoch
            state.batches.clear()
        first_offset = state.current_txn_first_offset
        state.current_txn_first_offset = NO_OFFSET
        state.coordinator_epoch = marker.coordinator_epoch
        state.seen_ms = seen_ms
        return first_offset if first_offset >= 0 else None

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers that wrote nothing for `expiration_ms`; returns how many.

        Kafka compares the timestamps of batches, so a restart removes a producer of old records
        and its retry is appended twice. Here a batch that is replayed after a crash counts as
        written now.
        """
        expired = [
            producer_id
            for producer_id, state in self._states.items()
            if state.current_txn_first_offset < 0 and now_ms - state.seen_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self._states[producer_id]
        self.is_changed = self.is_changed or bool(expired)
        return len(expired)

    def equals_except_timestamps(self, other: "ProducerStates") -> bool:
        """Whether both hold the same producers and batches, whatever their timestamps."""
        return _without_timestamps(self._states) == _without_timestamps(other.states)

    def mark_saved(self) -> None:
        """A snapshot of this state is on disk or about to be."""
        self.is_changed = False

    def mark_changed(self) -> None:
        """No snapshot of this state is on disk."""
        self.is_changed = True

    def clear(self) -> None:
        self._states.clear()
        self.is_changed = True

    def encode(self) -> bytes:
        """The snapshot file, Kafka's version 1."""
        entries = [
            entry
            for producer_id, state in self._states.items()
            for entry in _pack(producer_id, state)
        ]
        body = b"".join(entries)
        count = struct.pack(">i", len(entries))
        return struct.pack(">hI", _VERSION, crc32c(count + body)) + count + body

    def load(self, data: bytes) -> None:
        """Replace the state by that of a snapshot file; CorruptFile, and nothing has changed."""
        if len(data) < _PREFIX.size:
            raise CorruptFile(f"a snapshot of {len(data)} bytes")
        version, crc, count = _PREFIX.unpack_from(data)
        if version != _VERSION or crc != crc32c(data[_CRC_START:]):
            raise CorruptFile("not a snapshot of version 1, or its CRC does not match")
        if count < 0 or len(data) != _PREFIX.size + count * _ENTRY.size:
            raise CorruptFile(f"{count} entries in {len(data)} bytes")
        states: dict[int, ProducerState] = {}
        for entry in _ENTRY.iter_unpack(data[_PREFIX.size :]):
            _load_entry(states, *entry)
        self._states = states
        self.is_changed = False


def _duplicate(header: BatchHeader, state: ProducerState) -> BatchRange | None:
    first, last = header.base_sequence, header.last_sequence
    for kept in state.batches:
        if kept.first_sequence == first and kept.last_sequence == last:
            return kept
    return None


def _check_kind(header: BatchHeader) -> None:
    """INVALID_TXN_STATE for a plain batch of a producer with an open transaction."""
    if not header[5] & TRANSACTIONAL:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {header.producer_id} has an open transaction, but sent a batch that is not"
            " transactional",
        )


def _fenced(producer_id: int, epoch: int, state: ProducerState) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {producer_id} has epoch {epoch}; the current epoch is {state.epoch}",
    )


def _without_timestamps(states: Mapping[int, ProducerState]) -> list[tuple[object, ...]]:
    return [
        (
            producer_id,
            state.epoch,
            state.coordinator_epoch,
            state.current_txn_first_offset,
            [batch[:-1] for batch in state.batches],
        )
        for producer_id, state in states.items()
    ]


def _pack(producer_id: int, state: ProducerState) -> list[bytes]:
    epoch, coordinator, transaction = (
        state.epoch,
        state.coordinator_epoch,
        state.current_txn_first_offset,
    )
    if not state.batches:
        return [
            _ENTRY.pack(
                producer_id, epoch, -1, NO_OFFSET, 0, state.seen_ms, coordinator, transaction
            )
        ]
    newest = state.batches[-1]
    return [
        _ENTRY.pack(
            producer_id,
            epoch,
            batch.last_sequence,
            batch.last_offset,
            batch.last_offset - batch.first_offset,
            state.seen_ms if batch is newest else batch.timestamp,
            coordinator,
            transaction,
        )
        for batch in state.batches
    ]


def _load_entry(
    states: dict[int, ProducerState],
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    transaction: int,
) -> None:
    state = states.get(producer_id)
    if state is None or state.epoch != epoch:
        state = states[producer_id] = ProducerState(epoch)
    state.seen_ms = timestamp
    state.coordinator_epoch = coordinator_epoch
    state.current_txn_first_offset = transaction
    if last_offset >= 0:
        first_sequence = (last_sequence - offset_delta) % SEQUENCES if last_sequence >= 0 else -1
        state.batches.append(
            BatchRange(
                first_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp
            )
        )
        del state.batches[:-BATCHES_KEPT]
