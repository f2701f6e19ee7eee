"""Puts a cleaned segment in the place of the segments that it was made from, as Kafka does.

Files change their names in steps that a crash may interrupt anywhere. Only `.cleaned` files:
nothing has happened yet, and recovery removes them. A `.swap` file: it counts, and recovery removes
the old segments within its range and gives it its final name (`complete_swaps`).
"""

from collections.abc import Callable, Sequence
from enum import Enum

from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Disk, DiskError, Timer, TooManyOpenFiles
from sawlog.storage.log_files import (
    DELETED,
    LOG,
    SEGMENT_SUFFIXES,
    SWAP,
    offset_name,
    parse_offset_name,
)
from sawlog.storage.segment import Segment

logger = EventLogger(__name__)

RETRY_MS = 1_000
"""Delay before a sync that had no descriptor is tried again."""

OnSwapped = Callable[[DiskError | None], None]
EndOf = Callable[[int], int]
"""The offset after the last record of the segment with this base offset."""


class _Step(Enum):
    MARKING = 1  # the new files are `.swap`, perhaps not durably
    REPLACING = 2  # the old files are `.deleted`, perhaps not durably
    NAMING = 3  # the log has the new segment, whose files have their final names
    OVER = 4


class SegmentSwap:
    """One replacement, in three steps; after each of them the directory is synced, off the loop.

    1. The files of the new segment go from `.cleaned` to `.swap`: from now on it counts.
    2. The old files become `.deleted`. If one came back later, beside the new segment in its final
       place, offsets would be there twice.
    3. In memory the new segment replaces the old ones, and its files get their final names.

    Invariant: from `NAMING` on, the log consists of the new segment's batches; before that, of the
    old ones', so that a record that a reader missed does not come back after a power loss. `settle`
    may be called at any time and ends the swap before it returns.
    """

    def __init__(
        self,
        disk: Disk,
        timer: Timer,
        directory: str,
        old: Sequence[Segment],
        new: Segment,
        *,
        on_replaced: Callable[[], None],
        on_done: OnSwapped,
    ) -> None:
        """`new` has the suffix `.cleaned`. `on_replaced` puts it into the log and is called when
        the old files are durably renamed; `on_done` is called once, unless `settle` is called."""
        self._disk = disk
        self._timer = timer
        self._directory = directory
        self._old = old
        self._new = new
        self._on_replaced = on_replaced
        self._on_done = on_done
        self._step = _Step.MARKING

    def begin(self) -> None:
        """DiskError if the files cannot be renamed; the log is as it was then."""
        self._new.change_suffix(self._disk, self._directory, SWAP)
        self._sync()

    def settle(self) -> None:
        """End the swap at once, because the log is about to change otherwise: undo it if the old
        files are in their place, else finish it. DiskError where that fails."""
        step, self._step = self._step, _Step.OVER
        if step is _Step.MARKING:
            self._new.remove(self._disk, self._directory)
            self._disk.sync_directory(self._directory)
        elif step is _Step.REPLACING:
            self._disk.sync_directory(self._directory)
            self._replace()
            self._disk.sync_directory(self._directory)
        elif step is _Step.NAMING:
            self._disk.sync_directory(self._directory)

    def _replace(self) -> None:
        self._on_replaced()
        self._new.change_suffix(self._disk, self._directory, "")

    def abandon(self) -> None:
        """Leave the files as they are."""
        self._step = _Step.OVER

    def _sync(self) -> None:
        if self._step is not _Step.OVER:
            self._disk.sync_directory_later(self._directory, self._synced)

    def _synced(self, error: DiskError | None) -> None:
        if self._step is _Step.OVER:
            return
        if isinstance(error, TooManyOpenFiles):  # the sync was not attempted
            self._timer.after(RETRY_MS, self._sync)
            return
        try:
            if error is not None:
                raise error
            if self._step is _Step.MARKING:
                self._step = _Step.REPLACING
                for segment in self._old:
                    segment.change_suffix(self._disk, self._directory, DELETED)
            elif self._step is _Step.REPLACING:
                self._replace()
                self._step = _Step.NAMING
            else:
                self._step = _Step.OVER
                self._on_done(None)
                return
        except DiskError as failure:
            self._step = _Step.OVER
            self._on_done(failure)
            return
        self._sync()


def complete_swaps(disk: Disk, directory: str, names: list[str], next_offset: EndOf) -> list[str]:
    """At a start: finish every swap that a crash interrupted, and remove unfinished cleaned files.

    `next_offset` returns the end of a `.swap` segment. Returns the names that are left.
    """
    swapped = sorted(
        parsed[0]
        for name in names
        if name.endswith(SWAP) and (parsed := parse_offset_name(name.removesuffix(SWAP)))
        if parsed[1] == LOG
    )
    for base_offset in swapped:
        end_offset = next_offset(base_offset)
        logger.info(
            "interrupted swap of a cleaned segment finished",
            path=f"{directory}/{offset_name(base_offset, LOG)}",
            end_offset=end_offset,
        )
        for name in names:
            parsed = parse_offset_name(name)
            if (
                parsed is not None
                and parsed[1] in SEGMENT_SUFFIXES
                and base_offset <= parsed[0] < max(end_offset, base_offset + 1)
            ):
                disk.remove(f"{directory}/{name}")
    if swapped:
        disk.sync_directory(directory)
    has_changed = bool(swapped)
    for name in names:
        if not name.endswith(SWAP):
            continue
        parsed = parse_offset_name(name.removesuffix(SWAP))
        has_changed = True
        if parsed is not None and parsed[0] in swapped:
            disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
        else:  # an index whose log file was not renamed any more
            disk.remove(f"{directory}/{name}")
    if swapped:
        disk.sync_directory(directory)
    return disk.list(directory) if has_changed else names
