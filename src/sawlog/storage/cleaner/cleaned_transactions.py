"""Which batches of a cleaned log belong to aborted transactions, and which markers may go.

The batches are read in order. A marker may go once no batch of its transaction is left; that its
delete horizon is over as well is decided by `BatchFilter`.
"""

from collections import deque
from collections.abc import Iterable

from sawlog.protocol.control_records import EndTransactionMarker
from sawlog.protocol.record_batch import BatchHeader
from sawlog.storage.open_transactions import AbortedTransaction


class CleanedTransactions:
    """The transactions at the place that a cleaning has reached.

    Invariant: `_aborting` has the aborted transaction of each producer that is open at this place,
    `_seen` the producers of which a batch of their open transaction was read.

    An example with numbers. Producer 1 wrote transactional batches at 10 and 20, and an abort
    marker at 30. Both batches are aborted, and the marker stays, because they were read: only the
    next cleaning does not find them any more.
    """

    def __init__(self) -> None:
        self._next: deque[AbortedTransaction] = deque()
        self._aborting: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()
        self.kept: list[AbortedTransaction] = []
        """The aborted transactions whose markers stay and have batches, since `begin`."""

    def begin(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Go on with segments that have records of these aborted transactions."""
        known = set(self._aborting.values())
        fresh = sorted(set(aborted) - known, key=lambda entry: entry.first_offset)
        self._next = deque(fresh)
        self.kept = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch, which is no marker, belongs to an aborted transaction."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        self._seen.add(header.producer_id)
        return header.producer_id in self._aborting

    def may_remove(self, header: BatchHeader, marker: EndTransactionMarker | None) -> bool:
        """Whether no batch of the transaction that a control batch ends is left. `marker` is None
        if an earlier cleaning has removed it."""
        self._advance(header.last_offset)
        if marker is None:
            return True
        aborted = self._aborting.pop(header.producer_id, None) if marker.is_abort else None
        if header.producer_id not in self._seen:
            return True
        self._seen.discard(header.producer_id)
        if aborted is not None:
            self.kept.append(aborted)
        return False

    def _advance(self, offset: int) -> None:
        while self._next and self._next[0].first_offset <= offset:
            aborted = self._next.popleft()
            self._aborting.setdefault(aborted.producer_id, aborted)
