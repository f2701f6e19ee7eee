"""A keyed table equals a replay of its topic into a dictionary, at every commit."""

import tempfile
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.pipeline.delta import merge
from sawlog.pipeline.delta.compaction import compact
from sawlog.pipeline.delta.errors import FileConflict, KeyConflict, OffsetConflict
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.table import AlreadyCommitted, CommittedVersion, Table
from support.pipeline.keyed_tables import (
    KEYS,
    SCHEMA,
    Change,
    Key,
    commit_changes,
    replayed,
    rows_by_key,
    run_here,
    written_changes,
)
from support.pipeline.tables import PIPELINE, at, new_table

PARTITIONS = 2
IDS = st.sampled_from([None, 0, 1, 2, 3, -1])
KINDS = st.sampled_from(["", "a", "b"])
CHANGE = st.tuples(IDS, KINDS, st.none() | st.text("xyz", max_size=2))
BATCHES = st.lists(
    st.tuples(st.lists(CHANGE, max_size=8), st.integers(1, 3), st.booleans()), max_size=6
)


def partition_of(key: Key) -> int:
    return (key[0] or 0) % PARTITIONS


def placed(batch: Sequence[tuple[Any, Any, Any]], ends: list[int]) -> list[Change]:
    """Append the changes to the partitions of their keys, which end at `ends`."""
    changes = []
    for number, kind, value in batch:
        partition = partition_of((number, kind))
        changes.append(Change(partition, ends[partition], (number, kind), value))
        ends[partition] += 1
    return changes


@settings(max_examples=60, deadline=None)
@given(batches=BATCHES, partition_by=st.sampled_from([(), ("kind",), ("value",)]))
def test_a_keyed_table_equals_a_dictionary_at_every_commit(
    batches: Sequence[tuple[Any, int, bool]], partition_by: tuple[str, ...]
) -> None:
    with tempfile.TemporaryDirectory() as path:
        table = new_table(path, partition_by, schema=SCHEMA)
        other = Table.open(path)  # a second driver
        ends = [0] * PARTITIONS
        done: list[Change] = []
        for number, (batch, tasks, compacts) in enumerate(batches):
            starts = list(ends)
            changes = placed(batch, ends)
            spans = {p: OffsetSpan(starts[p], ends[p]) for p in range(PARTITIONS)}
            handle = (table, other)[number % 2]
            committed = commit_changes(handle, changes, spans, tasks)
            assert isinstance(committed, CommittedVersion) == bool(changes)
            done += changes
            assert rows_by_key(table) == replayed(done)
            again = (other, table)[number % 2]
            assert isinstance(commit_changes(again, changes, spans), AlreadyCommitted)
            if any(starts):
                late = {p: OffsetSpan(ends[p] + 1, ends[p] + 2) for p in range(PARTITIONS)}
                with pytest.raises(OffsetConflict):
                    commit_changes(handle, [], late)
            if compacts:
                compact(None, path)
            assert rows_by_key(table) == replayed(done)


@settings(max_examples=30, deadline=None)
@given(before=st.lists(CHANGE, max_size=6), one=CHANGE, first=st.booleans())
def test_a_key_in_two_partitions_is_named_with_its_offsets(
    before: list[tuple[Any, Any, Any]], one: tuple[Any, Any, Any], first: bool
) -> None:
    """In one batch, or in a row of the table and a batch (`first`: the row is committed)."""
    with tempfile.TemporaryDirectory() as path:
        table = new_table(path, schema=SCHEMA)
        key = one[:2]
        other_keys = [change for change in before if change[:2] != key]
        ends = [0] * PARTITIONS
        changes = placed([*other_keys, (*key, "here")], ends)
        home = changes[-1]
        away = Change(1 - home.partition, ends[1 - home.partition], key, one[2])
        spans = {p: OffsetSpan(0, ends[p]) for p in range(PARTITIONS)}
        more = {away.partition: OffsetSpan(away.offset, away.offset + 1)}
        if first:
            commit_changes(table, changes, spans)
            batch = [away]
        else:
            batch = [*changes, away]
            more = {**spans, away.partition: OffsetSpan(0, away.offset + 1)}
        with pytest.raises(KeyConflict) as error:
            commit_changes(table, batch, more, tasks=2)
        for change in (home, away):
            assert f"-{change.partition} at offset {change.offset}" in str(error.value)
        assert f"id={key[0]!r}, kind={key[1]!r}" in str(error.value)


def test_a_merge_on_a_version_that_has_passed_is_rejected(tmp_path: Any) -> None:
    path = str(tmp_path / "t")
    table = new_table(path, schema=SCHEMA)
    commit_changes(table, [Change(0, 0, (1, "a"), "old")], {0: OffsetSpan(0, 1)})
    commit_changes(table, [Change(0, 1, (2, "a"), "old")], {0: OffsetSpan(1, 2)})
    change = [Change(0, 2, (1, "a"), "new")]
    merged = merge.merge_changes(
        table, table.schema, written_changes(table, change, 1), KEYS, run_here, 1
    )
    compact(None, path)
    with pytest.raises(FileConflict):
        table.commit(PIPELINE, merged.added, {at(0): OffsetSpan(2, 3)}, replaced=merged.replaced)
    commit_changes(table, change, {0: OffsetSpan(2, 3)})
    assert rows_by_key(table) == {(1, "a"): (0, 2, "new"), (2, "a"): (0, 1, "old")}


def test_a_batch_of_recent_keys_leaves_older_files_alone(tmp_path: Any) -> None:
    table = new_table(str(tmp_path / "t"), schema=SCHEMA)
    for start in (0, 100, 200):
        rows = [Change(0, n, (n, "a"), "old") for n in range(start, start + 100)]
        commit_changes(table, rows, {0: OffsetSpan(start, start + 100)})
    before = set(table.snapshot.files)
    commit_changes(table, [Change(0, 300, (250, "a"), "new")], {0: OffsetSpan(300, 301)})
    assert len(before & set(table.snapshot.files)) == 2
