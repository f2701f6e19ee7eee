"""Disk usage of topics: the sizes of replicas in log directories, summed and sorted.

A size counts the record batches of a log, as DescribeLogDirs has it, without its indexes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sawlog.client.admin.log_dirs import LogDir
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.errors import KafkaError
from sawlog.core.ids import NodeId, TopicPartition


@dataclass(frozen=True, slots=True)
class DirectoryUsage:
    """A log directory: the space of its file system, and the part that logs take."""

    broker: int
    path: str
    total_bytes: int | None
    free_bytes: int | None
    log_bytes: int
    error: KafkaError | None

    @property
    def used_bytes(self) -> int | None:
        """The space that is not free; files of other programs count, too."""
        if self.total_bytes is None or self.free_bytes is None:
            return None
        return self.total_bytes - self.free_bytes


@dataclass(frozen=True, slots=True)
class ReplicaUsage:
    """The log of one partition in one directory."""

    partition: TopicPartition
    size_bytes: int
    directory: DirectoryUsage
    offset_lag: int | None
    is_future: bool


@dataclass(frozen=True, slots=True)
class TopicUsage:
    """All logs of a topic, or of several topics together."""

    topic: str
    partitions: int
    replicas: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """The directories by broker and path, and the replicas in them, the largest first."""

    directories: list[DirectoryUsage]
    replicas: list[ReplicaUsage]

    @property
    def log_bytes(self) -> int:
        return sum(directory.log_bytes for directory in self.directories)

    @property
    def total_bytes(self) -> int | None:
        """The space of all directories; None if that of one is unknown."""
        known = [each.total_bytes for each in self.directories if each.total_bytes is not None]
        return sum(known) if known and len(known) == len(self.directories) else None


def measure(found: Mapping[NodeId, Sequence[LogDir]]) -> DiskUsage:
    directories: list[DirectoryUsage] = []
    replicas: list[ReplicaUsage] = []
    for broker, log_dirs in sorted(found.items()):
        for log_dir in sorted(log_dirs, key=lambda each: each.path):
            directory = DirectoryUsage(
                broker,
                log_dir.path,
                log_dir.total_bytes,
                log_dir.usable_bytes,
                sum(replica.size_bytes for replica in log_dir.replicas),
                log_dir.error,
            )
            directories.append(directory)
            replicas += (
                ReplicaUsage(
                    partition_of(each.topic, each.partition),
                    each.size_bytes,
                    directory,
                    each.offset_lag,
                    each.is_future,
                )
                for each in log_dir.replicas
            )
    replicas.sort(key=lambda each: (-each.size_bytes, each.partition, each.directory.broker))
    return DiskUsage(directories, replicas)


def by_topic(replicas: Iterable[ReplicaUsage]) -> list[TopicUsage]:
    """Sum up the replicas by topic, the largest topic first."""
    found: dict[str, list[ReplicaUsage]] = defaultdict(list)
    for replica in replicas:
        found[replica.partition.topic].append(replica)
    topics = [total(name, each) for name, each in found.items()]
    return sorted(topics, key=lambda topic: (-topic.size_bytes, topic.topic))


def total(name: str, replicas: Sequence[ReplicaUsage]) -> TopicUsage:
    partitions = len({replica.partition for replica in replicas})
    size_bytes = sum(replica.size_bytes for replica in replicas)
    return TopicUsage(name, partitions, len(replicas), size_bytes)


def share(part_bytes: int, whole_bytes: int | None) -> float | None:
    """Return part / whole; None if the whole is unknown or zero."""
    return part_bytes / whole_bytes if whole_bytes else None
