"""Creates a backup of the topics of a running broker.

`__consumer_offsets` is copied first, and all other topics are listed and asked for their high
watermarks only after that. A group commits an offset only after it has read up to there, so every
commit in the copy is at or below the high watermark of its partition at that time, and so below the
later one at which the partition's copy ends: a restored group never points beyond its log.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sawlog import __version__
from sawlog.backup.backup_error import BackupError
from sawlog.backup.batch_chain import Progress
from sawlog.backup.file_copy import sync_directory
from sawlog.backup.manifest import (
    LOGS,
    Manifest,
    PartitionBackup,
    TopicBackup,
    write_manifest,
)
from sawlog.backup.partition_copy import PartitionCopy, WrongDirectory
from sawlog.backup.running_broker import RunningBroker
from sawlog.client.net.cluster import NoSuchTopic
from sawlog.client.net.metadata import Partition, Topic
from sawlog.cluster.internal_topics import CONSUMER_OFFSETS
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.storage import log_files


@dataclass(frozen=True, slots=True)
class Selection:
    """The topics to back up: all, or those in `names`, without those in `excluded`.

    `__consumer_offsets` is selected too, unless `has_groups` is false or it is excluded."""

    names: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    has_groups: bool = True

    def covers(self, name: str) -> bool:
        if name == CONSUMER_OFFSETS.name:
            return self.has_groups and name not in self.excluded
        return name not in self.excluded and (not self.names or name in self.names)

    @property
    def contradictions(self) -> list[str]:
        """The names that are given and left out at once."""
        return sorted(name for name in self.names if not self.covers(name))


@dataclass(slots=True)
class CreatedBackup:
    """A finished backup. `deleted` has the topics that were deleted before they were copied,
    `gaps` a text for each log that lacks offsets and is not compacted."""

    manifest: Manifest
    deleted: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)


def log_bytes(data: Path, selection: Selection) -> int:
    """Estimate how many bytes a backup will copy, for a progress bar."""
    total = 0
    for name in os.listdir(data):
        partition = log_files.parse_partition_directory(name)
        if partition is not None and selection.covers(partition.topic):
            with suppress(FileNotFoundError):  # deleted meanwhile
                total += sum(
                    entry.stat().st_size
                    for entry in os.scandir(data / name)
                    if entry.name.endswith(log_files.LOG)
                )
    return total


def create_backup(
    broker: RunningBroker,
    data: Path,
    target: Path,
    selection: Selection,
    progress: Progress,
    *,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> CreatedBackup:
    """Copy topics of the broker that owns `data` into the new or empty directory `target`.

    If this fails, the files are removed again. A process that is killed leaves a directory without
    a manifest, which no other command accepts.
    """
    node_id = check_owner(broker, data)
    if target.resolve().is_relative_to(data.resolve()):
        raise BackupError(f"{target} is in the data directory {data}: choose another place")
    with new_directory(target):
        writer = _BackupWriter(broker, data, target / LOGS, node_id, progress)
        began_ms = now_ms()
        writer.copy_topics(_selected(broker, selection, is_offsets=True))
        writer.copy_topics(_selected(broker, selection, is_offsets=False))
        manifest = Manifest(
            cluster_id=broker.describe().cluster_id,
            node_id=node_id,
            sawlog_version=__version__,
            began_ms=began_ms,
            ended_ms=now_ms(),
            last_producer_id=broker.new_producer_id(),
            configs=broker.configs([node_id]),
            topics=tuple(sorted(writer.copied, key=lambda topic: topic.name)),
        )
        sync_directory(target / LOGS)
        write_manifest(target, manifest)
        sync_directory(target.parent)
    return CreatedBackup(manifest, writer.deleted, writer.gaps)


def check_owner(broker: RunningBroker, data: Path) -> int:
    """Return the node id of a data directory; BackupError if it is not of the broker's cluster."""
    path = data / log_files.META_PROPERTIES
    try:
        meta = log_files.decode_meta_properties(path.read_bytes())
    except FileNotFoundError:
        raise BackupError(
            f"{data} is not the data directory of a broker: it has no {path.name}"
        ) from None
    except log_files.CorruptFile as error:
        raise BackupError(f"{path} is damaged: {error}") from None
    found = broker.describe()
    if meta.cluster_id != found.cluster_id or meta.node_id not in [n.id for n in found.nodes]:
        raise BackupError(
            f"{data} belongs to node {meta.node_id} of cluster {meta.cluster_id!r}, but the broker"
            f" at --bootstrap is of cluster {found.cluster_id!r} with the nodes"
            f" {', '.join(str(node.id) for node in found.nodes)}; give the --data and --bootstrap"
            " of one broker"
        )
    return meta.node_id


@contextmanager
def new_directory(path: Path) -> Iterator[None]:
    """Create a directory, or use an empty one; remove what was written if the block fails."""
    is_new = not path.exists()
    if not is_new and (not path.is_dir() or any(path.iterdir())):
        raise BackupError(f"{path} is not empty: a backup needs a new or an empty directory")
    path.mkdir(parents=True, exist_ok=True)
    (path / LOGS).mkdir()
    try:
        yield
    except BaseException:
        shutil.rmtree(path / LOGS, ignore_errors=True)
        if is_new:
            shutil.rmtree(path, ignore_errors=True)
        raise


def _selected(broker: RunningBroker, selection: Selection, *, is_offsets: bool) -> list[Topic]:
    """The topics of the broker that are selected now: `__consumer_offsets`, or all others."""
    topics = broker.topics()
    missing = sorted(selection.names - {topic.name for topic in topics})
    if missing:
        raise NoSuchTopic(f"there is no topic {missing[0]!r}; check the name given as --topic")
    return [
        topic
        for topic in topics
        if selection.covers(topic.name) and is_offsets == (topic.name == CONSUMER_OFFSETS.name)
    ]


class _BackupWriter:
    def __init__(
        self, broker: RunningBroker, data: Path, logs: Path, node_id: int, progress: Progress
    ) -> None:
        self._broker = broker
        self._data = data
        self._logs = logs
        self._node_id = node_id
        self._progress = progress
        self.copied: list[TopicBackup] = []
        self.deleted: list[str] = []
        self.gaps: list[str] = []

    def copy_topics(self, topics: Iterable[Topic]) -> None:
        """Copy topics; one that is deleted meanwhile is left out."""
        for topic in topics:
            try:
                copied = self._copy_topic(topic)
            except (KafkaError, WrongDirectory):
                if self._broker.has_topic(topic):
                    raise
                copied = None
            if copied is not None and self._broker.has_topic(topic):
                self.copied.append(copied)
            else:
                self._remove(topic)
                self.deleted.append(topic.name)

    def _copy_topic(self, topic: Topic) -> TopicBackup:
        configs = self._broker.topic_configs(topic)
        partitions = [self._copy_partition(topic, each) for each in topic.partitions.values()]
        return TopicBackup(topic.name, topic.id, configs, tuple(partitions))

    def _copy_partition(self, topic: Topic, partition: Partition) -> PartitionBackup:
        name = TopicPartition(topic.name, partition.index)
        if partition.leader != self._node_id:
            raise BackupError(
                f"{name} is led by node {partition.leader}, and {self._data} is the data directory"
                f" of node {self._node_id}: a backup needs the files of the leader"
            )
        copied = PartitionCopy(
            name,
            topic.id,
            self._data,
            self._logs,
            bounds=lambda: self._broker.bounds(name),
            progress=self._progress,
        ).run()
        if copied.gaps and not self._broker.is_compacted(topic):
            first = copied.gaps[0]
            self.gaps.append(f"{name} lacks the offsets {first.first} to {first.last}")
        return PartitionBackup(
            partition.index,
            partition.leader_epoch,
            copied.start_offset,
            copied.end_offset,
            bool(copied.gaps),
            copied.files,
        )

    def _remove(self, topic: Topic) -> None:
        for index in topic.partitions:
            directory = self._logs / str(TopicPartition(topic.name, index))
            shutil.rmtree(directory, ignore_errors=True)
