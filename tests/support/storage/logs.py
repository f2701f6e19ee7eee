"""A log directory on the simulated disk, and builders of batches for it."""

from collections.abc import Sequence

from sawlog.core.ids import PartitionIndex, TopicId, TopicName, TopicPartition
from sawlog.core.ports import DiskError, FileSlice
from sawlog.protocol.record_batch import BatchHeader, batches_in, read_header
from sawlog.protocol.records import Record, build_batch
from sawlog.simulation.schedule import Schedule, SeededRandom
from sawlog.simulation.simulated_disk import SimulatedDisk
from sawlog.storage.log import Appended, Log
from sawlog.storage.log_config import LogConfig
from sawlog.storage.log_directory import LogDirectory

TP = TopicPartition(TopicName("topic"), PartitionIndex(0))
TOPIC_ID = TopicId(bytes(range(16)))


class Storage:
    """One broker's storage: the process can be killed and the power lost, the disk stays."""

    def __init__(self, config: LogConfig | None = None, *, seed: int = 1) -> None:
        self.config = config or LogConfig()
        self.schedule = Schedule(seed)
        self.random = SeededRandom(seed)
        self.disk = SimulatedDisk(self.schedule.soon)
        self.open()

    def open(self) -> None:
        self.directory = LogDirectory(
            self.disk,
            self.schedule,
            self.schedule,
            self.random,
            config_for=lambda _: self.config,
        )
        self.directory.open()

    @property
    def log(self) -> Log:
        """The only log; created when it is first asked for."""
        if TP not in self.directory.logs:
            self.directory.create(TP, TOPIC_ID, self.config)
            self.schedule.run_for(0)  # partition.metadata
        return self.directory.logs[TP]

    @property
    def now_ms(self) -> int:
        return self.schedule.now_ms()

    # What happens to a process

    def kill(self) -> None:
        self.disk.kill()
        self.schedule.clear()

    def lose_power(self) -> None:
        self.disk.power_loss(self.random)
        self.schedule.clear()

    def restart(self) -> None:
        """A clean stop and a start."""
        self.directory.close_cleanly()
        self.kill()
        self.open()

    def recover(self) -> None:
        """kill -9 and a start."""
        self.kill()
        self.open()

    # Work

    def append(self, count: int = 1, **batch: object) -> Appended:
        return append(self.log, records(count, timestamp=self.now_ms), **batch)

    def flush(self, log: Log | None = None) -> DiskError | None:
        answers: list[DiskError | None] = []
        (log or self.log).flush.when_flushed(answers.append)
        assert self.schedule.run(lambda: bool(answers))
        return answers[0]

    def checkpoint(self) -> None:
        """Everything flushed and its recovery point on disk."""
        self.flush()
        self.directory.checkpoint_later()
        self.schedule.run_for(6_000)


def records(
    count: int = 1, *, timestamp: int = 1_700_000_000_000, value: bytes = b"value"
) -> list[Record]:
    return [Record(number, timestamp, None, value) for number in range(count)]


def append(log: Log, contents: Sequence[Record], *, epoch: int = 0, **batch: object) -> Appended:
    """Appends one batch as a leader of `epoch`; further arguments are `build_batch`'s."""
    built = build_batch(contents, **batch)  # type: ignore[arg-type]
    return log.append(memoryview(built), read_header(built), epoch)


def headers_in(log: Log) -> list[BatchHeader]:
    """Every batch of the log, read as a consumer would."""
    headers: list[BatchHeader] = []
    offset = log.start_offset
    while (piece := read(log, offset)) is not None:
        found = [header for _, header in batches_in(piece.read())]
        headers += found
        offset = found[-1].next_offset
    return headers


def read(log: Log, offset: int, max_bytes: int = 1 << 30) -> FileSlice | None:
    return log.read(offset, max_bytes, limit_offset=log.end_offset, whole_first_batch=True)
