"""Vacuum: delete data files that no recent version needs.

A file that the log does not mention may belong to a batch in progress, so it must be older than any
batch takes (`orphan_ms`). A removed file stays for readers of older versions until its tombstone
expires (`tombstone_ms`): after a week, or as the table's property says.
"""

import re
import time
from typing import NamedTuple

from sawlog.pipeline.delta.data_files import PREFIX, decode_path
from sawlog.pipeline.delta.delta_log import TOMBSTONE_RETENTION_MS
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_storage import LOG, TEMPORARY_PREFIX

DAY_MS = 24 * 60 * 60 * 1000
ORPHAN_RETENTION_MS = DAY_MS
RETENTION = "delta.deletedFileRetentionDuration"  # Delta's property, such as `interval 1 day`
_UNITS_MS = {
    "minute": 60 * 1000,
    "hour": 60 * 60 * 1000,
    "day": DAY_MS,
    "week": 7 * DAY_MS,
}
_INTERVAL = re.compile(rf"interval (\d+) ({'|'.join(_UNITS_MS)})s?")


class VacuumResult(NamedTuple):
    files: int
    size: int


def vacuum(
    table: Table,
    *,
    orphan_ms: int = ORPHAN_RETENTION_MS,
    tombstone_ms: int | None = None,
    now_ms: int | None = None,
) -> VacuumResult:
    """Delete orphan files older than `orphan_ms` and files removed `tombstone_ms` ago."""
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    tombstone_ms = retention_ms(table) if tombstone_ms is None else tombstone_ms
    candidates = [
        file
        for file in table.storage.walk()
        if _is_ours(file.path) and file.modified_ms < now - min(orphan_ms, tombstone_ms)
    ]
    # Listed before the log is read, so a file committed meanwhile is found in the log.
    table.refresh()
    active = {decode_path(path) for path in table.snapshot.files}
    tombstones = {decode_path(path): at for path, at in table.snapshot.tombstones.items()}
    files = size = 0
    for file in candidates:
        if file.path in active:
            continue
        removed_at_ms = tombstones.get(file.path)
        if removed_at_ms is None:
            expired = file.modified_ms < now - orphan_ms
        else:
            expired = removed_at_ms < now - tombstone_ms
        if expired:
            table.storage.delete(file.path)
            files += 1
            size += file.size
    return VacuumResult(files, size)


def retention_ms(table: Table) -> int:
    """How long files stay that a version removed."""
    properties = table.snapshot.metadata.get("configuration") or {}
    match = _INTERVAL.fullmatch(properties.get(RETENTION, "").strip().lower())
    return TOMBSTONE_RETENTION_MS if match is None else int(match[1]) * _UNITS_MS[match[2]]


def _is_ours(path: str) -> bool:
    directory, _, name = path.rpartition("/")
    if directory == LOG:
        return name.startswith(TEMPORARY_PREFIX)
    return name.startswith(PREFIX) and name.endswith(".parquet")
