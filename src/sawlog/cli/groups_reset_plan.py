"""The plan of an offset reset: the new offset of each partition; and plans as CSV files.

The format is that of kafka-consumer-groups: topic,partition,offset, or group,topic,partition,offset
for several groups.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from sawlog.cli.cluster_options import show_partitions
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition

_PARTITIONS = range(2**31)
_OFFSETS = range(2**63)
_HEADINGS = (["topic", "partition", "offset"], ["topic", "partition", "new-offset"])
_BYTE_ORDER_MARK = "\ufeff"  # spreadsheets write it at the start of UTF-8 files


class Bounds(NamedTuple):
    """The log start offset and the end offset of a partition."""

    start: int
    end: int


class Limit(Enum):
    """Why a partition gets another offset than requested, and which one it gets."""

    BEYOND_END = ("beyond the end", "end")
    BEFORE_START = ("before the log start offset", "log start offset")
    NO_LATER_RECORD = ("no record has this timestamp or a later one", "end")
    NEVER_COMMITTED = ("no offset is committed", "end")

    def __init__(self, reason: str, replacement: str) -> None:
        self.reason = reason
        self.replacement = replacement


class PartitionReset(NamedTuple):
    """The reset of one partition from `old` to `new`; `requested` is None for resets by time."""

    partition: TopicPartition
    old: int | None
    new: int
    end: int
    requested: int | None = None
    limit: Limit | None = None

    @property
    def note(self) -> str:
        """Return why `new` is not the requested offset; empty if it is."""
        if self.limit is None:
            return ""
        if self.requested is None:
            return f"{self.limit.reason}; using the {self.limit.replacement}"
        return f"{self.requested} is {self.limit.reason}; using {self.new}"


class InvalidPlan(ValueError):
    """A file is not a reset plan; the message has the line and the reason."""


def bounded(
    partition: TopicPartition, old: int | None, requested: int, bounds: Bounds
) -> PartitionReset:
    """Reset to the requested offset, or to the nearest one within the log."""
    if requested > bounds.end:
        return PartitionReset(partition, old, bounds.end, bounds.end, requested, Limit.BEYOND_END)
    if requested < bounds.start:
        return PartitionReset(
            partition, old, bounds.start, bounds.end, requested, Limit.BEFORE_START
        )
    return PartitionReset(partition, old, requested, bounds.end, requested)


def notes(resets: Iterable[PartitionReset]) -> Iterator[str]:
    """Yield the notes of the resets; partitions with the same limit share a line."""
    by_limit: dict[Limit, list[PartitionReset]] = defaultdict(list)
    for reset in resets:
        if reset.limit is not None:
            by_limit[reset.limit].append(reset)
    for limit, limited in by_limit.items():
        partitions = show_partitions(reset.partition for reset in limited)
        requested = {reset.requested for reset in limited}
        if len(limited) == 1 or requested == {None}:
            yield f"{partitions}: {limited[0].note}"
        else:
            subject = limited[0].requested if len(requested) == 1 else "the requested offset"
            yield f"{partitions}: {subject} is {limit.reason}; using the {limit.replacement}"


def read_plan(text: str, group: str) -> dict[TopicPartition, int]:
    """Parse the offsets that a CSV file has for the group. Raises InvalidPlan."""
    found: dict[TopicPartition, int] = {}
    for number, row in enumerate(_rows(text.removeprefix(_BYTE_ORDER_MARK)), 1):
        if not row or (number == 1 and _is_heading(row)):
            continue
        if len(row) not in (3, 4):
            raise InvalidPlan(
                f"line {number}: expected topic,partition,offset, not {','.join(row)!r}"
            )
        *row_group, topic, index, offset = row
        if row_group and row_group[0] != group:
            continue
        partition = partition_of(topic, _number(number, "a partition", index, _PARTITIONS))
        if partition in found:
            raise InvalidPlan(f"line {number}: {partition} appears twice")
        found[partition] = _number(number, "an offset", offset, _OFFSETS)
    if not found:
        raise InvalidPlan(f"no offsets for the group {group!r}")
    return found


def _rows(text: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(io.StringIO(text), skipinitialspace=True)
    except csv.Error as error:
        raise InvalidPlan(f"invalid CSV: {error}") from None


def _is_heading(row: list[str]) -> bool:
    return [field.strip().lower() for field in row[-3:]] in _HEADINGS


def write_plan(resets: Iterable[PartitionReset]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows((*reset.partition, reset.new) for reset in resets)
    return out.getvalue()


def _number(line: int, expected: str, text: str, allowed: range) -> int:
    stripped = text.strip()
    if stripped.isascii() and stripped.isdecimal() and len(stripped) < 20:
        number = int(stripped)
        if number in allowed:
            return number
    raise InvalidPlan(f"line {line}: {text[:40]!r} is not {expected}")
