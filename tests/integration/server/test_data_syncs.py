"""fdatasync with Linux AIO, and on threads without it."""

import asyncio
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sawlog.server import kernel_syncs
from sawlog.server.data_syncs import DataSyncs
from sawlog.server.disk import RealDisk
from sawlog.server.disk_threads import DiskThreads
from sawlog.server.kernel_syncs import SLOTS, KernelSyncs, NotSupported

GUARD_S = 30


async def results_of(count: int, start: Callable[[Callable[[int], None]], None]) -> list[int]:
    """Return the results of `count` syncs, started one by one."""
    done: list[int] = []
    over = asyncio.Event()

    def one(error: int) -> None:
        done.append(error)
        if len(done) == count:
            over.set()

    for _ in range(count):
        start(one)
    assert done == [], "done from inside the call"
    await asyncio.wait_for(over.wait(), GUARD_S)
    return done


def never(descriptor: int, done: Callable[[int], None]) -> None:
    raise AssertionError(f"descriptor {descriptor} was not taken by the kernel")


def test_more_files_than_slots_are_all_synced(tmp_path: Path) -> None:
    async def sync_many() -> list[int]:
        syncs = KernelSyncs(asyncio.get_running_loop(), never)
        with (tmp_path / "file").open("wb", buffering=0) as file:

            def start(done: Callable[[int], None]) -> None:
                file.write(b"x" * 1000)
                syncs.sync(file.fileno(), done)

            try:
                return await results_of(2 * SLOTS + 10, start)
            finally:
                assert syncs.under_way == 0
                syncs.close()

    assert asyncio.run(sync_many()) == [0] * (2 * SLOTS + 10)


def test_a_file_that_aio_rejects_is_synced_by_the_fallback() -> None:
    async def sync_a_pipe() -> list[int]:
        reader, writer = os.pipe()
        loop = asyncio.get_running_loop()
        threads = DiskThreads(loop.call_soon_threadsafe)
        syncs = DataSyncs(threads, loop)
        try:
            return await results_of(2, lambda done: syncs.sync(writer, done))
        finally:
            syncs.close()
            threads.stop()
            os.close(reader)
            os.close(writer)

    assert asyncio.run(sync_a_pipe()) == [errno.EINVAL] * 2


def synced_five_times(file_path: Path) -> list[int]:
    """Sync a file five times; return the results."""

    async def sync() -> list[int]:
        loop = asyncio.get_running_loop()
        threads = DiskThreads(loop.call_soon_threadsafe)
        syncs = DataSyncs(threads, loop)
        with file_path.open("wb", buffering=0) as file:
            try:
                return await results_of(5, lambda done: syncs.sync(file.fileno(), done))
            finally:
                syncs.close()
                threads.stop()

    return asyncio.run(sync())


def test_threads_are_used_without_aio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_syncs, "_SYSTEM_CALLS", {})

    async def ask() -> None:
        KernelSyncs(asyncio.get_running_loop(), never)

    with pytest.raises(NotSupported, match="unknown system call numbers"):
        asyncio.run(ask())
    assert synced_five_times(tmp_path / "file") == [0] * 5


def test_threads_are_used_without_a_descriptor_for_aio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "eventfd", fail)
    assert synced_five_times(tmp_path / "file") == [0] * 5


def test_threads_are_used_without_ctypes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sawlog.server.kernel_syncs", None)
    assert synced_five_times(tmp_path / "file") == [0] * 5


def test_a_disk_with_a_loop_syncs_without_threads(tmp_path: Path) -> None:
    async def sync() -> int:
        loop = asyncio.get_running_loop()
        disk = RealDisk(str(tmp_path), loop.call_soon_threadsafe, loop=loop)
        file = disk.open("file", create=True)
        file.append((b"bytes",))
        synced = loop.create_future()
        file.sync_later(synced.set_result)
        try:
            assert await asyncio.wait_for(synced, GUARD_S) is None
            return len(disk.threads._threads)
        finally:
            file.close()
            disk.close()

    assert asyncio.run(sync()) == 0


def test_close_waits_for_the_calls_under_way(tmp_path: Path) -> None:
    async def end_early() -> None:
        syncs = KernelSyncs(asyncio.get_running_loop(), never)
        with (tmp_path / "file").open("wb", buffering=0) as file:
            file.write(b"x" * 10_000_000)
            syncs.sync(file.fileno(), lambda error: None)
            syncs.close()

    asyncio.run(end_early())
