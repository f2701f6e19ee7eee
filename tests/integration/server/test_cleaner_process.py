"""The log cleaner's worker as a real process, on real files."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from sawlog.core.ports import DiskError
from sawlog.server.cleaner_main import NICENESS
from sawlog.server.cleaner_messages import Result, encode_request
from sawlog.server.cleaner_process import MODULE, CleanerProcess
from sawlog.server.clock import LoopTimer, SystemClock, SystemRandom
from sawlog.server.disk import RealDisk
from sawlog.simulation.stepped_cleaner import SteppedCleaner
from sawlog.storage.cleaner.cleaner_worker import CleanerFailure
from sawlog.storage.cleaner.log_cleaner import CleanerConfig
from sawlog.storage.cleaner.segment_cleaner import CleanRequest, CleanResult, MapRequest, MapResult
from sawlog.storage.log_directory import LogDirectory
from support.process import is_alive, wait_until
from support.server.shell import run
from support.storage.compaction import (
    CompactedStorage,
    assert_compacted,
    compacted,
    contents,
    latest,
)
from support.storage.logs import TOPIC_ID, TP, append, records

UNLIMITED = float("inf")
BATCHES = 400
BROKER = """
import asyncio, math, os, signal, sys
from sawlog.server.cleaner_process import CleanerProcess
from sawlog.server.clock import LoopTimer

loop = asyncio.new_event_loop()
worker = CleanerProcess(loop, LoopTimer(loop), sys.argv[1], math.inf)
os.kill(worker.process_id, signal.SIGSTOP)
print(worker.process_id, flush=True)
signal.pause()
"""
"""A process that starts a worker and stops it at once."""


@pytest.fixture(scope="module")
def storage() -> CompactedStorage:
    """A dirty log on the simulated disk."""
    storage = CompactedStorage(compacted(segment_bytes=6_000))
    storage.fill(BATCHES, keys=50)
    storage.settle()
    assert len(storage.log.segments) >= 4
    return storage


@pytest.fixture
def data(storage: CompactedStorage, tmp_path: Path) -> Path:
    """The same log in a real data directory."""
    directory = tmp_path / str(TP)
    directory.mkdir()
    for name in storage.disk.list(str(TP)):
        (directory / name).write_bytes(storage.disk.read_file(f"{TP}/{name}"))
    return tmp_path


def map_request(storage: CompactedStorage, **fields: Any) -> MapRequest:
    bases = storage.log.segments.base_offsets
    settings: dict[str, Any] = {
        "directory": str(TP),
        "segments": tuple(bases[:-1]),
        "start_offset": 0,
        "end_offset": bases[-1],
        "memory_bytes": 1 << 20,
        "chunk_bytes": 2_048,
    }
    return MapRequest(**{**settings, **fields})


def clean_request(storage: CompactedStorage, number: int = 0, **fields: Any) -> CleanRequest:
    bases = storage.log.segments.base_offsets
    settings: dict[str, Any] = {
        "directory": str(TP),
        "segments": tuple(bases[number : number + 2]),
        "next_segment": bases[number + 2],
        "end_offset": bases[-1],
        "now_ms": storage.now_ms,
        "delete_retention_ms": 86_400_000,
        "last_offsets": {},
        "index_interval_bytes": 100,
        "chunk_bytes": 2_048,
    }
    return CleanRequest(**{**settings, **fields})


class Worker:
    """A CleanerProcess whose results are awaited."""

    def __init__(self, data: Path, bytes_per_second: float = UNLIMITED) -> None:
        self._loop = asyncio.get_running_loop()
        timer = LoopTimer(self._loop)
        self.process = CleanerProcess(self._loop, timer, str(data), bytes_per_second)
        self.process_id = self.process.process_id

    async def map(self, request: MapRequest) -> Result:
        result: asyncio.Future[Result] = self._loop.create_future()
        self.process.build_map(request, result.set_result)
        return await result

    async def clean(self, request: CleanRequest) -> Result:
        result: asyncio.Future[Result] = self._loop.create_future()
        self.process.clean(request, result.set_result)
        return await result

    @property
    def is_reaped(self) -> bool:
        """Whether no process has this id any more, not even a dead one."""
        try:
            os.kill(self.process_id, 0)
        except ProcessLookupError:
            return True
        return False


async def until(condition: Callable[[], bool]) -> None:
    """Run the loop until the condition holds; the test's deadline bounds it."""
    while not condition():
        await asyncio.sleep(0)


@asynccontextmanager
async def worker_on(data: Path, bytes_per_second: float = UNLIMITED) -> AsyncIterator[Worker]:
    worker = Worker(data, bytes_per_second)
    try:
        yield worker
    finally:
        worker.process.stop()
        await until(lambda: worker.is_reaped)


def cleaned_files(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (data / str(TP)).glob("*.cleaned")}


def test_the_process_writes_the_same_files_as_the_simulation(
    storage: CompactedStorage, data: Path
) -> None:
    stepped = SteppedCleaner(storage.disk, storage.schedule)
    expected: list[Any] = []
    stepped.build_map(map_request(storage), expected.append)
    assert storage.schedule.run(lambda: len(expected) == 1)
    stepped.clean(clean_request(storage), expected.append)
    assert storage.schedule.run(lambda: len(expected) == 2)
    files = {n: storage.disk.read_file(f"{TP}/{n}") for n in storage.names(".cleaned")}

    async def test() -> None:
        async with worker_on(data) as worker:
            mapped = await worker.map(map_request(storage))
            assert isinstance(mapped, MapResult)
            assert mapped.keys == 50
            cleaned = await worker.clean(clean_request(storage))
            assert isinstance(cleaned, CleanResult)
            assert cleaned.stats.records_written < cleaned.stats.records_read
            assert [mapped, cleaned] == expected

    run(test)
    assert cleaned_files(data) == files
    assert {name[20:] for name in files} == {
        ".log.cleaned",
        ".index.cleaned",
        ".timeindex.cleaned",
    }


def test_a_request_larger_than_a_pipe_goes_through(storage: CompactedStorage, data: Path) -> None:
    producers = {1_000_000 + number: number for number in range(100_000)}

    async def test() -> None:
        async with worker_on(data) as worker:
            await worker.map(map_request(storage))
            result = await worker.clean(clean_request(storage, last_offsets=producers))
            assert isinstance(result, CleanResult)
            again = await worker.map(map_request(storage))
            assert isinstance(again, MapResult), "the next request is understood"

    run(test)


def test_stop_kills_and_reaps_the_process(storage: CompactedStorage, data: Path) -> None:
    results: list[Any] = []

    async def test() -> None:
        worker = Worker(data, bytes_per_second=1.0)  # it would take hours
        worker.process.build_map(map_request(storage), results.append)
        worker.process.stop()
        worker.process.stop()
        await until(lambda: worker.is_reaped)

    run(test)
    assert results == []


def test_a_process_that_is_killed_fails_its_request(storage: CompactedStorage, data: Path) -> None:
    async def test() -> None:
        async with worker_on(data, bytes_per_second=1.0) as worker:
            asyncio.get_running_loop().call_soon(os.kill, worker.process_id, signal.SIGKILL)
            result = await worker.map(map_request(storage))
            assert isinstance(result, CleanerFailure)
            assert not result.is_damage
            assert "has ended" in result.reason

    run(test)


def test_a_process_that_was_killed_while_idle_fails_the_next_request(
    storage: CompactedStorage, data: Path
) -> None:
    async def test() -> None:
        async with worker_on(data) as worker:
            await worker.map(map_request(storage))
            os.kill(worker.process_id, signal.SIGKILL)
            # Whether or not the loop has noticed yet.
            for _ in range(2):
                result = await worker.clean(clean_request(storage))
                assert isinstance(result, CleanerFailure)

    run(test)


def test_damage_is_reported_with_its_place(storage: CompactedStorage, data: Path) -> None:
    path = data / str(TP) / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)

    async def test() -> None:
        async with worker_on(data) as worker:
            result = await worker.map(map_request(storage))
            assert isinstance(result, CleanerFailure)
            assert result.is_damage
            assert f"{TP}/00000000000000000000.log" in result.reason
            path.unlink()
            missing = await worker.map(map_request(storage))
            assert isinstance(missing, CleanerFailure), "the process still answers"
            assert not missing.is_damage
            assert "missing" in missing.reason

    run(test)


def test_the_process_ends_when_its_input_is_closed(storage: CompactedStorage, data: Path) -> None:
    """The pipe is closed when the broker ends, however it ends; the request would take hours."""
    command = [sys.executable, "-m", MODULE, str(data), "1.0", str(os.getpid())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        output, _ = process.communicate(encode_request(map_request(storage)), timeout=30)
    assert (process.returncode, output) == (0, b"")


def stopped_at_its_start(data: Path) -> tuple["subprocess.Popen[str]", psutil.Process]:
    """A parent process, and its worker that was stopped before it asked to end with its parent."""
    while True:
        command = [sys.executable, "-c", BROKER, str(data)]
        parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        wait_until(lambda worker=worker: worker.status() == psutil.STATUS_STOPPED)  # type: ignore[misc]
        if worker.nice() == psutil.Process(parent.pid).nice():
            return parent, worker
        worker.kill()
        parent.kill()
        parent.communicate()


def test_a_worker_that_is_stopped_at_its_start_ends_with_its_broker(data: Path) -> None:
    parent, worker = stopped_at_its_start(data)
    try:
        assert os.getpgid(worker.pid) != os.getpgid(parent.pid), "Ctrl-C is for the broker only"
        parent.kill()
        parent.communicate()
        wait_until(lambda: not is_alive(worker), patience_s=60)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            worker.kill()


def test_the_process_has_a_lower_priority(storage: CompactedStorage, data: Path) -> None:
    async def test() -> None:
        async with worker_on(data) as worker:
            await worker.map(map_request(storage))
            own = os.getpriority(os.PRIO_PROCESS, 0)
            found = os.getpriority(os.PRIO_PROCESS, worker.process_id)
            assert found == min(19, own + NICENESS)

    run(test)


def test_a_stopped_process_leaves_no_descriptor(storage: CompactedStorage, data: Path) -> None:
    async def test() -> None:
        before = len(os.listdir("/proc/self/fd"))
        async with worker_on(data) as worker:
            await worker.map(map_request(storage))
        await until(lambda: len(os.listdir("/proc/self/fd")) == before)

    run(test)


def test_a_process_that_cannot_be_started_is_a_disk_error(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(data / "missing"))

    async def test() -> None:
        with pytest.raises(DiskError, match="cannot start a process"):
            Worker(data)

    run(test)


# The whole cleaner on the real disk


def test_a_log_is_cleaned_although_the_first_worker_is_killed(tmp_path: Path) -> None:
    config = compacted(segment_bytes=6_000)

    async def test() -> None:
        loop = asyncio.get_running_loop()
        timer = LoopTimer(loop)
        disk = RealDisk(str(tmp_path), loop.call_soon_threadsafe)
        disk.lock()
        workers: list[CleanerProcess] = []
        start = partial(CleanerProcess, loop, timer, str(tmp_path))

        def start_and_kill_first(bytes_per_second: float) -> CleanerProcess:
            workers.append(start(bytes_per_second))
            if len(workers) == 1:
                os.kill(workers[0].process_id, signal.SIGKILL)
            return workers[-1]

        directory = LogDirectory(
            disk,
            SystemClock(),
            timer,
            SystemRandom(),
            config_for=lambda _: config,
            cleaner_config=CleanerConfig(backoff_ms=20),
            start_cleaner=start_and_kill_first,
        )
        directory.open()
        log = directory.create(TP, TOPIC_ID, config)
        for number in range(300):
            append(log, [r._replace(key=b"%d" % (number % 20)) for r in records(2)])
        log.set_high_watermark(log.end_offset)
        before = contents(log)
        await until(lambda: directory.cleaner.totals.cleanings > 0)
        assert directory.cleaner.totals.failures == 1
        after = contents(log)
        assert latest(after) == latest(before)
        assert_compacted(after, log.segments.base_offsets[1])
        directory.close_cleanly()
        for worker in workers:
            worker.stop()
            await until(lambda worker=worker: not Path(f"/proc/{worker.process_id}").exists())  # type: ignore[misc]
        disk.close()

    run(test)
    assert not list(tmp_path.glob("*/*.cleaned"))
    assert not list(tmp_path.glob("*/*.swap"))
