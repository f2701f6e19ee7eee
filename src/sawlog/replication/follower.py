"""One replica that follows one leader in one leader epoch.

It appends the bytes that it fetches as they are, truncates its log where the leader's differs
(KIP-101, KIP-279, KIP-595), and takes over the leader's high watermark and log start offset.

An example with numbers. A follower has the epochs (0, 0) (1, 10) and ends at 15; its new leader has
(0, 0) (2, 12) and ends at 20. The first fetch of the epoch carries fetch offset 15 and last fetched
epoch 1. The leader has no epoch 1, so it answers with the diverging epoch 0, which ends at 12
there. At the follower epoch 0 ends at 10: it truncates to 10, and the next fetch (10, epoch 0)
agrees with the leader's log.
"""

from collections.abc import Callable
from typing import NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import LeaderEpoch, NodeId, Offset
from sawlog.protocol.record_batch import (
    HEADER_SIZE,
    BatchHeader,
    batches_in,
    check_crc,
    read_header,
)
from sawlog.storage.leader_epochs import EpochEntry
from sawlog.storage.log import Log
from sawlog.storage.log_config import FOREVER

logger = EventLogger(__name__)

UNKNOWN = -1
QUIET_FLUSH_MS = 50
"""How long fetched records may stay unflushed while no request waits for their commit."""


class TruncationRefused(Exception):
    """The leader's log lacks records that were committed; this replica keeps its own."""


class FetchPosition(NamedTuple):
    """What a fetch says about this replica."""

    fetch_offset: Offset
    last_fetched_epoch: int
    flushed_offset: int  # -1 if flushes do not matter for the commit
    log_start_offset: int


class Follower:
    """A replica that follows `leader` in `epoch`.

    Invariants: the log is a prefix of the leader's as far as the leader has confirmed it, and the
    high watermark moves only over that part, never back; no batch has an epoch above `epoch`; a
    truncation goes below the high watermark only where commits can be lost.

    The own high watermark is a lower bound of the true one. A clean leader has everything below
    the true one, so a truncation below the own one needs an unclean election after the epoch of the
    own last record. `unclean_epoch` is the leader epoch of the last one.
    """

    __slots__ = (
        "_commits_on_flush",
        "_high_watermark_moved",
        "_on_flushed",
        "_unclean_epoch",
        "epoch",
        "leader",
        "leader_high_watermark",
        "log",
    )

    def __init__(
        self,
        log: Log,
        leader: NodeId,
        epoch: LeaderEpoch,
        *,
        commits_on_flush: bool,
        unclean_epoch: int,
        high_watermark_moved: Callable[[], None],
    ) -> None:
        self.log = log
        self.leader = leader
        self.epoch = epoch
        self._commits_on_flush = commits_on_flush
        self._unclean_epoch = unclean_epoch
        self._high_watermark_moved = high_watermark_moved
        self._on_flushed: Callable[[], None] | None = None
        self.leader_high_watermark = UNKNOWN  # of the last response
        log.remove_unused_epoch()

    # What the next fetch carries

    @property
    def position(self) -> FetchPosition:
        log = self.log
        return FetchPosition(
            Offset(log.end_offset),
            log.epochs.latest if log.end_offset > log.start_offset else -1,
            log.flushed_offset if self._commits_on_flush else -1,
            log.start_offset,
        )

    @property
    def lag(self) -> int:
        """The committed records that this replica does not have yet, as far as it knows."""
        return max(self.leader_high_watermark - self.log.end_offset, 0)

    @property
    def has_response(self) -> bool:
        """Whether the leader has answered a fetch in this epoch."""
        return self.leader_high_watermark != UNKNOWN

    @property
    def has_committed_records(self) -> bool:
        """Whether this replica has, flushed where that counts, all records that were committed at
        the leader's last response; False before the first one."""
        reached = self.log.flushed_offset if self._commits_on_flush else self.log.end_offset
        return 0 <= self.leader_high_watermark <= reached

    # Responses of the leader

    def append(
        self,
        records: memoryview,
        *,
        leader_high_watermark: int,
        leader_start_offset: int,
        is_awaited: bool,
    ) -> int:
        """Append the batches of a response, and follow the leader's high watermark and log start
        offset. Returns the number of bytes appended.

        Batches that are in the log already are skipped: the leader may answer two fetches in
        flight with the same ones. CORRUPT_MESSAGE at a bad batch, KAFKA_STORAGE_ERROR if the disk
        refuses; the batches before it are appended. No CRC covers length and offset of a batch: the
        first one has to be whole, and none may reach beyond the start of the next one.
        """
        appended = 0
        end = 0
        try:
            for position, header in batches_in(records):
                end = position + header.size
                has_next = end + HEADER_SIZE <= len(records)
                if has_next and read_header(records, end).base_offset < header.next_offset:
                    raise self._corrupt(header)
                if header.next_offset > self.log.end_offset:
                    check_crc(records, header, position)
                    self._append_batch(records[position:end], header)
                    appended += header.size
            if records and not end:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"no whole batch in {len(records)} bytes for offset {self.log.end_offset}",
                )
        finally:
            if appended or is_awaited:
                self.request_flush(is_awaited=is_awaited)
        self._follow_start(leader_start_offset)
        self._follow_high_watermark(leader_high_watermark)
        return appended

    def _append_batch(self, batch: memoryview, header: BatchHeader) -> None:
        log = self.log
        if header.last_offset_delta < 0 or not log.epochs.latest <= header.leader_epoch:
            raise self._corrupt(header)
        if header.leader_epoch > self.epoch:
            raise self._corrupt(header)
        if header.base_offset < log.end_offset:
            if log.start_offset < log.end_offset:
                raise self._corrupt(header)
            # The leader's log starts inside this batch, after a DeleteRecords.
            log.restart_at(header.base_offset)
        log.append_as_follower(batch, header)

    def _corrupt(self, header: BatchHeader) -> KafkaError:
        log = self.log
        return KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"a batch of epoch {header.leader_epoch} with offsets {header.base_offset} to"
            f" {header.last_offset} cannot follow offset {log.end_offset} and epoch"
            f" {log.epochs.latest} in epoch {self.epoch}",
        )

    def _follow_start(self, leader_start_offset: int) -> None:
        log = self.log
        if leader_start_offset > log.end_offset:
            log.restart_at(leader_start_offset)
        elif leader_start_offset > log.start_offset:
            log.advance_start(leader_start_offset)

    def _follow_high_watermark(self, leader_high_watermark: int) -> None:
        log = self.log
        self.leader_high_watermark = leader_high_watermark
        watermark = min(leader_high_watermark, log.end_offset)
        if watermark > log.high_watermark:
            log.set_high_watermark(watermark)
            self._high_watermark_moved()

    # Truncation

    def truncate(self, diverging: EpochEntry) -> None:
        """Truncate to the smaller of both end offsets of the diverging epoch, the largest one of
        the leader at or below the last fetched epoch. The next fetch asks whether that agrees.

        TruncationRefused, and nothing changed, if that is below the high watermark.
        """
        log = self.log
        own = log.end_offset_for_epoch(diverging.epoch)
        end_offset = diverging.start_offset if own.epoch < 0 else own.start_offset
        if own.epoch == diverging.epoch:
            end_offset = min(end_offset, diverging.start_offset)
        self._truncate_to(end_offset)

    def out_of_range(self, leader_start_offset: int, leader_end_offset: int) -> None:
        """The fetch offset is not in the leader's log, whose ends are these. Truncate a log that
        is longer than the leader's; restart one that ends before the leader's begins."""
        if leader_end_offset < self.log.end_offset:
            self._truncate_to(leader_end_offset)
        elif leader_start_offset > self.log.end_offset:
            self.log.restart_at(leader_start_offset)

    @property
    def _follows_unclean_election(self) -> bool:
        """Whether a leader was elected uncleanly after this log's last record was appended."""
        return self._unclean_epoch > self.position.last_fetched_epoch

    @property
    def _may_lose_commits(self) -> bool:
        """Whether a leader may lack records that were committed here: after an unclean election
        since, or after a power loss if records are committed before they are flushed."""
        return self._follows_unclean_election or not self._commits_on_flush

    def _truncate_to(self, end_offset: int) -> None:
        log = self.log
        if end_offset < log.high_watermark:
            if not self._may_lose_commits:
                raise TruncationRefused(
                    f"leader {self.leader} of {log.tp} in epoch {self.epoch} has only the records"
                    f" below {end_offset}, but all below {log.high_watermark} were committed"
                )
            self._warn_of_truncation("committed records truncated", end_offset)
        elif self._follows_unclean_election and end_offset < log.end_offset:
            # After a restart the high watermark may be older than the last commit.
            self._warn_of_truncation("records truncated after an unclean election", end_offset)
        if end_offset < log.segments.base_offset:
            log.restart_at(end_offset)
        else:
            log.truncate(end_offset)

    def _warn_of_truncation(self, event: str, end_offset: int) -> None:
        logger.warning(
            event,
            log=str(self.log.tp),
            from_offset=end_offset,
            high_watermark=self.log.high_watermark,
            removed=self.log.end_offset - end_offset,
            leader=self.leader,
            leader_epoch=self.epoch,
        )

    # Flushing

    def notify_flushes(self, on_flushed: Callable[[], None] | None) -> None:
        """Call `on_flushed` after every flush from now on: the leader has to learn of it."""
        self._on_flushed = on_flushed

    def request_flush(self, *, is_awaited: bool) -> None:
        """Flush what was fetched: at once if a request at the leader waits for the commit."""
        log = self.log
        if log.flushed_offset >= log.end_offset:
            return
        if not self._commits_on_flush:
            if log.end_offset - log.flush.target >= log.config.flush_messages:
                log.flush.request(log.end_offset)
            elif log.config.flush_ms < FOREVER:
                log.flush.request_within(log.config.flush_ms)
        elif is_awaited:
            log.flush.request(log.end_offset)
        else:
            log.flush.request_within(QUIET_FLUSH_MS)

    def flushed(self) -> None:
        """A flush of the log has succeeded."""
        if self._on_flushed is not None:
            self._on_flushed()
