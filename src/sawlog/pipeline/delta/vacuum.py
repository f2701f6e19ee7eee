"""Deletes files that no version needs: what dead tasks left, and what was replaced long ago.

A file of ours that the log does not mention may belong to a batch that is under way, so it must be
older than any batch takes. A file that was removed from the table stays for those who read older
versions, for a time of its own.
"""

import time
from typing import NamedTuple

from sawlog.pipeline.delta.data_files import PREFIX, on_disk
from sawlog.pipeline.delta.delta_log import REMOVED_MS
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_storage import ASIDE, LOG

DAY_MS = 24 * 60 * 60 * 1000
UNKNOWN_MS = DAY_MS


class Swept(NamedTuple):
    files: int
    size: int


def sweep(
    table: Table,
    *,
    unknown_ms: int = UNKNOWN_MS,
    removed_ms: int = REMOVED_MS,
    now_ms: int | None = None,
) -> Swept:
    """Deletes what nobody refers to since `unknown_ms` and what was removed `removed_ms` ago."""
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    candidates = [
        file
        for file in table.storage.walk()
        if _is_ours(file.path) and file.modified_ms < now - min(unknown_ms, removed_ms)
    ]
    # Listed before the log is read: what is committed meanwhile is found in the log.
    table.refresh()
    needed, unneeded_since = _mentioned(table)
    files = size = 0
    for file in candidates:
        if file.path in needed:
            continue
        removed = unneeded_since.get(file.path)
        expired = (
            file.modified_ms < now - unknown_ms if removed is None else removed < now - removed_ms
        )
        if expired and table.storage.delete(file.path):
            files += 1
            size += file.size
    return Swept(files, size)


def _is_ours(path: str) -> bool:
    directory, _, name = path.rpartition("/")
    if directory == LOG:
        return name.startswith(ASIDE)
    return name.startswith(PREFIX) and name.endswith(".parquet")


def _mentioned(table: Table) -> tuple[set[str], dict[str, int]]:
    """The files of the table; and those that it once had, with the time since when not."""
    needed = {on_disk(path) for path in table.state.files}
    removed = {on_disk(path): since for path, since in table.state.removed.items()}
    return needed, removed
