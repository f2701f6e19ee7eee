"""Verify the transaction indexes of a partition: each entry has its abort marker, and each abort
marker of a transaction that has batches has its entry."""

from collections.abc import Iterator
from pathlib import Path

from sawlog.core.errors import KafkaError
from sawlog.log_inspection.segment_reader import Problem, SegmentFile, StoredBatch
from sawlog.protocol.control_records import EndTransactionMarker, read_marker
from sawlog.storage import log_files
from sawlog.storage.open_transactions import AbortedTransaction
from sawlog.storage.transaction_index import ENTRY, error_in


def marker_of(batch: StoredBatch) -> EndTransactionMarker | None:
    """The marker of a control batch; None of any other, or if it cannot be read."""
    if not batch.header.is_control or batch.header.count == 0:
        return None
    try:
        return read_marker(batch.data)
    except KafkaError:
        return None


def read_transaction_index(path: Path) -> list[tuple[int, AbortedTransaction]]:
    """Version and content of the entries of a `.txnindex`; none if the file is missing."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    whole = len(data) - len(data) % ENTRY.size
    return [
        (version, AbortedTransaction(*fields))
        for version, *fields in ENTRY.iter_unpack(data[:whole])
    ]


class TransactionChecks:
    """The transactions of one partition, whose batches are seen in order."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._aborts: dict[int, int] = {}
        """The producer id of each abort marker of the segment, by offset."""
        self._expected: dict[int, int] = {}
        """Those of transactions that have batches."""

    def see(self, batch: StoredBatch) -> None:
        """A valid batch of the segment that is being read."""
        header = batch.header
        if not header.is_control:
            if header.is_transactional:
                self._open.add(header.producer_id)
            return
        marker = marker_of(batch)
        if marker is None:
            return
        if marker.is_abort:
            self._aborts[header.base_offset] = header.producer_id
            if header.producer_id in self._open:
                self._expected[header.base_offset] = header.producer_id
        self._open.discard(header.producer_id)

    def end_segment(self, segment: SegmentFile, end_offset: int) -> Iterator[Problem]:
        """Compare the markers of the segment, which ends at `end_offset`, with its index."""
        aborts, self._aborts = self._aborts, {}
        expected, self._expected = self._expected, {}
        path = segment.sibling(log_files.TRANSACTION_INDEX)
        previous: AbortedTransaction | None = None
        for number, (version, entry) in enumerate(read_transaction_index(path)):
            reason = error_in(segment.base_offset, previous, version, entry)
            if reason:
                yield Problem(path, number * ENTRY.size, entry.last_offset, reason)
                return
            previous = entry
            expected.pop(entry.last_offset, None)
            is_read = entry.last_offset < end_offset
            if is_read and aborts.get(entry.last_offset) != entry.producer_id:
                reason = f"no abort marker of producer {entry.producer_id} at its last offset"
                yield Problem(path, number * ENTRY.size, entry.last_offset, reason)
        # A backup has no index at all.
        if segment.sibling(log_files.INDEX).exists():
            for offset, producer_id in expected.items():
                reason = f"no entry for the abort marker of producer {producer_id}"
                yield Problem(path, 0, offset, reason)
