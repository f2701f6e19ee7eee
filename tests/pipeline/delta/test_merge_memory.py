"""The memory of a merge depends on its batch (`commit: rows`) and not on the table."""

import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.merge import KEYED_TARGET_BYTES, Changes, merge_changes
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.table import Table
from support.pipeline.keyed_tables import KEYS, SCHEMA, run_here
from support.pipeline.tables import PIPELINE, TOPIC, at, new_table, written

VALUE_BYTES = 512
WRITTEN_ROWS = 10_000
ROWS = 360_000
CHANGES = 2_000
LETTERS = np.random.default_rng(1).integers(48, 112, WRITTEN_ROWS * VALUE_BYTES, np.uint8)

Ids = npt.NDArray[np.int64]


class Merged(NamedTuple):
    rows: int  # written by the merge
    peak: int  # bytes of the process above those before the merge


def rows(ids: Ids, first_offset: int) -> pa.RecordBatch:
    """Rows that Parquet cannot compress much: the same text comes again after megabytes."""
    count = len(ids)
    letters = LETTERS[: count * VALUE_BYTES]
    ends = np.arange(count + 1, dtype=np.int32) * VALUE_BYTES
    values = pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(letters))
    offsets = pa.array(np.arange(first_offset, first_offset + count))
    columns = [
        pa.repeat(TOPIC, count),
        pa.repeat(pa.scalar(0, pa.int32()), count),
        offsets,
        pa.array(ids),
        pa.repeat("k", count),
        values,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def table_of(path: Path, count: int) -> Table:
    """A keyed table with this many rows."""
    table = new_table(str(path), schema=SCHEMA)
    with FileWriter(table.storage, target_bytes=KEYED_TARGET_BYTES) as writer:
        for start in range(0, count, WRITTEN_ROWS):
            writer.write(rows(np.arange(start, start + WRITTEN_ROWS), start))
        files = writer.close()
    table.commit(PIPELINE, files, {at(0): OffsetSpan(0, count)})
    return table


def merge_random_changes(path: Path, table_rows: int, changes: int) -> Merged:
    """Change rows all over a new table; the merge has a process of its own."""
    table = table_of(path, table_rows)
    ids = np.random.default_rng(1).choice(table_rows, changes, replace=False)
    files = Changes(written(table, rows(ids, table_rows)), [])
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as child:
        return child.submit(merge_here, str(path), files).result()


def merge_here(path: str, changes: Changes) -> Merged:
    table = Table.open(path)
    before = peak_memory()
    merged = merge_changes(table, SCHEMA, changes, KEYS, run_here, 1)
    assert len(merged.replaced.files) == len(table.files()), "every file loses rows"
    return Merged(sum(file.rows for file in merged.written), peak_memory() - before)


def peak_memory() -> int:
    """The most memory that this process had so far, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1_024


@pytest.mark.long
def test_a_merge_takes_the_memory_of_its_batch_whatever_the_size_of_the_table(
    tmp_path: Path,
) -> None:
    """A table of 180 MB is beyond the buffers of a merge; as much again is added to it."""
    small = merge_random_changes(tmp_path / "small", ROWS, CHANGES)
    large = merge_random_changes(tmp_path / "large", 2 * ROWS, CHANGES)
    assert (small.rows, large.rows) == (ROWS - CHANGES, 2 * ROWS - CHANGES)
    assert large.peak - small.peak < ROWS * VALUE_BYTES / 2
