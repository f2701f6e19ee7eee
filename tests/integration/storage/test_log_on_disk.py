"""The log on real files."""

import queue
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sawlog.server.disk import RealDisk
from sawlog.simulation.schedule import Schedule, SeededRandom
from sawlog.storage.log import Log
from sawlog.storage.log_config import LogConfig
from sawlog.storage.log_directory import LogDirectory
from support.storage.logs import TOPIC_ID, TP, append, headers_in, records

if TYPE_CHECKING:
    from collections.abc import Callable

    from sawlog.core.ports import DiskError

CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=500)


class StorageProcess:
    """The storage of a broker in a directory, with so few descriptors that files are reopened."""

    def __init__(self, root: Path) -> None:
        self.schedule = Schedule(1)
        self.arrived: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.disk = RealDisk(str(root), self.arrived.put, max_descriptors=6)
        self.disk.lock()
        self.directory = LogDirectory(
            self.disk,
            self.schedule,
            self.schedule,
            SeededRandom(1),
            config_for=lambda _: CONFIG,
        )
        self.directory.open()

    @property
    def log(self) -> Log:
        if TP not in self.directory.logs:
            self.directory.create(TP, TOPIC_ID, CONFIG)
        return self.directory.logs[TP]

    def run_until_idle(self) -> None:
        """Handle completions until no disk operation is in flight."""
        while self.disk.threads.under_way or not self.arrived.empty():
            self.arrived.get(timeout=30)()
            self.schedule.run_for(0)

    def flush(self) -> None:
        outcomes: list[DiskError | None] = []
        self.log.flush.when_flushed(outcomes.append)
        self.schedule.run_for(0)
        self.run_until_idle()
        assert outcomes == [None]

    def stop(self) -> None:
        self.directory.close_cleanly()
        self.disk.close()

    def kill(self) -> None:
        """End like kill -9: nothing more is written."""
        self.disk.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


def fill(process: StorageProcess, count: int) -> None:
    for number in range(count):
        append(
            process.log,
            records(3, timestamp=process.schedule.now_ms() + number, value=b"%0100d" % number),
            epoch=2,
            producer_id=1,
            producer_epoch=0,
            base_sequence=process.log.end_offset,
        )
        process.run_until_idle()


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_survives_a_stop_and_a_kill(root: Path, is_clean: bool) -> None:
    process = StorageProcess(root)
    fill(process, 200)
    process.flush()
    assert len(process.log.segments) > 3
    expected = headers_in(process.log)
    states = process.log.producer_states
    process.stop() if is_clean else process.kill()
    process = StorageProcess(root)
    assert process.directory.was_clean == is_clean
    assert headers_in(process.log) == expected
    assert process.log.producer_states.equals_except_timestamps(states)
    assert process.log.topic_id == TOPIC_ID
    fill(process, 10)
    assert process.log.end_offset == 630
    process.stop()


def test_truncation_start_offset_and_deletion_on_real_files(root: Path) -> None:
    process = StorageProcess(root)
    fill(process, 200)
    process.log.truncate(301)
    process.run_until_idle()
    assert process.log.end_offset == 300
    fill(process, 20)
    process.flush()
    process.log.advance_start(200)
    process.run_until_idle()
    logs = sorted(path.name for path in (root / str(TP)).glob("*.log"))
    assert len(logs) == len(process.log.segments)
    process.kill()
    process = StorageProcess(root)
    assert process.log.end_offset == 360
    assert [header.base_offset for header in headers_in(process.log)][-1] == 357
    process.directory.delete(TP)
    process.run_until_idle()
    assert not list(root.glob("topic*"))
    process.stop()


def test_a_torn_tail_is_cut_on_real_files(root: Path) -> None:
    process = StorageProcess(root)
    fill(process, 10)
    process.kill()
    path = root / str(TP) / "00000000000000000000.log"
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\0" * 1_000)
    process = StorageProcess(root)
    assert process.log.end_offset == 30
    assert path.stat().st_size == size
    process.stop()
