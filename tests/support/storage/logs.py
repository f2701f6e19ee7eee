"""A data directory on the simulated disk, and builders of records and batches for its logs."""

from collections.abc import Sequence
from functools import partial

from sawlog.core.ids import PartitionIndex, TopicId, TopicName, TopicPartition
from sawlog.core.ports import DiskError, FileSlice
from sawlog.protocol.record_batch import BatchHeader, batches_in, read_header
from sawlog.protocol.records import Record, build_batch
from sawlog.simulation.schedule import Schedule, SeededRandom
from sawlog.simulation.simulated_disk import SimulatedDisk
from sawlog.simulation.stepped_cleaner import SteppedCleaner
from sawlog.storage.appended import Appended
from sawlog.storage.checkpointer import INTERVAL_MS
from sawlog.storage.cleaner.cleaner_worker import CleanerWorker
from sawlog.storage.cleaner.log_cleaner import CleanerConfig
from sawlog.storage.log import Log
from sawlog.storage.log_config import LogConfig
from sawlog.storage.log_directory import LogDirectory

TP = TopicPartition(TopicName("topic"), PartitionIndex(0))
TOPIC_ID = TopicId(bytes(range(16)))


class SimulatedStorage:
    """The storage of one broker, whose process can be killed and whose power can be lost."""

    def __init__(
        self,
        config: LogConfig | None = None,
        *,
        seed: int = 1,
        flushes_at_checkpoint: bool = True,
        watermark_interval_ms: int = INTERVAL_MS,
        cleaner: CleanerConfig | None = None,
        disk_delay_ms: int = 0,
    ) -> None:
        """Logs are compacted if `cleaner` is given. `disk_delay_ms` is the time that an fsync off
        the loop takes."""
        self.config = config or LogConfig()
        self.cleaner_config = cleaner
        self._flushes_at_checkpoint = flushes_at_checkpoint
        self._watermark_interval_ms = watermark_interval_ms
        self.schedule = Schedule(seed)
        self.random = SeededRandom(seed)
        schedule = self.schedule
        self.disk = SimulatedDisk(
            partial(schedule.after, disk_delay_ms) if disk_delay_ms else schedule.soon
        )
        self.open()

    def open(self) -> None:
        self.directory = LogDirectory(
            self.disk,
            self.schedule,
            self.schedule,
            self.random,
            config_for=lambda _: self.config,
            flushes_at_checkpoint=self._flushes_at_checkpoint,
            watermark_interval_ms=self._watermark_interval_ms,
            cleaner_config=self.cleaner_config,
            start_cleaner=self._start_cleaner if self.cleaner_config else None,
        )
        self.directory.open()

    def _start_cleaner(self, _: float) -> CleanerWorker:
        return SteppedCleaner(self.disk, self.schedule)

    @property
    def log(self) -> Log:
        """The log of `TP`, created on first use."""
        if TP not in self.directory.logs:
            self.directory.create(TP, TOPIC_ID, self.config)
            self.schedule.run_for(0)  # partition.metadata
        return self.directory.logs[TP]

    @property
    def now_ms(self) -> int:
        return self.schedule.now_ms()

    # Faults and restarts

    def kill(self) -> None:
        """kill -9: the page cache survives."""
        self.disk.kill()
        self.schedule.clear()

    def lose_power(self) -> None:
        """Lose the power: only synced data survives for sure."""
        self.disk.power_loss(self.random)
        self.schedule.clear()

    def restart(self) -> None:
        """Stop cleanly and start again."""
        self.directory.close_cleanly()
        self.kill()
        self.open()

    def recover(self) -> None:
        """Kill the process and start again."""
        self.kill()
        self.open()

    # Appends, flushes and checkpoints

    def append(self, count: int = 1, **batch: object) -> Appended:
        return append(self.log, records(count, timestamp=self.now_ms), **batch)

    def flush(self, log: Log | None = None) -> DiskError | None:
        outcomes: list[DiskError | None] = []
        (log or self.log).flush.when_flushed(outcomes.append)
        assert self.schedule.run(lambda: bool(outcomes))
        return outcomes[0]

    def checkpoint(self) -> None:
        """Flush everything and write its recovery point."""
        self.flush()
        self.directory.checkpoint_later()
        self.schedule.run_for(6_000)


def records(
    count: int = 1, *, timestamp: int = 1_700_000_000_000, value: bytes = b"value"
) -> list[Record]:
    return [Record(number, timestamp, None, value) for number in range(count)]


def append(log: Log, contents: Sequence[Record], *, epoch: int = 0, **batch: object) -> Appended:
    """Append one batch as the leader of `epoch`; `batch` is passed to `build_batch`."""
    built = build_batch(contents, **batch)  # type: ignore[arg-type]
    return log.append(memoryview(built), read_header(built), epoch)


def headers_in(log: Log) -> list[BatchHeader]:
    """The header of every batch in the log, read as a consumer does."""
    headers: list[BatchHeader] = []
    offset = log.start_offset
    while (piece := read(log, offset)) is not None:
        found = [header for _, header in batches_in(piece.read())]
        headers += found
        offset = found[-1].next_offset
    return headers


def read(log: Log, offset: int, max_bytes: int = 1 << 30) -> FileSlice | None:
    return log.read(offset, max_bytes, limit_offset=log.end_offset, whole_first_batch=True)
