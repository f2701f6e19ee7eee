"""Keyed tables in tests: changes as tasks write them, merges in this process, a dictionary."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from sawlog.pipeline.delta.landed_offsets import OffsetCheck, OffsetSpan, check_offsets
from sawlog.pipeline.delta.merge import Changes, MergeTask, merge_changes
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.table import AlreadyCommitted, CommittedVersion, Table
from support.pipeline.landing import rows_of
from support.pipeline.tables import PIPELINE, TOPIC, at

KEYS = ("id", "kind")
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("id", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("value", pa.string()),
    ]
)
Key = tuple[int | None, str]


class Change(NamedTuple):
    """A record: the new value of a key, or None to delete it."""

    partition: int
    offset: int
    key: Key
    value: str | None


def run_here(work: Callable[[MergeTask], str], tasks: Sequence[MergeTask]) -> list[str]:
    return [work(task) for task in tasks]


def written_changes(table: Table, changes: Sequence[Change], tasks: int) -> Changes:
    """Write the files of a batch as this many tasks would."""
    rows, deletes = [], []
    for number in range(tasks):
        share = changes[number::tasks]
        with FileWriter(table.storage, table.partition_by) as writer:
            writer.write(_batch([change for change in share if change.value is not None]))
            rows += writer.close()
        with FileWriter(table.storage) as writer:
            gone = _batch([change for change in share if change.value is None])
            writer.write(gone.select(["topic", "partition", "offset", *KEYS]))
            deletes += writer.close()
    return Changes(rows, deletes)


def _batch(changes: Sequence[Change]) -> pa.RecordBatch:
    rows = [
        {"topic": TOPIC, "partition": change.partition, "offset": change.offset,
         "id": change.key[0], "kind": change.key[1], "value": change.value}
        for change in changes
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def commit_changes(
    table: Table, changes: Sequence[Change], spans: Mapping[int, OffsetSpan], tasks: int = 1
) -> CommittedVersion | AlreadyCommitted:
    """Merge and commit a batch. Raises OffsetConflict, KeyConflict or FileConflict."""
    table.refresh()
    batch = {at(partition): span for partition, span in spans.items()}
    if check_offsets(table.offsets(PIPELINE), batch) is OffsetCheck.COMMITTED:
        return AlreadyCommitted(table.version)
    files = written_changes(table, changes, tasks)
    merged = merge_changes(table, table.schema, files, KEYS, run_here, 2)
    return table.commit(PIPELINE, merged.added, batch, replaced=merged.replaced)


def random_change(partition: int, offset: int) -> Change:
    """The change at a place of a topic; every fourth is a delete."""
    number = random.Random(partition * 1_000_003 + offset).randrange(1_000)
    key = (partition, f"k{number % 23}")
    return Change(partition, offset, key, None if number % 4 == 0 else f"v{offset}")


def rows_by_key(table: Table) -> dict[Key, tuple[int, int, str]]:
    """The newest rows; in a partition column the empty string is null."""
    rows = rows_of(table.path)
    found = {
        (row["id"], row["kind"] or ""): (row["partition"], row["offset"], row["value"] or "")
        for row in rows
    }
    assert len(found) == len(rows), "a key has two rows"
    return found


def replayed(changes: Sequence[Change]) -> dict[Key, tuple[int, int, str]]:
    """The rows by key after all changes, in the order of their offsets."""
    found: dict[Key, tuple[int, int, str]] = {}
    for change in sorted(changes, key=lambda change: change.offset):
        if change.value is None:
            found.pop(change.key, None)
        else:
            found[change.key] = (change.partition, change.offset, change.value)
    return found
