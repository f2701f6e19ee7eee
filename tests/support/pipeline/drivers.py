"""Pipeline drivers as processes, to be watched, killed and restarted."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from sawlog.pipeline.delta.data_files import PREFIX, decode_path
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_storage import open_storage
from sawlog.pipeline.iceberg.iceberg_table import IcebergTable
from support.pipeline.iceberg_tables import embedded_ref, is_iceberg
from support.process import ServerProcess, wait_until


class Driver(ServerProcess):
    """`sawlog pipeline run FILE` and its child processes."""

    def __init__(self, file: Path, *options: str) -> None:
        command = [sys.executable, "-m", "sawlog.cli.main", "pipeline", "run", str(file), *options]
        super().__init__(command)

    def below(self, words: str) -> list[psutil.Process]:
        """The child processes whose command line contains these words."""
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if words in " ".join(process.cmdline()):
                        found.append(process)
        return found


@contextlib.contextmanager
def driving(file: Path, *options: str) -> Iterator[Driver]:
    """Run a driver for the block; kill it and its children at the end."""
    driver = Driver(file, *options)
    try:
        yield driver
    finally:
        below = driver.below("")
        driver.kill()
        for process in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def run_to_the_end(file: Path, *options: str) -> str:
    """Run with `--once`, which must succeed; returns the output."""
    with driving(file, "--once", *options) as driver:
        wait_until(lambda: not driver.is_running, driver)
        code = driver.wait()
        assert code == 0, f"ended with {code}:\n{driver.output}"
        return driver.output


def uncommitted(path: str) -> set[str]:
    """Data files in the directory of a table that no version has."""
    if version_of(path) < 0:
        return set()
    there = {
        file.path
        for file in open_storage(path).walk()
        if file.path.rpartition("/")[2].startswith(PREFIX)
    }
    if is_iceberg(path):
        ref = embedded_ref(path)
        files = ref.open_catalog().load_table(ref.identifier).inspect.files()
        known = files["file_path"].to_pylist()
        return {name for name in there if f"{ref.location}/{name}" not in known}
    snapshot = Table.open(path).snapshot
    return there - {decode_path(name) for name in (*snapshot.files, *snapshot.tombstones)}


def version_of(path: str) -> int:
    if is_iceberg(path):
        return IcebergTable.open(embedded_ref(path)).version
    return Table.open(path).version if Table.exists(path) else -1


def kill_all(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
