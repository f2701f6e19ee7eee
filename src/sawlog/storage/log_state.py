"""The parts that a log is made of, and how a segment is created."""

from dataclasses import dataclass
from typing import Protocol

from sawlog.core.ids import TopicId
from sawlog.core.ports import Clock, Disk, Random
from sawlog.storage.leader_epoch_file import LeaderEpochFile
from sawlog.storage.log_config import LogConfig
from sawlog.storage.producer_state_store import ProducerStateStore
from sawlog.storage.roll_policy import RollPolicy
from sawlog.storage.segment import Segment
from sawlog.storage.segments import Segments
from sawlog.storage.unsynced_files import UnsyncedFiles


class StoragePorts(Protocol):
    """The ports of the machine that a log works with."""

    @property
    def disk(self) -> Disk: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def random(self) -> Random: ...


@dataclass(slots=True)
class LogState:
    """The parts of a log, as recovery has found them or as a new log begins."""

    topic_id: TopicId
    segments: Segments
    producers: ProducerStateStore
    epochs: LeaderEpochFile
    unsynced: UnsyncedFiles
    start_offset: int
    end_offset: int
    flushed_offset: int
    high_watermark: int

    @classmethod
    def empty(
        cls,
        ports: StoragePorts,
        directory: str,
        topic_id: TopicId,
        config: LogConfig,
        producers: ProducerStateStore,
        *,
        base_offset: int = 0,
    ) -> "LogState":
        """A log without records that begins at `base_offset`; its directory exists."""
        unsynced = UnsyncedFiles(directory)
        segment = create_segment(ports, directory, base_offset, config, unsynced)
        unsynced.note_new_directory()
        return cls(
            topic_id,
            Segments([segment]),
            producers,
            LeaderEpochFile(ports.disk, directory),
            unsynced,
            base_offset,
            base_offset,
            base_offset,
            base_offset,
        )


def create_segment(
    ports: StoragePorts,
    directory: str,
    base_offset: int,
    config: LogConfig,
    unsynced: UnsyncedFiles,
) -> Segment:
    """Create an empty segment; its directory entry is on disk after the next flush."""
    segment = Segment(
        ports.disk,
        directory,
        base_offset,
        created_ms=ports.clock.now_ms(),
        index_interval_bytes=config.index_interval_bytes,
        jitter_ms=RollPolicy.of(config).draw_jitter_ms(ports.random),
        is_new=True,
    )
    unsynced.note_new_entry()
    return segment


def recreate_segments(
    ports: StoragePorts,
    directory: str,
    segments: Segments,
    base_offset: int,
    config: LogConfig,
    unsynced: UnsyncedFiles,
) -> None:
    """Remove all segments, the newest first, and create an empty one; durable when this returns."""
    removed = list(segments)
    unsynced.forget(file for segment in removed for file in segment.files())
    for segment in reversed(removed):
        segment.remove(ports.disk, directory)
    ports.disk.sync_directory(directory)
    segments.replace(removed, create_segment(ports, directory, base_offset, config, unsynced))
    ports.disk.sync_directory(directory)
