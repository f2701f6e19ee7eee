"""A read of data that is not in the page cache does not delay other connections."""

import os
import threading
from pathlib import Path

import pytest

from sawlog.core.ports import Exchange
from sawlog.server.file_slices import PageCache
from support.server.shell import ScriptedApplication, Shell, StoredFile, framed, run

MIB = 1 << 20


class ColdCache(PageCache):
    """A page cache that reports misses while `is_cold`."""

    __slots__ = ("is_cold",)

    def __init__(self) -> None:
        super().__init__()
        self.is_cold = True

    def holds(self, descriptor: int, position: int, count: int) -> bool:
        return not self.is_cold and super().holds(descriptor, position, count)

    def read_into(self, descriptor: int, position: int, room: memoryview) -> bool:
        return not self.is_cold and super().read_into(descriptor, position, room)


class StuckDisk:
    """A transfer that blocks until the test releases it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def transfer(self, target: int, source: int, position: int, count: int) -> int:
        assert threading.current_thread() is not threading.main_thread()
        self.reached.set()
        assert self.go_on.wait(timeout=30)
        return os.sendfile(target, source, position, count)


def application_with(file: StoredFile) -> ScriptedApplication:
    def script(exchange: Exchange, request: bytes) -> None:
        if request == b"read":
            exchange.answer([file.size.to_bytes(4, "big"), file.slice()])
        else:
            exchange.answer([framed(request)])

    return ScriptedApplication(script)


@pytest.mark.parametrize("size", [1000, 3 * MIB])
def test_other_connections_are_served_during_a_cold_read(tmp_path: Path, size: int) -> None:
    file = StoredFile(tmp_path / "log", os.urandom(size))
    disk = StuckDisk()

    async def test() -> None:
        shell = Shell(application_with(file), page_cache=ColdCache(), transfer=disk.transfer)
        async with shell:
            reader, other = await shell.client(), await shell.client()
            await reader.send(framed(b"read") + framed(b"after"))
            await shell.until(disk.reached.is_set)
            for number in range(100):
                assert await other.request(b"%d" % number) == b"%d" % number
            disk.go_on.set()
            assert await reader.answer() == (tmp_path / "log").read_bytes()
            assert await reader.answer() == b"after"
        assert file.pins == 0

    run(test)


def test_descriptors_stay_open_until_a_cold_read_ends(
    tmp_path: Path,
) -> None:
    file = StoredFile(tmp_path / "log", bytes(MIB))
    disk = StuckDisk()

    async def test() -> None:
        shell = Shell(application_with(file), page_cache=ColdCache(), transfer=disk.transfer)
        async with shell:
            reader = await shell.client()
            await reader.send(framed(b"read"))
            await shell.until(disk.reached.is_set)
            shell.application.exchanges[0].close("changed our mind")
            assert await reader.receive(4) == MIB.to_bytes(4, "big")
            assert await reader.is_closed()
            assert file.pins == 1
            disk.go_on.set()
            await shell.until(lambda: file.pins == 0)

    run(test)


def test_uncached_data_is_sent_from_a_thread(tmp_path: Path) -> None:
    content = os.urandom(6 * MIB)
    file = StoredFile(tmp_path / "log", content)

    async def test() -> None:
        async with Shell(application_with(file)) as shell:
            reader = await shell.client()
            assert await reader.request(b"read") == content
            warm = shell.resources.send_resources.cold_sends
            file.make_cold()
            if shell.resources.send_resources.page_cache.holds(file.descriptor, 0, file.size):
                pytest.skip("this file system does not support RWF_NOWAIT")
            assert await reader.request(b"read") == content
            assert (warm, shell.resources.send_resources.cold_sends > 0) == (0, True)

    run(test)


def test_cached_data_is_sent_without_a_thread(tmp_path: Path) -> None:
    file = StoredFile(tmp_path / "log", os.urandom(100_000))
    cache = ColdCache()

    async def test() -> None:
        async with Shell(application_with(file), page_cache=cache) as shell:
            reader = await shell.client()
            await reader.request(b"read")
            cache.is_cold = False
            before = shell.resources.send_resources.cold_sends
            await reader.request(b"read")
            assert (before, shell.resources.send_resources.cold_sends) == (1, 1)

    run(test)


def test_a_failed_cold_read_closes_its_connection(tmp_path: Path) -> None:
    file = StoredFile(tmp_path / "log", bytes(MIB))

    def broken(target: int, source: int, position: int, count: int) -> int:
        raise OSError(5, "Input/output error")

    async def test() -> None:
        shell = Shell(application_with(file), page_cache=ColdCache(), transfer=broken)
        async with shell:
            reader, other = await shell.client(), await shell.client()
            await reader.send(framed(b"read"))
            await reader.receive(4)
            assert await reader.is_closed()
            assert await other.request(b"x") == b"x"
        assert file.pins == 0

    run(test)
