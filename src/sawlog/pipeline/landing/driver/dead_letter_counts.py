"""What a table records about its dead letters: the id of their table, counts, first offsets.

Dead letters are in a table of their own, which may be deleted separately. So the table stores the
id of that table as a property and, in the version that lands a batch, the number of dead letters
and their first offset per partition. If counts exist but the id differs, dead letters are lost and
the operator must decide.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.landed_offsets import application_id, notes_of
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_storage import TableStorage
from sawlog.pipeline.formats.landed_rows import RECORD
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable
from sawlog.pipeline.landing.driver.landed_tables import LandingTable
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.landing.topic_check import RESUME

DEAD_TABLE = "sawlog.deadLetters"  # the table property with the id of the dead letter table
_COUNT = "(dead letters)"
_FIRST = "(first dead letter)"
_PLACES = pa.schema([RECORD.field(name) for name in ("topic", "partition", "offset")])


class DeadLetterCount(NamedTuple):
    """The dead letters of one partition."""

    rows: int
    first: int  # first offset


def count_dead_letters(
    storage: TableStorage, paths: Iterable[str]
) -> dict[TopicPartition, DeadLetterCount]:
    """Count the rows in these files of a dead letter table."""
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
    """The counts that a table has recorded as versions of `txn` actions."""
    return {tp: counts for tp, counts in _recorded(group, versions).items() if counts.rows}


def counts_after_batch(
    group: str, versions: Mapping[str, int], more: Mapping[TopicPartition, DeadLetterCount]
) -> dict[str, int]:
    """The `txn` versions that record the dead letters of one more batch."""
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
    """The `txn` versions that record `left` as all remaining dead letters."""
    none = dict.fromkeys(_recorded(group, versions), DeadLetterCount(0, 0))
    return _as_transactions(group, {**none, **left})


def counts_after_retry(
    group: str,
    versions: Mapping[str, int],
    moved: Mapping[TopicPartition, np.ndarray],
    before: Mapping[TopicPartition, np.ndarray],
    landed: Mapping[TopicPartition, int],
) -> dict[str, int]:
    """The `txn` versions that record the dead letters without the moved ones.

    `before` are the offsets of the dead letters before the retry, when the table was at `landed`:
    dead letters that landed meanwhile are not below.
    """
    known = recorded_counts(group, versions)
    counts: dict[TopicPartition, DeadLetterCount] = {}
    for tp, offsets in moved.items():
        rows = known[tp].rows - len(offsets) if tp in known else 0
        left = np.setdiff1d(before[tp], offsets)
        first = int(left[0]) if len(left) else landed.get(tp, 0)
        counts[tp] = DeadLetterCount(rows, first) if rows > 0 else DeadLetterCount(0, 0)
    return _as_transactions(group, counts)


def lost_dead_letters(
    config: LandedTable, table: LandingTable
) -> dict[TopicPartition, DeadLetterCount]:
    """The recorded dead letters whose table is missing or was replaced."""
    found = Table.open(config.dead_path).id if Table.exists(config.dead_path) else None
    is_other = found != table.properties.get(DEAD_TABLE)
    return recorded_counts(config.group, table.txn_versions) if is_other else {}


def check_dead_letters(config: LandedTable, table: LandingTable) -> None:
    """Raise LandingFailure if dead letters are lost."""
    lost = lost_dead_letters(config, table)
    if lost:
        raise _loss_failure(config, lost)


def describe_lost(lost: Mapping[TopicPartition, DeadLetterCount]) -> str:
    total = sum(counts.rows for counts in lost.values())
    parts = [f"{count} of {tp} from offset {first} on" for tp, (count, first) in lost.items()]
    return f"{total} dead letter{'' if total == 1 else 's'} ({', '.join(parts)})"


def set_dead_letter_table(
    config: LandedTable, table: LandingTable, dead: Table, *, lose: bool = False
) -> None:
    """Record `dead` as the dead letter table.

    Raises LandingFailure if recorded dead letters would be lost; with `lose` their counts are reset
    instead, in the same version.
    """
    group = config.group

    def plan() -> tuple[dict[str, str], dict[str, int]] | None:
        if table.properties.get(DEAD_TABLE) == dead.id:
            return None
        lost = recorded_counts(group, table.txn_versions)
        if lost and not lose:
            raise _loss_failure(config, lost)
        return {DEAD_TABLE: dead.id}, counts_after_replay(group, table.txn_versions, {})

    table.set_properties(plan)


def _loss_failure(
    config: LandedTable, lost: Mapping[TopicPartition, DeadLetterCount]
) -> LandingFailure:
    firsts = listed_offsets(config, {tp: counts.first for tp, counts in lost.items()})
    replay = f"sawlog pipeline replay {config.name} --from {firsts}"
    if config.catalog is not None:
        replay += " --into NEW"
    return LandingFailure(
        FailureKind.DATA_LOSS,
        f"{config.dead_path} was deleted or replaced, and with it {describe_lost(lost)}; restore"
        f" it, or land them again as far as the topic has them ({replay} -f FILE), or go"
        f" on without them ({RESUME})",
    )


def listed_offsets(
    config: LandedTable, offsets: Mapping[TopicPartition, int], separator: str = ","
) -> str:
    """Offsets as `sawlog pipeline replay --from` takes them: `0:17,1:20`, or `orders/0:17`."""
    is_one = config.selection.is_one
    return separator.join(
        f"{'' if is_one else f'{tp.topic}/'}{tp.partition}:{offset}"
        for tp, offset in sorted(offsets.items())
    )


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
    group: str, counts: Mapping[TopicPartition, DeadLetterCount]
) -> dict[str, int]:
    return {
        application_id(group, partition_of(kind + tp.topic, tp.partition)): value
        for tp, (count, first) in sorted(counts.items())
        for kind, value in ((_COUNT, count), (_FIRST, first))
    }
