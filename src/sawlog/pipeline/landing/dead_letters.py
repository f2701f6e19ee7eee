"""The dead letters of a table: a table beside it, with its own account of how far it is.

It is committed before the table, and only where a batch has bad rows: so it may know less offsets
than the table (no bad rows since), or more (a driver died between the two commits, or another one
is ahead). Rows that it has already are dropped from a batch before it takes the rest.
"""

import time
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sawlog.core.ids import TopicPartition
from sawlog.pipeline.landing.failures import Kind, LandingFailure
from sawlog.pipeline.landing.replay_marks import replays_of
from sawlog.pipeline.tables.errors import TableExists
from sawlog.pipeline.tables.files import DataFile, on_disk
from sawlog.pipeline.tables.log import Action, State
from sawlog.pipeline.tables.offsets import Move, application_id, offsets_of
from sawlog.pipeline.tables.table import Table, add_actions, transaction
from sawlog.pipeline.tables.writing import FileWriter

_ATTEMPTS = 20
_ROWS_AT_ONCE = 1_000


class _Moved(Exception):
    """Somebody else committed between the look and the commit: look again."""


def open_dead(path: str, schema: pa.Schema) -> Table:
    """The table of dead letters, created where there is none."""
    if not Table.exists(path):
        try:
            return Table.create(path, schema)
        except TableExists:
            pass
    return Table.open(path)


def commit_dead(
    dead: Table,
    group: str,
    files: Sequence[DataFile],
    moves: Mapping[TopicPartition, Move],
    *,
    replays: int,
) -> None:
    """Adds what the table of dead letters has not yet. `replays` is what the driver began with: a
    replay since then has set both tables back, and the batch is no longer what is to land.
    """
    for _ in range(_ATTEMPTS):
        dead.refresh()
        stored = offsets_of(group, dead.state.transactions)
        left = _without(dead, files, stored, moves)
        try:
            _commit(dead, group, left, stored, moves, replays)
        except _Moved:
            continue
        return
    raise LandingFailure(
        Kind.OVERTAKEN, f"others wrote to {dead.path} {_ATTEMPTS} times before this driver could"
    )


def _commit(
    dead: Table,
    group: str,
    files: Sequence[DataFile],
    stored: Mapping[TopicPartition, int],
    moves: Mapping[TopicPartition, Move],
    replays: int,
) -> None:
    def plan(state: State) -> list[Action] | None:
        if replays_of(group, state.transactions) != replays:
            raise LandingFailure(Kind.OVERTAKEN, "a replay set the dead letters back")
        if offsets_of(group, state.transactions) != stored:
            raise _Moved
        now = time.time_ns() // 1_000_000
        ahead = {
            partition: move.end
            for partition, move in sorted(moves.items())
            if move.end > stored.get(partition, 0)
        }
        if not ahead:
            return None
        return [
            *(
                transaction(application_id(group, partition), end, now)
                for partition, end in ahead.items()
            ),
            *add_actions(state, files, None, now),
        ]

    dead.change("WRITE", plan)


def _without(
    dead: Table,
    files: Sequence[DataFile],
    stored: Mapping[TopicPartition, int],
    moves: Mapping[TopicPartition, Move],
) -> list[DataFile]:
    """The files as they are where none of their rows is known; else new ones of the other rows."""
    known = {
        partition: stored[partition]
        for partition, move in moves.items()
        if stored.get(partition, 0) > move.start
    }
    if not known:
        return list(files)
    with FileWriter(dead.storage) as writer:
        for file in files:
            for batch in _batches(dead, file):
                writer.write(batch.filter(_is_new(batch, known)))
        return writer.close()


def _batches(dead: Table, file: DataFile) -> Iterator[pa.RecordBatch]:
    with dead.storage.open_input(on_disk(file.path)) as source:
        yield from pq.ParquetFile(source).iter_batches(batch_size=_ROWS_AT_ONCE)


def _is_new(batch: pa.RecordBatch, known: Mapping[TopicPartition, int]) -> pa.Array:
    new = pa.array([True]).take(pa.nulls(batch.num_rows, pa.int64()).fill_null(0))
    for partition, offset in known.items():
        here = pc.and_(
            pc.equal(batch.column("topic"), partition.topic),
            pc.equal(batch.column("partition"), partition.partition),
        )
        new = pc.and_not(new, pc.and_(here, pc.less(batch.column("offset"), offset)))
    return new
