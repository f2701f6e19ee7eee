"""Restores a backup into an empty data directory, which then is that of a cleanly stopped broker.

The logs come first, then the small files, the coordination store last. A file marks the directory
until all is on disk: a broker refuses to start on it, and so does another restore.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sawlog.backup.backup_error import BackupError
from sawlog.backup.backup_verifier import file_problems, log_problems
from sawlog.backup.batch_chain import Progress
from sawlog.backup.file_copy import copy_file
from sawlog.backup.manifest import LOGS, Manifest, PartitionBackup, TopicBackup, read_manifest
from sawlog.backup.restored_store import restored_tree
from sawlog.broker.log_configs import log_config
from sawlog.cluster.store_journal import create_store
from sawlog.core.config import BrokerConfig
from sawlog.core.config_values import ConfigError
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.core.ports import DiskError
from sawlog.server.clock import LoopTimer, SystemClock, SystemRandom
from sawlog.server.disk import LOCK_FILE, RealDisk
from sawlog.storage import log_files
from sawlog.storage.log_config import LogConfig
from sawlog.storage.log_directory import LogDirectory
from sawlog.storage.segment import Segment

_NOT_DATA = frozenset({LOCK_FILE, "lost+found"})


@dataclass(frozen=True, slots=True)
class RestoredDirectory:
    """A restored data directory. `directory_id` is new, so that nothing takes the directory for the
    lost one; `producers` counts the producers whose state the logs hold."""

    manifest: Manifest
    node_id: int
    directory_id: str
    producers: int


def restore_backup(
    backup: Path, data: Path, progress: Progress, *, node_id: int | None = None
) -> RestoredDirectory:
    """Restore a backup for the broker `node_id`, by default the one of the backup.

    BackupError if the backup is damaged or `data` is not empty; DiskError if a broker runs on it.
    """
    manifest = read_manifest(backup)
    if data.resolve().is_relative_to(backup.resolve()):
        raise BackupError(f"{data} is in the backup {backup}: choose another place")
    node = manifest.node_id if node_id is None else node_id
    problems = [
        problem
        for topic in manifest.topics
        for partition in topic.partitions
        for problem in file_problems(
            backup / LOGS / topic.directory(partition), partition, checks_content=False
        )
    ]
    if problems:
        raise BackupError(f"{problems[0]}; nothing was restored")
    with _empty_directory(data) as (disk, loop):
        restorer = _Restorer(backup, manifest, disk, progress)
        for topic in manifest.topics:
            for partition in topic.partitions:
                restorer.restore_partition(topic, partition)
        restorer.write_checkpoints()
        restored = restorer.finish_logs(loop, node)
        create_store(disk, restored_tree(manifest, node))
        disk.remove(log_files.RESTORING)
        disk.sync_directory("")
    return restored


@contextmanager
def _empty_directory(data: Path) -> Iterator[tuple[RealDisk, asyncio.AbstractEventLoop]]:
    """Lock an empty directory, create it if it is missing, and mark it."""
    _check_empty(data)
    loop = asyncio.new_event_loop()  # never runs: nothing here is done later
    disk = RealDisk(str(data), loop.call_soon_threadsafe)
    try:
        disk.lock()
        _check_empty(data)
        try:
            disk.replace(log_files.RESTORING, b"sawlog backup restore has not finished\n")
            yield disk, loop
        except (BackupError, DiskError, OSError) as error:
            raise BackupError(
                f"{_reason(error)}; {data} was only partly restored: delete everything in it"
            ) from error
    finally:
        disk.close()
        loop.close()


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _check_empty(data: Path) -> None:
    try:
        names = set(os.listdir(data)) - _NOT_DATA
    except FileNotFoundError:
        return
    if log_files.RESTORING in names:
        raise BackupError(
            f"a restore into {data} was interrupted: delete everything in it, then restore again"
        )
    if names:
        raise BackupError(
            f"{data} is not empty ({min(names)}): a backup is restored into a new or an empty"
            " directory; nothing was changed"
        )


class _Restorer:
    """Writes the logs of a backup into a data directory."""

    def __init__(
        self, backup: Path, manifest: Manifest, disk: RealDisk, progress: Progress
    ) -> None:
        self._backup = backup
        self._manifest = manifest
        self._disk = disk
        self._progress = progress
        self._restored: dict[TopicPartition, PartitionBackup] = {}
        self._configs = {topic.name: _log_config(topic) for topic in manifest.topics}

    def restore_partition(self, topic: TopicBackup, partition: PartitionBackup) -> None:
        """Copy a partition, check the copy like a backup, and build the indexes of its segments."""
        name = topic.directory(partition)
        self._disk.make_directory(name)
        target = Path(self._disk.root) / name
        for file in partition.files:
            with (
                (self._backup / LOGS / name / file.name).open("rb") as source,
                (target / file.name).open("xb") as copy,
            ):
                copy_file(source, copy, file.size)
        problems = [
            *file_problems(target, partition, checks_content=True),
            *log_problems(target, topic, partition, self._progress),
        ]
        if problems:
            raise BackupError(f"the backup is damaged: {problems[0]}; use another backup")
        self._build_indexes(topic, partition)
        self._disk.sync_directory(name)
        tp = TopicPartition(TopicName(topic.name), PartitionIndex(partition.index))
        self._restored[tp] = partition

    def _build_indexes(self, topic: TopicBackup, partition: PartitionBackup) -> None:
        for file in partition.segments:
            segment = Segment(
                self._disk,
                topic.directory(partition),
                int(Path(file.name).stem),
                created_ms=SystemClock().now_ms(),
                index_interval_bytes=self._configs[topic.name].index_interval_bytes,
                is_new=False,
            )
            segment.rebuild_indexes()
            segment.finish()
            for written in segment.files():
                written.sync()
            segment.close()

    def write_checkpoints(self) -> None:
        """Everything restored is synced, so each log's recovery point is its end."""
        ends = {tp: partition.end_offset for tp, partition in self._restored.items()}
        starts = {tp: partition.start_offset for tp, partition in self._restored.items()}
        for path, offsets in (
            (log_files.RECOVERY_POINTS, ends),
            (log_files.WATERMARKS, ends),
            (log_files.START_OFFSETS, {tp: start for tp, start in starts.items() if start}),
        ):
            self._disk.replace(path, log_files.encode_offsets(offsets))
        self._disk.sync_directory("")
        self._disk.replace(log_files.CLEAN_SHUTDOWN, log_files.encode_clean_shutdown(-1))

    def finish_logs(self, loop: asyncio.AbstractEventLoop, node_id: int) -> RestoredDirectory:
        """Open all logs as a broker does, compare their offsets, write producer snapshots and
        transaction indexes, and close them cleanly."""
        directory = LogDirectory(
            self._disk,
            SystemClock(),
            LoopTimer(loop),
            SystemRandom(),
            config_for=lambda topic: self._configs[topic],
        )
        directory.identify(self._manifest.cluster_id, node_id)
        directory.open()
        producers = 0
        for tp, partition in self._restored.items():
            log = directory.logs[tp]
            found = (log.start_offset, log.end_offset)
            if found != (partition.start_offset, partition.end_offset):
                raise BackupError(
                    f"{tp} has the offsets {found[0]} to {found[1]} after the restore, but in the"
                    f" backup {partition.start_offset} to {partition.end_offset}"
                )
            producers += len(log.producer_states)  # loaded now: the stop writes a snapshot
            log.producers.rebuild_indexes(log.segments, log.end_offset)
        directory.close_cleanly()
        if directory.offline is not None:
            raise directory.offline
        meta = self._disk.read_file(log_files.META_PROPERTIES)
        directory_id = log_files.decode_meta_properties(meta).directory_id
        return RestoredDirectory(self._manifest, node_id, directory_id, producers)


def _log_config(topic: TopicBackup) -> LogConfig:
    try:
        return log_config(BrokerConfig({}), topic.configs)
    except ConfigError as error:
        raise BackupError(f"the topic {topic.name!r} has an invalid setting: {error}") from None
