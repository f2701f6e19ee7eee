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
from sawlog.pipeline.delta.delta_log import Action, Snapshot
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.landed_offsets import application_id, notes_of, offsets_of
from sawlog.pipeline.delta.table import Table, transaction_action
from sawlog.pipeline.delta.table_storage import Storage
from sawlog.pipeline.formats.landed_rows import RECORD
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure

DEAD_TABLE = "sawlog.deadLetters"  # the property with the id of their table
_COUNT = "(dead letters)"
_FIRST = "(first dead letter)"
_PLACES = pa.schema([RECORD.field(name) for name in ("topic", "partition", "offset")])


class DeadLetterCount(NamedTuple):
    """The dead letters of one partition."""

    rows: int
    first: int  # offset


def count_dead_letters(
    storage: Storage, paths: Iterable[str]
) -> dict[TopicPartition, DeadLetterCount]:
    """What these files of a table of dead letters hold."""
    found: dict[TopicPartition, DeadLetterCount] = {}
    for path in paths:
        rows = pa.Table.from_batches(scan_file(storage, path, _PLACES, {}), _PLACES)
        groups = rows.group_by(["topic", "partition"]).aggregate(
            [("offset", "count"), ("offset", "min")]
        )
        for group in groups.to_pylist():
            partition = partition_of(group["topic"], group["partition"])
            count, first = found.get(partition, DeadLetterCount(0, group["offset_min"]))
            found[partition] = DeadLetterCount(
                count + group["offset_count"], min(first, group["offset_min"])
            )
    return found


def recorded_counts(
    group: str, versions: Mapping[str, int]
) -> dict[TopicPartition, DeadLetterCount]:
    """What a table, by the versions of its applications, has put aside."""
    return {tp: letters for tp, letters in _recorded(group, versions).items() if letters.rows}


def counts_after_batch(
    group: str, versions: Mapping[str, int], more: Mapping[TopicPartition, DeadLetterCount]
) -> dict[str, int]:
    """What a table notes when a batch with these dead letters lands."""
    known = recorded_counts(group, versions)
    return _as_transactions(
        group,
        {
            tp: DeadLetterCount(count + known[tp].rows, min(first, known[tp].first))
            if tp in known
            else DeadLetterCount(count, first)
            for tp, (count, first) in more.items()
        },
    )


def counts_after_replay(
    group: str, versions: Mapping[str, int], left: Mapping[TopicPartition, DeadLetterCount]
) -> dict[str, int]:
    """What a table notes when these are all that there are, after a replay."""
    none = dict.fromkeys(_recorded(group, versions), DeadLetterCount(0, 0))
    return _as_transactions(group, {**none, **left})


def lost_dead_letters(config: LandedTable, table: Table) -> dict[TopicPartition, DeadLetterCount]:
    """Those that the table has put aside and that are not where they should be."""
    found = Table.open(config.dead_path).id if Table.exists(config.dead_path) else None
    is_other = found != _dead_letter_table_id(table.snapshot)
    return recorded_counts(config.group, table.snapshot.transactions) if is_other else {}


def check_dead_letters(config: LandedTable, table: Table) -> None:
    """LandingFailure where dead letters are lost."""
    lost = lost_dead_letters(config, table)
    if lost:
        raise _lost(config, table.offsets(config.group), lost)


def describe(lost: Mapping[TopicPartition, DeadLetterCount]) -> str:
    total = sum(letters.rows for letters in lost.values())
    parts = [f"{count} of {tp} from offset {first} on" for tp, (count, first) in lost.items()]
    return f"{total} dead letter{'' if total == 1 else 's'} ({', '.join(parts)})"


def set_dead_letter_table(
    config: LandedTable, table: Table, dead: Table, *, lose: bool = False
) -> None:
    """Notes which table has the dead letters from now on. LandingFailure where some would be lost
    by it, unless `lose`: then they are forgotten in the same version.
    """
    group = config.group

    def plan(snapshot: Snapshot) -> list[Action] | None:
        if _dead_letter_table_id(snapshot) == dead.id:
            return None
        lost = recorded_counts(group, snapshot.transactions)
        if lost and not lose:
            raise _lost(config, offsets_of(group, snapshot.transactions), lost)
        now = time.time_ns() // 1_000_000
        configuration = {**(snapshot.metadata.get("configuration") or {}), DEAD_TABLE: dead.id}
        return [
            {"metaData": {**snapshot.metadata, "configuration": configuration}},
            *(
                transaction_action(name, version, now)
                for name, version in counts_after_replay(group, snapshot.transactions, {}).items()
            ),
        ]

    table.transact("SET TBLPROPERTIES", plan)


def _lost(
    config: LandedTable,
    landed: Mapping[TopicPartition, int],
    lost: Mapping[TopicPartition, DeadLetterCount],
) -> LandingFailure:
    replay = f"sawlog pipeline replay {config.name} --from"
    firsts = ",".join(f"{tp.partition}:{letters.first}" for tp, letters in lost.items())
    ends = ",".join(f"{tp.partition}:{landed.get(tp, 0)}" for tp in lost)
    return LandingFailure(
        FailureKind.DATA_LOSS,
        f"{config.dead_path} was deleted or replaced, and with it {describe(lost)}; put it back, or"
        f" land them again as far as the topic has them ({replay} {firsts} -f FILE), or go on"
        f" without them ({replay} {ends} -f FILE)",
    )


def _dead_letter_table_id(snapshot: Snapshot) -> str | None:
    found: str | None = (snapshot.metadata.get("configuration") or {}).get(DEAD_TABLE)
    return found


def _recorded(group: str, versions: Mapping[str, int]) -> dict[TopicPartition, DeadLetterCount]:
    stored = notes_of(group, versions)
    return {
        partition_of(tp.topic.removeprefix(_COUNT), tp.partition): DeadLetterCount(
            count,
            stored.get(partition_of(_FIRST + tp.topic.removeprefix(_COUNT), tp.partition), 0),
        )
        for tp, count in stored.items()
        if tp.topic.startswith(_COUNT)
    }


def _as_transactions(
    group: str, letters: Mapping[TopicPartition, DeadLetterCount]
) -> dict[str, int]:
    return {
        application_id(group, partition_of(kind + tp.topic, tp.partition)): value
        for tp, (count, first) in sorted(letters.items())
        for kind, value in ((_COUNT, count), (_FIRST, first))
    }
