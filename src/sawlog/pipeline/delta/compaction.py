"""Compaction: merge small data files into larger ones while other writers commit.

A compaction changes no rows, so it commits `dataChange: false` and streams skip it. It is committed
only on a snapshot in which every file that it replaces is active; if another compaction or a
rewrite removed one of them first, the merged files are deleted.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from sawlog.pipeline.delta.data_files import DataFile, delete_uncommitted, remove_action
from sawlog.pipeline.delta.errors import FileConflict, TableError
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.merge import is_keyed
from sawlog.pipeline.delta.merge import target_bytes as keyed_target_bytes
from sawlog.pipeline.delta.parquet_writer import TARGET_BYTES, FileWriter
from sawlog.pipeline.delta.partitioning import PartitionBy
from sawlog.pipeline.delta.table import CommittedVersion, Table, add_actions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from sawlog.pipeline.delta.delta_log import Action, ActiveFile, Snapshot
    from sawlog.pipeline.delta.table_path import AnyPath
    from sawlog.pipeline.delta.table_storage import TableStorage

_FULL = 0.75  # larger files, as a share of the target size, are left alone
_TIERS = (1 / 512, 1 / 64, 1 / 8, _FULL)  # upper bounds, as shares of the target size
_KEYED_GROUPS = 8
_WAVE = 64  # groups merged before the first of them is committed


class FileGroup(NamedTuple):
    """Small files of one partition that are merged together."""

    files: tuple[ActiveFile, ...]


class CompactionResult(NamedTuple):
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    conflicts: int  # groups that lost a file to another writer


def plan_groups(files: Iterable[ActiveFile], target_bytes: int = TARGET_BYTES) -> list[FileGroup]:
    """Group the small files of each partition, oldest first, up to the target size."""
    partitions: dict[tuple[tuple[str, str | None], ...], list[ActiveFile]] = {}
    for file in sorted(files, key=lambda file: (file.modified_ms, file.path)):
        if file.size < target_bytes * _FULL:
            key = tuple(sorted(file.partition_values.items()))
            partitions.setdefault(key, []).append(file)
    return [group for small in partitions.values() for group in _packed(small, target_bytes)]


def plan_tiers(
    files: Iterable[ActiveFile], most: int, target_bytes: int = TARGET_BYTES
) -> list[FileGroup]:
    """Group files of similar size where a partition has more than `most` of them.

    A tier is up to eight times as large as the one below it, and files are merged within their
    tier. So a row is rewritten a few times only, however many small files follow it.
    """
    tiers: dict[tuple[Any, ...], list[ActiveFile]] = {}
    for file in sorted(files, key=lambda file: (file.modified_ms, file.path)):
        tier = next((at for at, bound in enumerate(_TIERS) if file.size < target_bytes * bound), -1)
        if tier >= 0:
            key = (tier, *sorted(file.partition_values.items()))
            tiers.setdefault(key, []).append(file)
    return [
        group
        for small in tiers.values()
        if len(small) > most
        for group in _packed(small, target_bytes)
    ]


def _packed(files: list[ActiveFile], target_bytes: int) -> Iterator[FileGroup]:
    waiting: list[ActiveFile] = []
    size = 0
    for file in files:
        if waiting and size + file.size > target_bytes:
            if len(waiting) > 1:
                yield FileGroup(tuple(waiting))
            waiting, size = [], 0
        waiting.append(file)
        size += file.size
    if len(waiting) > 1:
        yield FileGroup(tuple(waiting))


def merge_files(
    storage: TableStorage,
    group: FileGroup,
    schema: pa.Schema,
    partition_columns: Sequence[str],
    target_bytes: int = TARGET_BYTES,
) -> list[DataFile]:
    """Write the rows of the group into new files; `schema` is that of the table."""
    by = [PartitionBy(name, name, None) for name in partition_columns]
    values = tuple(group.files[0].partition_values[name] for name in partition_columns)
    # Groups are cut by their input size; merged output a little over the target stays one file.
    with FileWriter(storage, by, target_bytes=2 * target_bytes) as writer:
        for file in group.files:
            for batch in scan_file(storage, file.path, schema, file.partition_values):
                writer.write_into(values, batch)
        return writer.close()


def commit_compaction(
    table: Table, group: Sequence[ActiveFile], merged: Sequence[DataFile]
) -> CommittedVersion:
    """Replace the files of a group by files with the same rows. Raises FileConflict."""
    counts = [file.rows for file in group]
    rows = sum(file.rows for file in merged)
    if None not in counts and sum(count or 0 for count in counts) != rows:
        raise TableError(
            f"{len(group)} files of {table.path} hold {counts} rows and what they were merged into"
            f" {rows}: nothing is replaced"
        )

    def replace(snapshot: Snapshot) -> list[Action]:
        for file in group:
            live = snapshot.files.get(file.path)
            if live is None or live.size != file.size:
                raise FileConflict(f"{file.path} is no longer part of {table.path}")
        now = max(file.modified_ms for file in group)  # keeps the order by time
        return [
            *(remove_action(file, _now_ms(), data_change=False) for file in group),
            *add_actions(snapshot, merged, None, now, data_change=False),
        ]

    done = table.transact("OPTIMIZE", replace)
    assert isinstance(done, CommittedVersion)  # `replace` always returns actions
    return done


def compact(
    spark: SparkSession | None,
    path: AnyPath,
    target_bytes: int = TARGET_BYTES,
) -> CompactionResult:
    """Merge the small files, one Spark task per group, or in this process without a session.

    Each group is committed as soon as it is merged.
    """
    table = Table.open(path)
    target_bytes = keyed_target_bytes(table, target_bytes)
    return _compact(spark, table, plan_groups(table.files(), target_bytes), target_bytes)


def compact_tiers(path: AnyPath, most: int, target_bytes: int = TARGET_BYTES) -> CompactionResult:
    """Merge files of similar size where a partition has more than `most`, in this process."""
    table = Table.open(path)
    groups = due_groups(table, most, target_bytes)
    return _compact(None, table, groups, keyed_target_bytes(table, target_bytes))


def due_groups(table: Table, most: int, target_bytes: int = TARGET_BYTES) -> list[FileGroup]:
    """The groups that upkeep merges now.

    Of a keyed table they are few: each commit makes a landing merge its batch again.
    """
    groups = plan_tiers(table.files(), most, keyed_target_bytes(table, target_bytes))
    return groups[:_KEYED_GROUPS] if is_keyed(table) else groups


def _compact(
    spark: SparkSession | None, table: Table, groups: list[FileGroup], target_bytes: int
) -> CompactionResult:
    """Merge and commit groups; one that another writer changed is skipped."""
    files_before = files_after = bytes_before = bytes_after = conflicts = 0
    for index, merged in _run(spark, table, groups, target_bytes):
        group = groups[index]
        try:
            commit_compaction(table, group.files, merged)
        except FileConflict:
            delete_uncommitted(table.storage, merged)
            conflicts += 1
            continue
        files_before += len(group.files)
        files_after += len(merged)
        bytes_before += sum(file.size for file in group.files)
        bytes_after += sum(file.size for file in merged)
    return CompactionResult(files_before, files_after, bytes_before, bytes_after, conflicts)


def _run(
    spark: SparkSession | None, table: Table, groups: list[FileGroup], target_bytes: int
) -> Iterator[tuple[int, list[DataFile]]]:
    storage, schema, columns = table.storage, table.schema, table.partition_columns
    if spark is None or not groups:
        for index, group in enumerate(groups):
            yield index, merge_files(storage, group, schema, columns, target_bytes)
        return

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                merged = merge_files(storage, groups[index], schema, columns, target_bytes)
                text = json.dumps([file.to_json() for file in merged])
                yield pa.RecordBatch.from_pydict({"id": [index], "files": [text]})

    for start in range(0, len(groups), _WAVE):
        end = min(start + _WAVE, len(groups))
        tasks = spark.range(start, end, 1, numPartitions=end - start)
        for row in tasks.mapInArrow(work, "id long, files string").collect():
            yield row["id"], [DataFile.from_json(text) for text in json.loads(row["files"])]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
