"""The data directory of one broker: all its logs, and the small files that speak for all of them.

Promises: checkpoints never claim more than is synced; a clean stop leaves a marker that lets the
next start read almost nothing; a failed fsync takes the directory offline for good. Not here: who
may open the directory (`server/disk` locks it), which partitions should exist (`cluster`).
"""

from collections import deque
from collections.abc import Callable

from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import TopicId, TopicName, TopicPartition, format_topic_id
from sawlog.core.ports import Clock, Disk, DiskError, Random, Timer
from sawlog.storage import log_files, rolling
from sawlog.storage.checkpoints import Checkpointer
from sawlog.storage.log import Log
from sawlog.storage.log_config import LogConfig
from sawlog.storage.recovery import RecoveryReport, open_log

_NOT_LOGS = frozenset({"__cluster_metadata"})

EXPIRE_PRODUCERS_MS = 600_000
"""How often producers that were silent for long are forgotten, as Kafka by default."""

REMOVED_AT_ONCE = 4

events = EventLogger(__name__)

COMPLAINT_MS = 60_000
"""How often, at most, the log says that writes are refused."""


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
        on_offline: Callable[[DiskError], None] | None = None,
        flushes_at_checkpoint: bool = True,
    ) -> None:
        """`flushes_at_checkpoint` is off with flush.policy=os: then recovery points move only when
        the log is flushed for another reason."""
        self.disk = disk
        self.clock = clock
        self.timer = timer
        self.random = random
        self.logs: dict[TopicPartition, Log] = {}
        self.offline: DiskError | None = None
        self.was_clean = False  # whether the last stop left the marker; known after `open`
        self.recovery = RecoveryReport()
        self.recovery_ms = 0  # how long `open` took
        self.refused_writes = 0  # for lack of room or descriptors
        self.missing: dict[TopicPartition, int] = {}
        """Logs that a checkpoint speaks of and that are not there, with their recovery points."""
        self._doomed: deque[tuple[str, list[str]]] = deque()  # deleted, with files left to remove
        self._complained_ms = -COMPLAINT_MS
        self._config_for = config_for
        self._on_offline = on_offline
        self._checkpointer = Checkpointer(self, flushes=flushes_at_checkpoint)

    # Starting and stopping

    def open(self) -> None:
        """Opens every log, recovering those that need it, and finishes interrupted deletions."""
        began_ms = self.clock.monotonic_ms()
        names = self.disk.list("")
        self.was_clean = self._take_marker(names)
        recovery_points = self._read_offsets(log_files.RECOVERY_POINTS, names)
        start_offsets = self._read_offsets(log_files.START_OFFSETS, names) or {}
        watermarks = self._read_offsets(log_files.WATERMARKS, names) or {}
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
            known = recovery_points
            point = None if known is None else known.get(tp, 0)
            log = open_log(
                self,
                tp,
                self._config_for(tp.topic),
                recovery_point=point,
                start_offset=start_offsets.get(tp),
                watermark=watermarks.get(tp, 0),
                is_clean=self.was_clean,
                report=self.recovery,
            )
            self.logs[tp] = log
        points = recovery_points or {}
        self.missing = {tp: point for tp, point in points.items() if tp not in self.logs and point}
        if self.logs and not self.was_clean:
            self.disk.sync_directory("")  # some may have been created and never flushed
        self.recovery_ms = self.clock.monotonic_ms() - began_ms
        self._tell_recovery()
        self._checkpointer.start(points, start_offsets, watermarks)
        self.timer.after(EXPIRE_PRODUCERS_MS, self._expire_producers)

    def _tell_recovery(self) -> None:
        found = self.recovery
        if not found.recovered_logs:
            return
        events.warning(
            "logs recovered after an unclean stop"
            if not self.was_clean
            else "logs recovered that did not end where the clean stop left them",
            logs=len(self.logs),
            recovered=found.recovered_logs,
            checked_bytes=found.checked_bytes,
            cut_bytes=found.cut_bytes,
            damaged=found.damaged_logs,
            milliseconds=self.recovery_ms,
        )

    def identify(self, cluster_id: str, node_id: int) -> None:
        """Writes meta.properties, or checks it: WrongOwner where it names another broker."""
        try:
            found = log_files.decode_meta_properties(self.disk.read_file(log_files.META_PROPERTIES))
        except FileNotFoundError:
            found = None
        except log_files.CorruptFile as error:
            events.warning("meta.properties written anew", reason=str(error))
            found = None
        if found is None:
            directory_id = format_topic_id(self.random.bytes(16))
            meta = log_files.MetaProperties(cluster_id, node_id, directory_id)
            self.disk.replace(log_files.META_PROPERTIES, log_files.encode_meta_properties(meta))
        elif (found.cluster_id, found.node_id) != (cluster_id, node_id):
            raise WrongOwner(
                log_files.META_PROPERTIES,
                f"the data directory belongs to node {found.node_id} of cluster"
                f" {found.cluster_id}, not to node {node_id} of cluster {cluster_id}",
            )

    def close_cleanly(self, broker_epoch: int = -1) -> None:
        """Flushes, checkpoints, closes; the marker is written last, if nothing failed."""
        if self.offline is None:
            try:
                self._checkpointer.finish()
                self.disk.replace(
                    log_files.CLEAN_SHUTDOWN, log_files.encode_clean_shutdown(broker_epoch)
                )
            except DiskError as error:
                events.error("stopped, but not cleanly", error=str(error))
                self.offline = error
        for log in self.logs.values():
            log.close()

    # Logs

    def create(self, tp: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        """A new, empty log. Nothing here waits for the disk, unless checkpoints still tell of an
        earlier log of that name: the first flush makes the directory durable, and a start after a
        crash makes good what did not get there before."""
        if tp in self.logs:
            raise ValueError(f"{tp} is there already")
        log = Log(self, tp, topic_id, config)
        try:
            if self.disk.exists(log.directory):
                self._keep_aside(tp)  # never over somebody's data
            self._checkpointer.make_way(tp)
            self.disk.make_directory(log.directory)
            log.adopt([rolling.new_segment(log, 0)])
        except DiskError as error:
            raise log.refusal(error) from error
        log.commit.home_is_dirty = True
        path = f"{log.directory}/{log_files.PARTITION_METADATA}"
        metadata = log_files.encode_partition_metadata(topic_id)
        self.disk.replace_later([(path, metadata)], lambda error: self._identified(log, error))
        self.logs[tp] = log
        return log

    def _identified(self, log: Log, error: DiskError | None) -> None:
        if error is not None and not log.is_closed:
            events.warning("partition.metadata not written", log=str(log.tp), reason=str(error))

    def identify_log(self, log: Log, topic_id: TopicId) -> None:
        """Tells a log whose partition.metadata was lost which topic it belongs to."""
        path = f"{log.directory}/{log_files.PARTITION_METADATA}"
        self.disk.replace(path, log_files.encode_partition_metadata(topic_id))
        log.topic_id = topic_id

    def set_aside(self, tp: TopicPartition) -> str:
        """Takes a log that belongs to no known topic out of the way, and keeps its files; returns
        the name of their new directory."""
        log = self.logs.pop(tp)
        log.close()
        self._checkpointer.forget(log)
        return self._keep_aside(tp)

    def _keep_aside(self, tp: TopicPartition) -> str:
        kept = log_files.stray_directory_name(tp, self.random.bytes(16))
        self.disk.rename(str(tp), kept)
        self.disk.sync_directory("")
        return kept

    def delete(self, tp: TopicPartition) -> None:
        """The log is gone at once (renamed away, as Kafka does); its files go one by one after.

        A crash may bring the directory back; the cluster's metadata has it deleted again then.
        """
        log = self.logs.pop(tp)
        log.close(is_doomed=True)
        self._checkpointer.forget(log)
        doomed = log_files.deleted_directory_name(tp, self.random.bytes(16))
        try:
            self.disk.rename(log.directory, doomed)
            names = self.disk.list(doomed)
        except (DiskError, FileNotFoundError) as error:
            events.error("deletion failed", log=str(tp), error=str(error))
            return
        self._doomed.append((doomed, names))
        if len(self._doomed) == 1:
            self.timer.after(0, self._remove_some)

    def _remove_some(self) -> None:
        """To unlink large files, or those of many logs, takes its time: others have their turn
        between a few of them and the next."""
        doomed, names = self._doomed[0]
        try:
            for _ in range(REMOVED_AT_ONCE):
                if names:
                    self.disk.remove(f"{doomed}/{names.pop()}")
            if not names:
                self.disk.remove_directory(doomed)
                self._doomed.popleft()
        except DiskError as error:
            events.error("deletion left to the next start", path=doomed, error=str(error))
            self._doomed.popleft()
        if self._doomed:
            self.timer.after(0, self._remove_some)

    def checkpoint_later(self) -> None:
        """Writes recovery points, start offsets, watermarks and producer snapshots off the loop.

        Happens by itself at every roll and every few seconds while something changes.
        """
        self._checkpointer.checkpoint_later()

    # What the logs tell (Home)

    def fail(self, error: DiskError) -> None:
        if self.offline is not None:
            return
        self.offline = error
        events.error("data directory offline", path=error.path, reason=error.reason)
        for log in self.logs.values():
            log.stop()
        if self._on_offline is not None:
            self._on_offline(error)

    def refused(self, error: DiskError) -> None:
        self.refused_writes += 1
        now_ms = self.clock.monotonic_ms()
        if now_ms - self._complained_ms >= COMPLAINT_MS:
            self._complained_ms = now_ms
            events.error("writes are refused", path=error.path, reason=error.reason)

    def flushed(self, log: Log) -> None:
        self._checkpointer.changed(log)

    def rolled(self, log: Log) -> None:
        self._checkpointer.rolled(log)

    def start_moved(self, log: Log) -> None:
        self._checkpointer.changed(log)
        self._checkpointer.checkpoint_later()

    def lower_checkpoints(self, log: Log, offset: int) -> None:
        self._checkpointer.lower(log, offset)

    def _expire_producers(self) -> None:
        now_ms = self.clock.now_ms()
        for log in self.logs.values():
            log.expire_producers(now_ms)
        if self.offline is None:
            self.timer.after(EXPIRE_PRODUCERS_MS, self._expire_producers)

    # Small files

    def _take_marker(self, names: list[str]) -> bool:
        """Whether the last stop was clean; from now on it does not count as one any more."""
        if log_files.CLEAN_SHUTDOWN not in names:
            return False
        try:
            log_files.decode_clean_shutdown(self.disk.read_file(log_files.CLEAN_SHUTDOWN))
            is_clean = True
        except log_files.CorruptFile as error:
            events.warning("clean-shutdown marker not believed", reason=str(error))
            is_clean = False
        self.disk.remove(log_files.CLEAN_SHUTDOWN)
        self.disk.sync_directory("")
        return is_clean

    def _read_offsets(self, name: str, names: list[str]) -> dict[TopicPartition, int] | None:
        """A checkpoint, empty where none was written yet; None where it cannot be believed."""
        if name not in names:
            return {}
        try:
            return log_files.decode_offsets(self.disk.read_file(name))
        except log_files.CorruptFile as error:
            events.warning("checkpoint not used", path=name, reason=str(error))
            return None
