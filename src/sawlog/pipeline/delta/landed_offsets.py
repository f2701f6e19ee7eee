"""The offsets that a table stores, and whether a batch may be appended. Pure.

Delta's `txn` action stores a version number for an application id. The ids of a landing are
`<group>/<topic>/<partition>` with its consumer group, and the version is the next offset to land.

An example with numbers. The table has orders-0 up to 500 and orders-1 up to 80. A batch with
orders-0 from 500 to 700 and orders-1 from 80 to 95 is the next one. Once committed, both partitions
are at or beyond its ends, so it is recognised as committed. A batch with orders-0 from 400 would
duplicate 100 rows and one from 600 would lose 100: another writer moved the table, and the batch is
an offset conflict.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.pipeline.delta.errors import OffsetConflict

NON_OFFSET_PREFIX = "("
"""Prefix of application ids that hold no offset; a topic name cannot start with it."""


class OffsetSpan(NamedTuple):
    """The records of one partition in a batch: `start` <= offset < `end`."""

    start: int
    end: int


class OffsetCheck(Enum):
    NEXT = "the batch begins where the table ends"
    COMMITTED = "the table has all of it"


def application_id(group: str, partition: TopicPartition) -> str:
    return f"{group}/{partition.topic}/{partition.partition}"


def offsets_of(group: str, txn_versions: Mapping[str, int]) -> dict[TopicPartition, int]:
    """The next offsets of a group among the versions of a table's `txn` actions."""
    found = _versions_of(group, txn_versions)
    return {
        tp: version for tp, version in found.items() if not tp.topic.startswith(NON_OFFSET_PREFIX)
    }


def notes_of(group: str, txn_versions: Mapping[str, int]) -> dict[TopicPartition, int]:
    """The other numbers that a landing stores as versions of `txn` actions."""
    found = _versions_of(group, txn_versions)
    return {tp: version for tp, version in found.items() if tp.topic.startswith(NON_OFFSET_PREFIX)}


def _versions_of(group: str, txn_versions: Mapping[str, int]) -> dict[TopicPartition, int]:
    """Split application ids from the right: a group name may contain slashes, a topic not."""
    found: dict[TopicPartition, int] = {}
    for application, version in txn_versions.items():
        owner, _, rest = application.rpartition("/")
        owner, _, topic = owner.rpartition("/")
        if owner == group and topic and rest.isascii() and rest.isdigit():
            found[TopicPartition(TopicName(topic), PartitionIndex(int(rest)))] = version
    return dict(sorted(found.items()))


def check_offsets(
    stored: Mapping[TopicPartition, int], spans: Mapping[TopicPartition, OffsetSpan]
) -> OffsetCheck:
    """Compare a batch with the next offsets that the table stores; unknown partitions are at 0.

    Raises OffsetConflict for the first partition that is neither at the start of its span nor at or
    beyond the end.
    """
    found: dict[OffsetCheck, TopicPartition] = {}
    for partition, (start, end) in sorted(spans.items()):
        if not 0 <= start <= end:
            raise ValueError(f"{partition} cannot move from {start} to {end}")
        if start == end:
            continue
        at = stored.get(partition, 0)
        if at == start:
            found.setdefault(OffsetCheck.NEXT, partition)
        elif at >= end:
            found.setdefault(OffsetCheck.COMMITTED, partition)
        else:
            raise OffsetConflict(partition, at, start, end)
    if len(found) == 2:
        partition = found[OffsetCheck.COMMITTED]
        raise OffsetConflict(partition, stored[partition], *spans[partition])
    return next(iter(found), OffsetCheck.COMMITTED)
