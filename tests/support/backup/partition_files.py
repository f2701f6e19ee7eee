"""Partition directories as a broker leaves them, changes that a broker makes to them, and backups.

The changes are made at a moment that the test chooses: a copy asks the broker for offsets after it
has listed the segments, and reports its progress while it reads them.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sawlog.backup.file_copy import sync_directory
from sawlog.backup.manifest import (
    LOGS,
    Manifest,
    PartitionBackup,
    TopicBackup,
    write_manifest,
)
from sawlog.backup.partition_copy import Bounds, CopiedPartition, PartitionCopy
from sawlog.core.ids import PartitionIndex, TopicId, TopicName, TopicPartition
from sawlog.protocol.record_batch import batches_in
from sawlog.protocol.records import Record, build_batch, iterate
from sawlog.storage import log_files

ORDERS = TopicPartition(TopicName("orders"), PartitionIndex(0))
ORDERS_ID = TopicId(bytes(range(1, 17)))
OTHER_ID = TopicId(bytes(range(2, 18)))
PRODUCER_ID = 1 << 40


class Progress:
    """Counts bytes, and calls `at_batch` for each batch that a copy reads."""

    def __init__(self, at_batch: Callable[[], None] = lambda: None) -> None:
        self.bytes = 0
        self._at_batch = at_batch

    def advance(self, amount: int) -> None:
        self.bytes += amount
        self._at_batch()


def batch(base_offset: int, count: int = 1, *, epoch: int = 0, value: bytes = b"value") -> bytes:
    """A batch whose records have the values `value-offset`."""
    records = [
        Record(0, 1_700_000_000_000 + base_offset + number, None, b"%s-%d" % (value, number))
        for number in range(base_offset, base_offset + count)
    ]
    return bytes(build_batch(records, base_offset=base_offset, leader_epoch=epoch))


class PartitionFiles:
    """The directory of one partition in a data directory."""

    def __init__(
        self, data: Path, partition: TopicPartition = ORDERS, topic_id: TopicId = ORDERS_ID
    ) -> None:
        self.data = data
        self.partition = partition
        self.topic_id = topic_id
        self.directory = data / str(partition)
        self.create()

    def create(self) -> None:
        self.directory.mkdir(parents=True)
        metadata = log_files.encode_partition_metadata(self.topic_id)
        (self.directory / log_files.PARTITION_METADATA).write_bytes(metadata)

    def path(self, base_offset: int) -> Path:
        return self.directory / log_files.offset_name(base_offset, log_files.LOG)

    def write(self, base_offset: int, *batches: bytes | bytearray) -> None:
        """Append batches to a segment; a new one is created."""
        with self.path(base_offset).open("ab") as file:
            file.writelines(batches)

    def delete(self, *base_offsets: int) -> None:
        for base in base_offsets:
            self.path(base).unlink()

    def replace(self, old: Sequence[int], *batches: bytes) -> None:
        """Replace segments by one, through the names that the log cleaner uses."""
        self.begin_replacing(old, *batches)
        self.finish_replacing(old[0])

    def begin_replacing(self, old: Sequence[int], *batches: bytes) -> None:
        """Do all of it but the last rename."""
        cleaned = Path(f"{self.path(old[0])}.cleaned")
        cleaned.write_bytes(b"".join(batches))
        cleaned.rename(f"{self.path(old[0])}.swap")
        for base in old:
            self.path(base).rename(f"{self.path(base)}.deleted")

    def finish_replacing(self, base_offset: int) -> None:
        Path(f"{self.path(base_offset)}.swap").rename(self.path(base_offset))

    def copy(
        self,
        target: Path,
        bounds: Callable[[], Bounds],
        *,
        at_batch: Callable[[], None] = lambda: None,
        pause: Callable[[float], None] = lambda _: None,
    ) -> CopiedPartition:
        return PartitionCopy(
            self.partition,
            self.topic_id,
            self.data,
            target,
            bounds=bounds,
            progress=Progress(at_batch),
            pause=pause,
        ).run()


def values_in(directory: Path) -> dict[int, bytes | None]:
    """The value of every record in the segments of a directory, by offset."""
    return {
        record.offset: record.value
        for path in sorted(directory.glob(f"*{log_files.LOG}"))
        for position, header in batches_in(path.read_bytes())
        for record in iterate(
            path.read_bytes()[position : position + header.size], max_decompressed_bytes=1 << 20
        )
    }


def write_backup(
    directory: Path, files: PartitionFiles, bounds: Bounds, configs: Mapping[str, str] | None = None
) -> Manifest:
    """Write a backup with one partition."""
    (directory / LOGS).mkdir(parents=True)
    copied = files.copy(directory / LOGS, lambda: bounds)
    partition = PartitionBackup(
        0, 3, copied.start_offset, copied.end_offset, bool(copied.gaps), copied.files
    )
    topic = TopicBackup(files.partition.topic, files.topic_id, configs or {}, (partition,))
    manifest = Manifest(
        cluster_id="cluster-of-test",
        node_id=1,
        sawlog_version="0.1.0",
        began_ms=1_700_000_000_000,
        ended_ms=1_700_000_001_000,
        last_producer_id=PRODUCER_ID,
        configs={
            "brokers": {"": {"log.retention.ms": "1000"}, "1": {"num.io.threads": "3"}},
            "groups": {"a/b": {"consumer.session.timeout.ms": "50000"}},
        },
        topics=(topic,),
    )
    sync_directory(directory)
    write_manifest(directory, manifest)
    return manifest
