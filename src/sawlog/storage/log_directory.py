"""The data directory of one broker: all its logs, and the files that belong to all of them.

Promises: checkpoints never claim more than is synced; a clean stop leaves a marker that lets the
next start read almost nothing; a failed fsync takes the directory offline for good. The lock on the
directory is in `server/disk`; which partitions should exist is known to `cluster`.
"""

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import TopicId, TopicName, TopicPartition, random_id_text
from sawlog.core.ports import (
    Clock,
    Disk,
    DiskError,
    DiskFull,
    FileSystemSpace,
    Random,
    Timer,
    TooManyOpenFiles,
)
from sawlog.storage import log_files
from sawlog.storage.checkpointer import INTERVAL_MS, Checkpointer
from sawlog.storage.cleaner.cleaner_worker import StartWorker
from sawlog.storage.cleaner.log_cleaner import CleanerConfig, LogCleaner
from sawlog.storage.damaged_logs import DamagedLogs
from sawlog.storage.flusher import Flusher
from sawlog.storage.log import Log
from sawlog.storage.log_config import LogConfig
from sawlog.storage.log_files import DamagedLog, decode_damaged_logs
from sawlog.storage.log_state import LogState
from sawlog.storage.producer_state_store import ProducerStateStore
from sawlog.storage.recovery import UNKNOWN_EPOCH, Checkpointed, RecoveryReport, open_log

_NOT_LOGS = frozenset({"__cluster_metadata"})

EXPIRE_PRODUCERS_MS = 600_000
"""How often expired producers are removed, as in Kafka by default."""

REMOVED_AT_ONCE = 4
"""How many files of deleted logs are unlinked before other events are handled."""

logger = EventLogger(__name__)
T = TypeVar("T")

REFUSED_LOG_INTERVAL_MS = 60_000
"""The shortest time between two log lines about refused writes."""


class WrongOwner(DiskError):
    """The directory holds the logs of another broker."""


class LogDirectory:
    """All logs of a data directory.

    Invariants: the recovery point on disk of every log is at or below its `flushed_offset`; once
    `offline` is set nothing is written any more.
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        timer: Timer,
        random: Random,
        *,
        config_for: Callable[[TopicName], LogConfig],
        flushes_at_checkpoint: bool = True,
        watermark_interval_ms: int = INTERVAL_MS,
        cleaner_config: CleanerConfig | None = None,
        start_cleaner: StartWorker | None = None,
    ) -> None:
        """With flush.policy=os `flushes_at_checkpoint` is off: recovery points move only when the
        log is flushed for another reason. Without `start_cleaner` no log is compacted."""
        self.disk = disk
        self.clock = clock
        self.timer = timer
        self.random = random
        self.flusher = Flusher(disk, timer)
        self.logs: dict[TopicPartition, Log] = {}
        self.offline: DiskError | None = None
        self.was_clean = False  # whether the last stop left the marker; known after `open`
        self._directory_id = ""  # read or generated at the first use
        self._went_offline: Callable[[], None] = lambda: None
        self.recovery = RecoveryReport()
        self.recovery_ms = 0  # how long `open` took
        self.refused_writes = 0  # for lack of disk space or descriptors
        self.missing: dict[TopicPartition, int] = {}
        """Recovery points of logs that are in the checkpoint and not on disk."""
        self.damaged = DamagedLogs(disk)
        self._deleted: deque[tuple[str, list[str]]] = deque()  # directories with files to unlink
        self._refused_logged_ms = -REFUSED_LOG_INTERVAL_MS
        self._config_for = config_for
        self._checkpointer = Checkpointer(
            self, flushes=flushes_at_checkpoint, watermark_interval_ms=watermark_interval_ms
        )
        self.high_watermark_moved = self._checkpointer.high_watermark_moved  # at every commit
        self.cleaner = LogCleaner(self, cleaner_config or CleanerConfig(), start_cleaner)

    @property
    def path(self) -> str:
        """The absolute path, which names the directory in requests and responses."""
        return self.disk.root

    @property
    def directory_id(self) -> str:
        """The id of the directory, known before it is opened: that of meta.properties, or a new one
        that `reserve` or `identify` writes."""
        if not self._directory_id:
            found = self._read_meta()
            known = "" if found is None else found.directory_id
            self._directory_id = known or random_id_text(self.random.bytes)
        return self._directory_id

    def on_offline(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the directory has gone offline."""
        self._went_offline = listener

    def has_clean_marker(self) -> bool:
        """Whether the last stop was clean; `open` removes the marker."""
        return self.disk.exists(log_files.CLEAN_SHUTDOWN)

    def space(self) -> FileSystemSpace:
        """Return the space of the directory's file system; DiskError if it cannot be read."""
        return self.disk.space()

    # Starting and stopping

    def open(self) -> None:
        """Open every log, recover those that need it, and finish interrupted deletions."""
        began_ms = self.clock.monotonic_ms()
        names = self.disk.list("")
        self.was_clean = self._take_marker(names)
        recovery_points = self._read_offsets(log_files.RECOVERY_POINTS, names)
        if log_files.RECOVERY_POINTS not in names and log_files.CLEANER_OFFSETS in names:
            recovery_points = None  # the file was lost: compaction needs one
        start_offsets = self._read_offsets(log_files.START_OFFSETS, names) or {}
        watermarks = self._read_offsets(log_files.WATERMARKS, names) or {}
        cleaned = self._read_offsets(log_files.CLEANER_OFFSETS, names) or {}
        for name in names:
            if name.endswith(log_files.DELETED_DIRECTORY) and "." in name:
                self.disk.remove_directory(name)
                continue
            if log_files.is_directory_leftover(name):
                self.disk.remove(name)
                continue
            tp = log_files.parse_partition_directory(name)
            if tp is None or tp.topic in _NOT_LOGS:
                continue
            checkpointed = Checkpointed(
                None if recovery_points is None else recovery_points.get(tp, 0),
                start_offsets.get(tp),
                watermarks.get(tp, 0),
            )
            self.logs[tp] = open_log(
                self,
                tp,
                self._config_for(tp.topic),
                checkpointed,
                is_clean=self.was_clean,
                report=self.recovery,
            )
        points = recovery_points or {}
        self.missing = {tp: point for tp, point in points.items() if tp not in self.logs and point}
        if self.logs and not self.was_clean:
            self.disk.sync_directory("")  # some may have been created and never flushed
        self.recovery_ms = self.clock.monotonic_ms() - began_ms
        self._log_recovery()
        noted = self._read_checkpoint(log_files.DAMAGED_LOGS, names, decode_damaged_logs) or {}
        lost = {tp: DamagedLog(0, UNKNOWN_EPOCH) for tp in self.missing} | self.recovery.lost
        # Before recovery points are lowered: the next start would find nothing missing.
        self.damaged.start(noted, lost)
        self._checkpointer.start(points, start_offsets, watermarks)
        self.cleaner.start(cleaned)
        self.timer.after(EXPIRE_PRODUCERS_MS, self._expire_producers)

    def _log_recovery(self) -> None:
        found = self.recovery
        if not found.recovered_logs:
            return
        logger.warning(
            "logs recovered after an unclean stop"
            if not self.was_clean
            else "logs recovered that did not end at their recovery point",
            logs=len(self.logs),
            recovered=found.recovered_logs,
            checked_bytes=found.checked_bytes,
            truncated_bytes=found.truncated_bytes,
            damaged=found.damaged_logs,
            milliseconds=self.recovery_ms,
        )

    def reserve(self, node_id: int) -> None:
        """Write the id of a new directory before the broker registers with it: after a kill in
        between, the next process must have the same. The cluster is not known yet."""
        found = self._read_meta()
        if found is None or not found.directory_id:
            cluster_id = log_files.UNKNOWN_CLUSTER if found is None else found.cluster_id
            meta = log_files.MetaProperties(cluster_id, node_id, self.directory_id)
            self.disk.replace(log_files.META_PROPERTIES, log_files.encode_meta_properties(meta))

    def identify(self, cluster_id: str, node_id: int) -> None:
        """Write meta.properties, or check it: WrongOwner if it names another broker."""
        found = self._read_meta()
        if (
            found is not None
            and not found.is_reserved
            and (found.cluster_id, found.node_id) != (cluster_id, node_id)
        ):
            raise WrongOwner(
                log_files.META_PROPERTIES,
                f"the data directory belongs to node {found.node_id} of cluster"
                f" {found.cluster_id}, not to node {node_id} of cluster {cluster_id}",
            )
        meta = log_files.MetaProperties(cluster_id, node_id, self.directory_id)
        if found != meta:
            self.disk.replace(log_files.META_PROPERTIES, log_files.encode_meta_properties(meta))

    def _read_meta(self) -> log_files.MetaProperties | None:
        try:
            return log_files.decode_meta_properties(self.disk.read_file(log_files.META_PROPERTIES))
        except FileNotFoundError:
            return None
        except log_files.CorruptFile as error:
            logger.warning("meta.properties is corrupt and rewritten", reason=str(error))
            return None

    def close_cleanly(self, broker_epoch: int = -1) -> None:
        """Flush, checkpoint and close; the clean-shutdown marker is written last."""
        self.cleaner.stop()
        if self.offline is None:
            try:
                self._checkpointer.finish()
                self.disk.replace(
                    log_files.CLEAN_SHUTDOWN, log_files.encode_clean_shutdown(broker_epoch)
                )
            except DiskError as error:
                logger.error("stopped, but not cleanly", error=str(error))
                self.offline = error
        for log in self.logs.values():
            log.close()

    # Logs

    def create(self, tp: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        """Create an empty log. Nothing here waits for the disk, unless a checkpoint still has an
        earlier log of that name: the first flush makes the directory durable, and a start after a
        crash creates what is missing. KAFKA_STORAGE_ERROR where the disk refuses."""
        if tp in self.logs:
            raise ValueError(f"{tp} exists already")
        directory = str(tp)
        try:
            if self.disk.exists(directory):
                self._rename_stray(tp)  # the files of another topic are kept
            self._checkpointer.remove_stale_entries(tp)
            self.cleaner.remove_stale_entry(tp)
            self.disk.make_directory(directory)
            producers = ProducerStateStore(self.disk, self.clock, directory, on_failure=self.fail)
            state = LogState.empty(self, directory, topic_id, config, producers)
        except DiskError as error:
            raise self.refusal(error) from error
        log = Log(self, tp, config, state)
        path = f"{log.directory}/{log_files.PARTITION_METADATA}"
        metadata = log_files.encode_partition_metadata(topic_id)
        self.disk.replace_later([(path, metadata)], lambda error: self._created(log, error))
        self.logs[tp] = log
        return log

    def _created(self, log: Log, error: DiskError | None) -> None:
        if error is not None and not log.is_closed:
            logger.warning("partition.metadata not written", log=str(log.tp), reason=str(error))

    def identify_log(self, log: Log, topic_id: TopicId) -> None:
        """Rewrite the partition.metadata of a log that lost it."""
        path = f"{log.directory}/{log_files.PARTITION_METADATA}"
        self.disk.replace(path, log_files.encode_partition_metadata(topic_id))
        log.identify(topic_id)

    def set_aside(self, tp: TopicPartition) -> str:
        """Close a log that belongs to no known topic, and keep its files as a `-stray` directory;
        returns the directory's name."""
        log = self.logs.pop(tp)
        log.close()
        self._forget(log)
        return self._rename_stray(tp)

    def _rename_stray(self, tp: TopicPartition) -> str:
        kept = log_files.stray_directory_name(tp, self.random.bytes(16))
        self.disk.rename(str(tp), kept)
        self.disk.sync_directory("")
        return kept

    def delete(self, tp: TopicPartition) -> None:
        """Delete a log: its directory is renamed at once, as in Kafka, and its files are unlinked
        one by one afterwards.

        If a crash brings the directory back, the cluster's metadata has it deleted again.
        """
        log = self.logs.pop(tp)
        log.close(is_deleted=True)
        self._forget(log)
        renamed = log_files.deleted_directory_name(tp, self.random.bytes(16))
        try:
            self.disk.rename(log.directory, renamed)
            names = self.disk.list(renamed)
        except (DiskError, FileNotFoundError) as error:
            logger.error("deletion failed", log=str(tp), error=str(error))
            return
        self._deleted.append((renamed, names))
        if len(self._deleted) == 1:
            self._remove_some()

    def _forget(self, log: Log) -> None:
        self._checkpointer.forget(log)
        self.cleaner.forget(log)
        self.forget_damage(log.tp)

    def forget_damage(self, tp: TopicPartition) -> None:
        """The log is not one of this directory any more; its entry is left over if that fails."""
        try:
            self.damaged.remove(tp)
        except DiskError as error:
            logger.warning("damaged log not forgotten", log=str(tp), reason=str(error))

    def _remove_some(self) -> None:
        """Unlink a few files of deleted logs at a time, off the loop: large files take long."""
        directory, names = self._deleted[0]
        paths = [f"{directory}/{names.pop()}" for _ in range(min(len(names), REMOVED_AT_ONCE))]
        self.disk.remove_later(paths, self._some_removed)

    def _some_removed(self, error: DiskError | None) -> None:
        directory, names = self._deleted[0]
        try:
            if error is not None:
                raise error
            if not names:
                self.disk.remove_directory(directory)
                self._deleted.popleft()
        except DiskError as failure:
            logger.error("deletion left to the next start", path=directory, error=str(failure))
            self._deleted.popleft()
        if self._deleted:
            self._remove_some()

    def checkpoint_later(self) -> None:
        """Write recovery points, start offsets, high watermarks and producer snapshots off the
        loop. This also happens at every roll and every few seconds while something changes."""
        self._checkpointer.checkpoint_later()

    # Called by the logs (LogOwner)

    def fail(self, error: DiskError) -> None:
        if self.offline is not None:
            return
        self.offline = error
        logger.error(
            "data directory offline: replace the disk, then restart the broker on it",
            directory=self.disk.root,
            path=error.path,
            reason=error.reason,
        )
        self.cleaner.stop()
        for log in self.logs.values():
            log.stop_appends()
        self.timer.after(0, self._went_offline)

    def refusal(self, error: DiskError) -> KafkaError:
        """The error of a client whose write failed. Lack of disk space or descriptors is
        temporary; any other failure takes the directory offline."""
        if isinstance(error, DiskFull | TooManyOpenFiles):
            self.refused(error)
        else:
            self.fail(error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def refused(self, error: DiskError) -> None:
        self.refused_writes += 1
        now_ms = self.clock.monotonic_ms()
        if now_ms - self._refused_logged_ms >= REFUSED_LOG_INTERVAL_MS:
            self._refused_logged_ms = now_ms
            logger.error("writes are refused", path=error.path, reason=error.reason)

    def flushed(self, log: Log) -> None:
        self._checkpointer.changed(log)

    def rolled(self, log: Log) -> None:
        self._checkpointer.rolled(log)

    def start_moved(self, log: Log) -> None:
        self._checkpointer.changed(log)
        self._checkpointer.checkpoint_later()

    def lower_checkpoints(self, log: Log, offset: int) -> None:
        self._checkpointer.lower(log, offset)
        self.cleaner.lower(log, offset)

    def recovery_point(self, log: Log) -> int:
        return self._checkpointer.recovery_point(log)

    def is_cleaning(self, log: Log) -> bool:
        return self.cleaner.is_cleaning(log)

    def abort_cleaning(self, log: Log) -> None:
        self.cleaner.abort(log)

    def _expire_producers(self) -> None:
        for log in self.logs.values():
            log.producers.expire(log.config.producer_id_expiration_ms)
        if self.offline is None:
            self.timer.after(EXPIRE_PRODUCERS_MS, self._expire_producers)

    # Small files

    def _take_marker(self, names: list[str]) -> bool:
        """Whether the last stop was clean; the marker is removed, durably."""
        if log_files.CLEAN_SHUTDOWN not in names:
            return False
        try:
            log_files.decode_clean_shutdown(self.disk.read_file(log_files.CLEAN_SHUTDOWN))
            is_clean = True
        except log_files.CorruptFile as error:
            logger.warning("corrupt clean-shutdown marker ignored", reason=str(error))
            is_clean = False
        self.disk.remove(log_files.CLEAN_SHUTDOWN)
        self.disk.sync_directory("")
        return is_clean

    def _read_offsets(self, name: str, names: list[str]) -> dict[TopicPartition, int] | None:
        return self._read_checkpoint(name, names, log_files.decode_offsets)

    def _read_checkpoint(
        self, name: str, names: list[str], decode: Callable[[bytes], dict[TopicPartition, T]]
    ) -> dict[TopicPartition, T] | None:
        """The contents of a checkpoint: empty if it does not exist, None if it is corrupt."""
        if name not in names:
            return {}
        try:
            return decode(self.disk.read_file(name))
        except log_files.CorruptFile as error:
            logger.warning("checkpoint not used", path=name, reason=str(error))
            return None
