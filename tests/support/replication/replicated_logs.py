"""Logs on simulated disks that follow each other; the leader's side of a fetch is a function."""

from sawlog.core.ids import LeaderEpoch, NodeId
from sawlog.protocol.record_batch import batches_in
from sawlog.protocol.records import iterate
from sawlog.replication.follower import FetchPosition, Follower
from sawlog.storage.leader_epochs import EpochEntry
from sawlog.storage.log import Log
from sawlog.storage.log_config import LogConfig
from support.storage.logs import SimulatedStorage, append, headers_in, read, records

LEADER = NodeId(1)


class Copy(SimulatedStorage):
    """One replica's log, which leads in some epochs and follows in others."""

    def lead(self, epoch: int) -> None:
        self.log.assign_epoch(epoch)

    def write(self, epoch: int, *values: bytes) -> None:
        """Append one batch for each value as the leader of `epoch`."""
        for value in values:
            append(self.log, records(1, timestamp=self.now_ms, value=value), epoch=epoch)

    def commit(self, offset: int) -> None:
        self.log.set_high_watermark(offset)

    def follow(
        self, epoch: int, *, commits_on_flush: bool = True, unclean_epoch: int = -1
    ) -> Follower:
        return Follower(
            self.log,
            LEADER,
            LeaderEpoch(epoch),
            commits_on_flush=commits_on_flush,
            unclean_epoch=unclean_epoch,
            high_watermark_moved=lambda: None,
        )

    @property
    def values(self) -> list[bytes | None]:
        return values_of(self.log)


def copies(count: int, config: LogConfig | None = None) -> list[Copy]:
    return [Copy(config, seed=number) for number in range(1, count + 1)]


def values_of(log: Log) -> list[bytes | None]:
    """The value of every record, from the log start offset on."""
    found: list[bytes | None] = []
    offset = log.start_offset
    while (piece := read(log, offset)) is not None:
        data = piece.read()
        for position, header in batches_in(data):
            batch = memoryview(data)[position : position + header.size]
            found += [record.value for record in iterate(batch, max_decompressed_bytes=1 << 24)]
            offset = header.next_offset
    return found


def diverging_epoch(leader: Log, position: FetchPosition) -> EpochEntry | None:
    """What the leader answers to a fetch whose last epoch it does not have so far (KIP-595)."""
    if position.last_fetched_epoch < 0:
        return None
    found = leader.end_offset_for_epoch(position.last_fetched_epoch)
    if found.epoch < position.last_fetched_epoch or found.start_offset < position.fetch_offset:
        return found
    return None


def fetch_once(leader: Log, follower: Follower, *, max_bytes: int = 1 << 20) -> bool:
    """One fetch of a follower; returns whether it changed its log."""
    position = follower.position
    diverging = diverging_epoch(leader, position)
    if diverging is not None:
        follower.truncate(diverging)
        return True
    if not leader.start_offset <= position.fetch_offset <= leader.end_offset:
        follower.out_of_range(leader.start_offset, leader.end_offset)
        return True
    piece = leader.read(
        position.fetch_offset, max_bytes, limit_offset=leader.end_offset, whole_first_batch=True
    )
    follower.append(
        memoryview(piece.read() if piece else b""),
        leader_high_watermark=leader.high_watermark,
        leader_start_offset=leader.start_offset,
        is_awaited=False,
    )
    return follower.position != position


def catch_up(leader: Log, follower: Follower) -> None:
    """Fetch until the follower has all that the leader has."""
    for _ in range(100):
        if not fetch_once(leader, follower):
            return
    raise AssertionError("the follower does not catch up")


def assert_identical(*logs: Log) -> None:
    """The logs have the same batches and epochs; those in the cache are those of the batches."""
    first = logs[0]
    for log in logs:
        headers = headers_in(log)
        assert headers == headers_in(first)
        assert values_of(log) == values_of(first)
        epochs: dict[int, int] = {}
        for header in headers:
            epochs.setdefault(header.leader_epoch, max(header.base_offset, log.start_offset))
        cached = {e.epoch: e.start_offset for e in log.epochs.entries}
        assert {e: s for e, s in cached.items() if s < log.end_offset} == epochs
