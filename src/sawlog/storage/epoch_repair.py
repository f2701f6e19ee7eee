"""Holding the leader epochs of a log against its batches.

The checkpoint is text without a checksum: what it says is checked before replication goes by it,
and completed or rebuilt from the batches' headers where it is wrong.
"""

from typing import TYPE_CHECKING

from sawlog.core.event_logger import EventLogger
from sawlog.storage import trimming
from sawlog.storage.epochs import LeaderEpochs
from sawlog.storage.scan import Damage

if TYPE_CHECKING:
    from sawlog.protocol.record_batch import BatchHeader
    from sawlog.storage.log import Log

events = EventLogger(__name__)


def complete(log: "Log") -> None:
    """Adds the epochs of batches before the first known one, from the batches: all of them where
    the checkpoint told nothing, else those that a start offset which a crash took back had hidden.
    The file is written before the next append."""
    known = log.epochs.entries
    limit_offset = known[0].start_offset if known else log.end_offset
    if limit_offset <= log.start_offset:
        return
    _rebuild(log, limit_offset)
    for entry in known:
        if entry.epoch > log.epochs.latest:
            log.epochs.assign(*entry)


def check(log: "Log") -> bool:
    """Rebuilds all entries if one of them is not where the batches have it; then all is well."""
    previous = -1
    for epoch, start_offset in log.epochs.entries:
        if start_offset < log.end_offset and not _is_true(log, previous, epoch, start_offset):
            events.warning("leader epochs rebuilt", log=str(log.tp), wrong=(epoch, start_offset))
            led = log.epochs.entries[-1]
            _rebuild(log, log.end_offset)
            if led.start_offset >= log.end_offset:  # assigned, but nothing written in it yet
                log.epochs.assign(*led)
            return True
        previous = epoch
    return True


def _is_true(log: "Log", previous: int, epoch: int, start_offset: int) -> bool:
    """Whether the record at the start has the epoch, and the one before it the one before."""
    found = _epoch_of(log, start_offset)
    if found is not None and found != epoch:
        return False
    if start_offset <= log.start_offset:
        return True
    before = _epoch_of(log, start_offset - 1)
    return before is None or (before == previous if previous >= 0 else before < epoch)


def _epoch_of(log: "Log", offset: int) -> int | None:
    """None where damage or a gap of compaction leaves it open."""
    segment = log.segments[log.segment_index_for(offset)]
    try:
        header: BatchHeader = segment.batch_at(segment.position_of(offset))
    except Damage:
        return None
    return header.leader_epoch if header.base_offset <= offset else None


def _rebuild(log: "Log", limit_offset: int) -> None:
    log.epochs = LeaderEpochs()
    log.epochs_changed()
    for header in trimming.headers_between(log, log.start_offset, limit_offset):
        if header.leader_epoch > log.epochs.latest:
            log.epochs.assign(header.leader_epoch, max(header.base_offset, log.start_offset))
