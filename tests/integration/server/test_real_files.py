"""Slices of files on the real disk are sent completely, even if the file is deleted."""

import os
from pathlib import Path

from sawlog.core.ports import Exchange, FileSlice
from sawlog.server.disk import RealDisk
from support.server.shell import ScriptedApplication, Shell, framed, run

MIB = 1 << 20


def test_a_file_that_is_deleted_while_it_is_sent_is_complete(tmp_path: Path) -> None:
    content = os.urandom(24 * MIB)
    exchanges: list[Exchange] = []

    async def test() -> None:
        application = ScriptedApplication(lambda exchange, _: exchanges.append(exchange))
        async with Shell(application) as shell:
            disk = RealDisk(str(tmp_path), shell.loop.call_soon_threadsafe, max_descriptors=1)
            doomed = disk.open("doomed.log", create=True)
            doomed.append([content])
            reader = await shell.client(receive_buffer_bytes=65536)
            await reader.send(framed(b"first") + framed(b"second"))
            await shell.until(lambda: len(exchanges) == 2)
            whole = [len(content).to_bytes(4, "big"), FileSlice(doomed, 0, len(content))]
            exchanges[1].answer(whole)
            exchanges[0].answer(whole)
            await shell.settle()
            doomed.close()
            disk.remove("doomed.log")
            disk.open("other.log", create=True).append([b"takes the only descriptor"])
            assert await reader.answer() == content
            assert await reader.answer() == content
            disk.close()

    run(test)
