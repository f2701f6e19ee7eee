"""The dead letters of a table: a table beside it, with its own account of how far it is.

It is committed before the table, and only where a batch has bad rows. So it may know less offsets
than the table: there were no bad rows since. Where it knows more than the table, a driver died
between the two commits, or another one is about to make the second: what it has from the start of
the batch on is only a proposal, and this batch's rows take its place. A row may be bad in one batch
and good in the next attempt, which was cut otherwise and found other columns.
"""

import json
import time
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sawlog.core.ids import TopicPartition
from sawlog.pipeline.landing.config import LandedTable
from sawlog.pipeline.landing.failures import Kind, LandingFailure
from sawlog.pipeline.landing.replay_marks import as_often_as, replays_of
from sawlog.pipeline.tables.errors import TableExists
from sawlog.pipeline.tables.files import DataFile, discard, removed
from sawlog.pipeline.tables.log import Action, LiveFile, State
from sawlog.pipeline.tables.offsets import Move, application_id, offsets_of
from sawlog.pipeline.tables.scanning import scan_file
from sawlog.pipeline.tables.table import Table, add_actions, transaction
from sawlog.pipeline.tables.writing import FileWriter

_ATTEMPTS = 20


class _Moved(Exception):
    """Somebody else committed between the look and the commit: look again."""


def open_dead(config: LandedTable, schema: pa.Schema) -> Table:
    """The table of dead letters, created where there is none."""
    path, group = config.dead_path, config.group
    if not Table.exists(path):
        try:
            marks = as_often_as(config.path, group)
            return Table.create(path, schema, starts=marks, pipeline=group)
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
    """Makes these files all that it has of the batch's offsets. `replays` is what the driver began
    with: a replay since then has set both tables back, and the batch is not what is to land.
    """
    for _ in range(_ATTEMPTS):
        dead.refresh()
        stored = offsets_of(group, dead.state.transactions)
        proposed = {tp: move for tp, move in moves.items() if stored.get(tp, 0) > move.start}
        if not files and not proposed:
            return
        replaced, kept = _without(dead, proposed)
        try:
            _commit(dead, group, [*kept, *files], replaced, (stored, moves, replays))
        except _Moved:
            discard(dead.storage, kept)
            continue
        return
    raise LandingFailure(
        Kind.OVERTAKEN, f"others wrote to {dead.path} {_ATTEMPTS} times before this driver could"
    )


def _commit(
    dead: Table,
    group: str,
    files: Sequence[DataFile],
    replaced: Sequence[LiveFile],
    seen: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, Move], int],
) -> None:
    stored, moves, replays = seen

    def plan(state: State) -> list[Action]:
        if replays_of(group, state.transactions) != replays:
            raise LandingFailure(Kind.OVERTAKEN, "a replay set the dead letters back")
        if offsets_of(group, state.transactions) != stored:
            raise _Moved
        if any(file.path not in state.files for file in replaced):
            raise _Moved
        now = time.time_ns() // 1_000_000
        return [
            *(
                transaction(application_id(group, tp), max(move.end, stored.get(tp, 0)), now)
                for tp, move in sorted(moves.items())
            ),
            *(removed(file, now) for file in replaced),
            *add_actions(state, files, None, now),
        ]

    dead.change("WRITE", plan)


def _without(
    dead: Table, proposed: Mapping[TopicPartition, Move]
) -> tuple[list[LiveFile], list[DataFile]]:
    """The files that have rows of these offsets, and new ones that have their other rows."""
    replaced: list[LiveFile] = []
    if not proposed:
        return replaced, []
    with FileWriter(dead.storage) as writer:
        for file in dead.files():
            if not _may_hold(file, proposed):
                continue
            for batch in scan_file(dead.storage, file.path, dead.schema, file.partition_values):
                if pc.any(_is_of(batch, proposed)).as_py():
                    replaced.append(file)
                    break
        for file in replaced:
            for batch in scan_file(dead.storage, file.path, dead.schema, file.partition_values):
                writer.write(batch.filter(pc.invert(_is_of(batch, proposed))))
        return replaced, writer.close()


def _may_hold(file: LiveFile, proposed: Mapping[TopicPartition, Move]) -> bool:
    """By its statistics: what is proposed is new, and most files are old."""
    highest = json.loads(file.stats or "{}").get("maxValues", {}).get("offset")
    return highest is None or any(highest >= move.start for move in proposed.values())


def _is_of(batch: pa.RecordBatch, proposed: Mapping[TopicPartition, Move]) -> pa.Array:
    found = pa.repeat(pa.scalar(False), batch.num_rows)
    offsets = batch.column("offset")
    for (topic, index), move in proposed.items():
        here = pc.and_(
            pc.equal(batch.column("topic"), topic), pc.equal(batch.column("partition"), index)
        )
        within = pc.and_(pc.greater_equal(offsets, move.start), pc.less(offsets, move.end))
        found = pc.or_(found, pc.and_(here, within))
    return pc.fill_null(found, False)
