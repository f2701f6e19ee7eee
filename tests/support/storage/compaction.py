"""A compacted topic on the simulated disk, and a dictionary as the model of its contents."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.protocol.record_batch import batches_in
from sawlog.protocol.records import Record, iterate
from sawlog.storage.cleaner.log_cleaner import CleanerConfig
from sawlog.storage.log import Log
from sawlog.storage.log_config import LogConfig
from support.storage.logs import TOPIC_ID, TP, SimulatedStorage, append, read

BACKOFF_MS = 60_000
OTHER = TopicPartition(TopicName("other"), PartitionIndex(0))
MAX_BYTES = 1 << 24


def compacted(**config: Any) -> LogConfig:
    """Settings with segments of a few batches and indexes with an entry for almost every batch."""
    settings: dict[str, Any] = {
        "cleanup_policy": frozenset({"compact"}),
        "segment_bytes": 800,
        "index_interval_bytes": 100,
        "min_cleanable_dirty_ratio": 0.0,
        "retention_ms": -1,
    }
    return LogConfig(**{**settings, **config})


class CompactedStorage(SimulatedStorage):
    """A storage whose cleaner looks for dirty logs every `BACKOFF_MS`."""

    def __init__(self, config: LogConfig | None = None, *, seed: int = 1, **cleaner: Any) -> None:
        settings: dict[str, Any] = {"backoff_ms": BACKOFF_MS, "io_buffer_size": 4096, **cleaner}
        super().__init__(config or compacted(), seed=seed, cleaner=CleanerConfig(**settings))

    # Writing

    def put(
        self, *pairs: tuple[str | None, str | None], log: Log | None = None, **batch: Any
    ) -> int:
        """Append one batch of keys and values; returns its base offset."""
        contents = [Record(0, self.now_ms, _encoded(key), _encoded(value)) for key, value in pairs]
        return append(log or self.log, contents, **batch).base_offset

    def fill(self, count: int, *, keys: int = 7, first: int = 0, log: Log | None = None) -> None:
        """Append batches of two records each; every fifth record is a tombstone."""
        for number in range(first, first + count):
            pairs = [
                (f"key-{at % keys}", None if at % 5 == 4 else f"value-{at}")
                for at in (2 * number, 2 * number + 1)
            ]
            self.put(*pairs, log=log)

    def settle(self) -> None:
        """Commit and checkpoint everything, so that the closed segments can be cleaned."""
        for log in self.directory.logs.values():
            log.set_high_watermark(log.end_offset)
            assert self.flush(log) is None
        self.directory.checkpoint_later()
        self.schedule.run_for(6_000)

    def other_log(self) -> Log:
        """A second compacted log."""
        return self.directory.create(OTHER, TOPIC_ID, self.config)

    # Cleaning

    def begin_cleaning(self, log: Log | None = None) -> None:
        """Run until the cleaner has begun with the log."""
        wanted = log or self.log
        assert self.schedule.run(lambda: self.directory.cleaner.is_cleaning(wanted))

    def end_cleaning(self) -> None:
        """Run until the cleaning that is under way is over."""
        assert self.schedule.run(lambda: not self.directory.cleaner.is_cleaning(self.log))

    def clean(self) -> None:
        """Let the cleaner look once, and finish all that it finds."""
        self.schedule.run_for(BACKOFF_MS)

    def names(self, *suffixes: str) -> list[str]:
        return [name for name in self.disk.list(str(TP)) if name.endswith(suffixes)]

    @property
    def checkpointed(self) -> bytes:
        return self.disk.read_file("cleaner-offset-checkpoint")


def dirty_storage(count: int = 40, **cleaner: Any) -> CompactedStorage:
    """A storage whose log has several dirty segments."""
    storage = CompactedStorage(**cleaner)
    storage.fill(count)
    storage.settle()
    assert len(storage.log.segments) >= 4
    return storage


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def contents(log: Log) -> list[Record]:
    """All records of a log, read as a consumer does, checked: offsets ascend."""
    check_segments(log)
    found: list[Record] = []
    offset, last = log.start_offset, -1
    while (piece := read(log, offset)) is not None:
        data = piece.read()
        for position, header in batches_in(data):
            assert header.base_offset > last, "batches in ascending order"
            batch = data[position : position + header.size]
            records = list(iterate(batch, max_decompressed_bytes=MAX_BYTES))
            assert [r.offset for r in records] == sorted({r.offset for r in records})
            assert all(header.base_offset <= r.offset <= header.last_offset for r in records)
            found += [record for record in records if record.offset >= offset]
            last = header.last_offset
        offset = last + 1
    return found


def check_segments(log: Log) -> None:
    """Assert that every batch lies between the base offsets of its segment and of the next."""
    bases = [*log.segments.base_offsets, log.end_offset]
    for segment, (base_offset, limit_offset) in zip(log.segments, pairwise(bases), strict=True):
        next_offset = base_offset
        for _, header in segment.batches_from(0):
            assert next_offset <= header.base_offset <= header.last_offset < limit_offset
            next_offset = header.next_offset


def latest(records: Iterable[Record]) -> dict[bytes | None, Record]:
    """The model: the last record of each key, without those that are tombstones."""
    last = {record.key: record for record in records if record.key is not None}
    return {key: record for key, record in last.items() if record.value is not None}


def assert_compacted(records: Iterable[Record], below: int) -> None:
    """Assert that no record below an offset is superseded by another one below it."""
    keys = [record.key for record in records if record.offset < below]
    assert len(keys) == len(set(keys)), keys
