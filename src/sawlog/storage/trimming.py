"""Making a log shorter: from its end (truncate), from its start (DeleteRecords, retention).

A cut at the end is durable before it returns, and the checkpoint claims less before anything is
cut: batches that are appended where others were must never hide behind an old recovery point.
At the start one segment after the other is unlinked, each durably before the next: the disk may
forget a removal, and what comes back after a crash must not leave a gap.
"""

from typing import TYPE_CHECKING

from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import DiskError
from sawlog.storage import refusals, rolling
from sawlog.storage.producers import ProducerStates
from sawlog.storage.scan import Damage
from sawlog.storage.segment import NO_TIMESTAMP, Segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sawlog.protocol.record_batch import BatchHeader
    from sawlog.storage.log import Log

events = EventLogger(__name__)


def truncate(log: "Log", offset: int) -> None:
    if offset >= log.end_offset:
        return
    try:
        _cut_files(log, max(offset, log.bases[0]))
    except Damage as damage:
        raise refusals.damaged(log.tp, damage) from damage
    except DiskError as error:
        raise log.refusal(error) from error


def _cut_files(log: "Log", offset: int) -> None:
    number = log.segment_index_for(offset)
    segment = log.segments[number]
    position = segment.position_of(offset)
    end_offset = offset
    if position < segment.file.size:
        end_offset = min(offset, segment.batch_at(position).base_offset)
    events.info(
        "log truncated", log=str(log.tp), from_offset=end_offset, old_end_offset=log.end_offset
    )
    log.home.lower_checkpoints(log, end_offset)
    log.flushed_offset = min(log.flushed_offset, end_offset)
    log.commit.cut(end_offset)
    log.generation += 1
    log.stop()

    removed = log.segments[number + 1 :]
    log.commit.forget(file for later in removed for file in later.files())
    for later in reversed(removed):
        later.remove(log.home.disk, log.directory)
    segment.file.truncate(position)
    segment.file.sync()
    for replayed_at, header in segment.batches_from(segment.resume(end_offset)):
        segment.replay(replayed_at, header)
    log.adopt(log.segments[: number + 1])
    log.end_offset = end_offset
    log.start_offset = min(log.start_offset, end_offset)
    log.high_watermark = min(log.high_watermark, end_offset)
    if log.epochs.truncate_end(end_offset):
        log.epochs_changed()
    log.snapshots.remove_above(end_offset)
    log.home.disk.sync_directory(log.directory)
    reload_producers(log, end_offset)


def reload_producers(log: "Log", end_offset: int) -> None:
    """The producer state at `end_offset`: the newest snapshot at or below it, then the batches.

    A snapshot from before the first segment is of no use: what came between is gone.
    """
    log.producers = ProducerStates()
    log.snapshots.remove_below(log.bases[0])
    loaded = log.snapshots.load(log.producers, end_offset)
    offset = log.bases[0] if loaded is None else loaded
    now_ms = log.home.clock.now_ms()
    for header in headers_between(log, offset, end_offset):
        if header.producer_id >= 0 and not header.is_control:
            log.producers.update(header, header.base_offset, header.max_timestamp, now_ms)
    log.producers.expire(now_ms, log.config.producer_id_expiration_ms)


def headers_between(log: "Log", offset: int, end_offset: int) -> "Iterator[BatchHeader]":
    """The headers of all batches in a range of offsets, over segments and past damage."""
    if offset >= end_offset:
        return
    for segment in log.segments[log.segment_index_for(offset) :]:
        try:
            start = segment.position_of(offset)
        except Damage:  # right there: begin before it
            start = 0
        for _, header in segment.undamaged_from(start):
            if header.base_offset >= end_offset:
                return
            if header.last_offset >= offset:
                yield header


def advance_start(log: "Log", offset: int) -> None:
    if offset <= log.start_offset:
        return
    if offset > log.end_offset:
        raise refusals.out_of_range(log.tp, log.start_offset, log.end_offset, offset)
    log.start_offset = offset
    if log.epochs.truncate_start(offset):
        log.epochs_changed()
    _remove_oldest(log, log.segment_index_for(offset))
    log.home.start_moved(log)


def retain(log: "Log", now_ms: int, limit_offset: int) -> list[str]:
    config = log.config
    expired = _below(log, log.start_offset)
    if "delete" in config.cleanup_policy:
        if config.retention_bytes >= 0:
            expired = max(expired, _oversized(log, config.retention_bytes))
        if config.retention_ms >= 0:
            expired = max(expired, _outdated(log, now_ms - config.retention_ms))
    expired = min(expired, _below(log, limit_offset))
    if expired == 0:
        return []
    if expired == len(log.segments):
        try:
            rolling.roll(log, log.end_offset)
        except DiskError as error:
            raise log.refusal(error) from error
    first_kept = log.segments[expired].base_offset
    if first_kept > log.start_offset:
        log.start_offset = first_kept
        if log.epochs.truncate_start(first_kept):
            log.epochs_changed()
    removed = _remove_oldest(log, expired)
    log.home.start_moved(log)
    return removed


def _below(log: "Log", offset: int) -> int:
    """How many of the oldest segments lie wholly below; all, if the whole log does and is not
    empty already."""
    if offset >= log.end_offset:
        return len(log.segments) - (log.active.file.size == 0)
    return log.segment_index_for(offset)


def _oversized(log: "Log", retention_bytes: int) -> int:
    """How many of the oldest can go with at least `retention_bytes` left."""
    surplus = log.size_bytes - retention_bytes
    count = 0
    for segment in log.segments:
        surplus -= segment.file.size
        if surplus < 0:
            break
        count += 1
    return count


def _outdated(log: "Log", oldest_kept_ms: int) -> int:
    """How many of the oldest hold no record as young as that."""
    count = 0
    for segment in log.segments:
        if not _is_older(segment, oldest_kept_ms):
            break
        count += 1
    return count


def _is_older(segment: Segment, oldest_kept_ms: int) -> bool:
    segment.load_times()
    newest = segment.max_timestamp
    if newest == NO_TIMESTAMP:  # no record has a time: the segment's own counts
        newest = segment.created_ms
    return newest < oldest_kept_ms


def _remove_oldest(log: "Log", count: int) -> list[str]:
    """Takes the first `count` segments out of the log, never the active one; returns the names of
    the files that go."""
    count = min(count, len(log.segments) - 1)
    if count <= 0:
        return []
    doomed, kept = log.segments[:count], log.segments[count:]
    log.adopt(kept)
    log.doomed += doomed
    log.flushed_offset = max(log.flushed_offset, kept[0].base_offset)
    log.commit.forget(file for segment in doomed for file in segment.files())
    events.info(
        "segments removed",
        log=str(log.tp),
        count=count,
        start_offset=log.start_offset,
        first_kept=kept[0].base_offset,
    )
    remove_doomed(log)
    return [name for segment in doomed for name in segment.names()]


def remove_doomed(log: "Log") -> None:
    """Unlinks the doomed segments, oldest first, off the loop; slices under way keep theirs.

    Each unlink waits until the directory is synced: the one before it, of an earlier process
    perhaps, is then durable.
    """
    if log.doomed and not log.is_removing:
        log.is_removing = True
        log.home.disk.sync_directory_later(log.directory, lambda error: _remove_next(log, error))


def _remove_next(log: "Log", error: DiskError | None) -> None:
    log.is_removing = False
    if log.is_closed or not log.doomed:
        return
    try:
        if error is not None:
            raise error
        log.doomed.pop(0).remove(log.home.disk, log.directory)
        if not log.doomed:
            log.snapshots.remove_below(log.bases[0])
    except DiskError as failure:
        log.refusal(failure)
        return
    remove_doomed(log)


def remove_doomed_now(log: "Log") -> None:
    """The same before it returns, for the end."""
    while log.doomed:
        log.home.disk.sync_directory(log.directory)
        log.doomed.pop(0).remove(log.home.disk, log.directory)
