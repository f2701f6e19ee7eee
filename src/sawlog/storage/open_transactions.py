"""The transactions of one log that hold its last stable offset back.

An example with numbers. Producer 1 begins a transaction at offset 10, producer 2 at 12; the first
unstable offset is 10. An abort marker of producer 1 at 14 is written while the high watermark is
13: the transaction is decided, but its marker may still be lost, and the first unstable offset
stays 10. With the high watermark at 15 it is 12.
"""

from collections.abc import Iterable
from typing import NamedTuple


class AbortedTransaction(NamedTuple):
    """An aborted transaction of one log, as in `.txnindex`."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the abort marker."""
    last_stable_offset: int
    """The first offset of the oldest transaction that was open after the marker; if there was none,
    the offset after the marker."""


class OpenTransactions:
    """The transactions without a marker, and those whose marker is not committed yet.

    Invariant: `_ongoing` is ordered by first offset, because transactions begin at the log end.
    """

    __slots__ = ("_ongoing", "_uncommitted", "first_unstable")

    def __init__(self) -> None:
        self._ongoing: dict[int, int] = {}
        """The producer id by the first offset of its transaction."""
        self._uncommitted: dict[int, int] = {}
        """The offset of the marker by first offset, in the order of the markers."""
        self.first_unstable: int | None = None
        """The first offset of the oldest of both; None without any."""

    def load(self, ongoing: Iterable[tuple[int, int]]) -> None:
        """Replace the content by open transactions, as pairs of first offset and producer id."""
        self._ongoing = dict(sorted(ongoing))
        self._uncommitted = {}
        self._update()

    def begin(self, first_offset: int, producer_id: int) -> None:
        """A transactional batch at `first_offset` begins a transaction."""
        self._ongoing[first_offset] = producer_id
        if self.first_unstable is None:
            self.first_unstable = first_offset

    def next_after(self, first_offset: int) -> int | None:
        """The first offset of the oldest other open transaction."""
        return next((other for other in self._ongoing if other != first_offset), None)

    def complete(self, first_offset: int, marker_offset: int) -> None:
        """The marker at `marker_offset` ends the transaction that began at `first_offset`."""
        del self._ongoing[first_offset]
        self._uncommitted[first_offset] = marker_offset

    def commit(self, high_watermark: int) -> None:
        """Forget the transactions whose marker lies below the high watermark."""
        committed = [
            first for first, marker in self._uncommitted.items() if marker < high_watermark
        ]
        for first in committed:
            del self._uncommitted[first]
        if committed:
            self._update()

    def _update(self) -> None:
        ongoing = next(iter(self._ongoing), None)
        uncommitted = min(self._uncommitted, default=None)
        if ongoing is None or (uncommitted is not None and uncommitted < ongoing):
            self.first_unstable = uncommitted
        else:
            self.first_unstable = ongoing
