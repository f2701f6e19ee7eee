"""How far a table is, and whether a batch may be added to it: pure.

The log of a Delta table keeps a version for each application id. Ours are
`<pipeline>/<topic>/<partition>`, and the version is the next offset to land.

An example with numbers. The table has orders-0 up to 500 and orders-1 up to 80. A batch that moves
orders-0 from 500 to 700 and orders-1 from 80 to 95 may be committed. Committed once, it is done:
both are at or beyond their ends. A batch that moves orders-0 from 400 to 700 would double 100 rows,
one from 600 would lose 100: somebody else works on the table, and the batch is overtaken.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.pipeline.delta.errors import OffsetConflict

NOTE = "("
"""The name of a note begins so; the name of a topic cannot."""


class OffsetSpan(NamedTuple):
    """What a batch holds of one partition: all records with `start` <= offset < `end`."""

    start: int
    end: int


class OffsetCheck(Enum):
    NEXT = "the batch begins where the table ends"
    COMMITTED = "the table has all of it"


def application_id(pipeline: str, partition: TopicPartition) -> str:
    return f"{pipeline}/{partition.topic}/{partition.partition}"


def offsets_of(pipeline: str, versions: Mapping[str, int]) -> dict[TopicPartition, int]:
    """The next offsets among a table's versions; notes and other applications are left out."""
    found = _versions_of(pipeline, versions)
    return {tp: version for tp, version in found.items() if not tp.topic.startswith(NOTE)}


def notes_of(pipeline: str, versions: Mapping[str, int]) -> dict[TopicPartition, int]:
    """What a landing notes besides offsets, under names that no topic has."""
    found = _versions_of(pipeline, versions)
    return {tp: version for tp, version in found.items() if tp.topic.startswith(NOTE)}


def _versions_of(pipeline: str, versions: Mapping[str, int]) -> dict[TopicPartition, int]:
    """A topic has no slash in its name, but a pipeline may."""
    found: dict[TopicPartition, int] = {}
    for application, version in versions.items():
        owner, _, rest = application.rpartition("/")
        owner, _, topic = owner.rpartition("/")
        if owner == pipeline and topic and rest.isascii() and rest.isdigit():
            found[TopicPartition(TopicName(topic), PartitionIndex(int(rest)))] = version
    return dict(sorted(found.items()))


def check_offsets(
    stored: Mapping[TopicPartition, int], spans: Mapping[TopicPartition, OffsetSpan]
) -> OffsetCheck:
    """Compare a batch with the next offsets that the table stores; unknown partitions are at 0.

    Raises OffsetConflict for the first partition that is neither at the start of its span nor at or
    beyond the end.
    """
    verdicts: dict[OffsetCheck, TopicPartition] = {}
    for partition, (start, end) in sorted(spans.items()):
        if not 0 <= start <= end:
            raise ValueError(f"{partition} cannot move from {start} to {end}")
        if start == end:
            continue
        at = stored.get(partition, 0)
        if at == start:
            verdicts.setdefault(OffsetCheck.NEXT, partition)
        elif at >= end:
            verdicts.setdefault(OffsetCheck.COMMITTED, partition)
        else:
            raise OffsetConflict(partition, at, start, end)
    if len(verdicts) == 2:
        partition = verdicts[OffsetCheck.COMMITTED]
        raise OffsetConflict(partition, stored[partition], *spans[partition])
    return next(iter(verdicts), OffsetCheck.COMMITTED)
