"""What a table knows of its dead letters: which table has them, how many, and from where on.

They are in a table of their own, which may be deleted while the other stays. So the table keeps the
id of the one that has them, and in the version that lands a batch the number of its dead letters
and the first offset of each partition. Where another table lies there, or none, and there were dead
letters, they are lost, and the operator must decide.
"""

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.delta_log import Action, State
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.landed_offsets import application_id, notes_of, offsets_of
from sawlog.pipeline.delta.table import Table, transaction
from sawlog.pipeline.delta.table_storage import Storage
from sawlog.pipeline.formats.landed_rows import RECORD
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable
from sawlog.pipeline.landing.failures import Kind, LandingFailure

DEAD_TABLE = "sawlog.deadLetters"  # the property with the id of their table
_COUNT = "(dead letters)"
_FIRST = "(first dead letter)"
_PLACES = pa.schema([RECORD.field(name) for name in ("topic", "partition", "offset")])


class Letters(NamedTuple):
    """The dead letters of one partition."""

    rows: int
    first: int  # offset


def letters_in(storage: Storage, paths: Iterable[str]) -> dict[TopicPartition, Letters]:
    """What these files of a table of dead letters hold."""
    found: dict[TopicPartition, Letters] = {}
    for path in paths:
        rows = pa.Table.from_batches(scan_file(storage, path, _PLACES, {}), _PLACES)
        groups = rows.group_by(["topic", "partition"]).aggregate(
            [("offset", "count"), ("offset", "min")]
        )
        for group in groups.to_pylist():
            partition = partition_of(group["topic"], group["partition"])
            count, first = found.get(partition, Letters(0, group["offset_min"]))
            found[partition] = Letters(
                count + group["offset_count"], min(first, group["offset_min"])
            )
    return found


def known_letters(group: str, versions: Mapping[str, int]) -> dict[TopicPartition, Letters]:
    """What a table, by the versions of its applications, has put aside."""
    return {tp: letters for tp, letters in _noted(group, versions).items() if letters.rows}


def marks_with(
    group: str, versions: Mapping[str, int], more: Mapping[TopicPartition, Letters]
) -> dict[str, int]:
    """What a table notes when a batch with these dead letters lands."""
    known = known_letters(group, versions)
    return _marks(
        group,
        {
            tp: Letters(count + known[tp].rows, min(first, known[tp].first))
            if tp in known
            else Letters(count, first)
            for tp, (count, first) in more.items()
        },
    )


def marks_of(
    group: str, versions: Mapping[str, int], left: Mapping[TopicPartition, Letters]
) -> dict[str, int]:
    """What a table notes when these are all that there are, after a replay."""
    none = dict.fromkeys(_noted(group, versions), Letters(0, 0))
    return _marks(group, {**none, **left})


def lost_letters(config: LandedTable, table: Table) -> dict[TopicPartition, Letters]:
    """Those that the table has put aside and that are not where they should be."""
    found = Table.open(config.dead_path).id if Table.exists(config.dead_path) else None
    is_other = found != _table_of(table.state)
    return known_letters(config.group, table.state.transactions) if is_other else {}


def check_letters(config: LandedTable, table: Table) -> None:
    """LandingFailure where dead letters are lost."""
    lost = lost_letters(config, table)
    if lost:
        raise _lost(config, table.offsets(config.group), lost)


def describe(lost: Mapping[TopicPartition, Letters]) -> str:
    total = sum(letters.rows for letters in lost.values())
    parts = [f"{count} of {tp} from offset {first} on" for tp, (count, first) in lost.items()]
    return f"{total} dead letter{'' if total == 1 else 's'} ({', '.join(parts)})"


def adopt(config: LandedTable, table: Table, dead: Table, *, lose: bool = False) -> None:
    """Notes which table has the dead letters from now on. LandingFailure where some would be lost
    by it, unless `lose`: then they are forgotten in the same version.
    """
    group = config.group

    def plan(state: State) -> list[Action] | None:
        if _table_of(state) == dead.id:
            return None
        lost = known_letters(group, state.transactions)
        if lost and not lose:
            raise _lost(config, offsets_of(group, state.transactions), lost)
        now = time.time_ns() // 1_000_000
        configuration = {**(state.metadata.get("configuration") or {}), DEAD_TABLE: dead.id}
        return [
            {"metaData": {**state.metadata, "configuration": configuration}},
            *(
                transaction(name, version, now)
                for name, version in marks_of(group, state.transactions, {}).items()
            ),
        ]

    table.change("SET TBLPROPERTIES", plan)


def _lost(
    config: LandedTable,
    landed: Mapping[TopicPartition, int],
    lost: Mapping[TopicPartition, Letters],
) -> LandingFailure:
    replay = f"sawlog pipeline replay {config.name} --from"
    firsts = ",".join(f"{tp.partition}:{letters.first}" for tp, letters in lost.items())
    ends = ",".join(f"{tp.partition}:{landed.get(tp, 0)}" for tp in lost)
    return LandingFailure(
        Kind.LOST,
        f"{config.dead_path} was deleted or replaced, and with it {describe(lost)}; put it back, or"
        f" land them again as far as the topic has them ({replay} {firsts} -f FILE), or go on"
        f" without them ({replay} {ends} -f FILE)",
    )


def _table_of(state: State) -> str | None:
    found: str | None = (state.metadata.get("configuration") or {}).get(DEAD_TABLE)
    return found


def _noted(group: str, versions: Mapping[str, int]) -> dict[TopicPartition, Letters]:
    stored = notes_of(group, versions)
    return {
        partition_of(tp.topic.removeprefix(_COUNT), tp.partition): Letters(
            count,
            stored.get(partition_of(_FIRST + tp.topic.removeprefix(_COUNT), tp.partition), 0),
        )
        for tp, count in stored.items()
        if tp.topic.startswith(_COUNT)
    }


def _marks(group: str, letters: Mapping[TopicPartition, Letters]) -> dict[str, int]:
    return {
        application_id(group, partition_of(kind + tp.topic, tp.partition)): value
        for tp, (count, first) in sorted(letters.items())
        for kind, value in ((_COUNT, count), (_FIRST, first))
    }
