"""What a reset of offsets will do, partition by partition, and such plans as CSV files.

The files are those of Kafka's kafka-consumer-groups: topic,partition,offset, with the group in
front where they are about several.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from sawlog.cli.partition_options import show_partitions
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition

_PARTITIONS = range(2**31)
_OFFSETS = range(2**63)
_HEADINGS = (["topic", "partition", "offset"], ["topic", "partition", "new-offset"])
_BYTE_ORDER_MARK = "\ufeff"  # what spreadsheets put in front of UTF-8


class Bounds(NamedTuple):
    """The first offset of a partition and its end."""

    first: int
    end: int


class Limit(Enum):
    """Why another offset is taken than was asked for: where it lies, and what is taken."""

    BEYOND = ("beyond the end", "end")
    BEFORE = ("before the first offset", "first offset")
    LATE = ("no record is that late", "end")
    NEVER_COMMITTED = ("no offset is committed", "end")

    def __init__(self, where: str, taken: str) -> None:
        self.where = where
        self.taken = taken


class Move(NamedTuple):
    """`wanted` is the offset asked for, where that is one."""

    partition: TopicPartition
    old: int | None
    new: int
    end: int
    wanted: int | None = None
    limit: Limit | None = None

    @property
    def note(self) -> str:
        """Empty where the offset is the one that was asked for."""
        if self.limit is None:
            return ""
        if self.wanted is None:
            return f"{self.limit.where}; the {self.limit.taken} is taken"
        return f"{self.wanted} lies {self.limit.where}; {self.new} is taken"


class BadPlan(ValueError):
    """A file that is no plan; says where and why."""


def bounded(partition: TopicPartition, old: int | None, wanted: int, bounds: Bounds) -> Move:
    """To the offset wanted, or as near as the log allows."""
    if wanted > bounds.end:
        return Move(partition, old, bounds.end, bounds.end, wanted, Limit.BEYOND)
    if wanted < bounds.first:
        return Move(partition, old, bounds.first, bounds.end, wanted, Limit.BEFORE)
    return Move(partition, old, wanted, bounds.end, wanted)


def notes(moves: Iterable[Move]) -> Iterator[str]:
    """What there is to say about moves, in one line for all partitions that it is true of."""
    alike: dict[Limit, list[Move]] = defaultdict(list)
    for move in moves:
        if move.limit is not None:
            alike[move.limit].append(move)
    for limit, limited in alike.items():
        where = show_partitions(move.partition for move in limited)
        wanted = {move.wanted for move in limited}
        if len(limited) == 1 or wanted == {None}:
            yield f"{where}: {limited[0].note}"
        elif len(wanted) == 1:
            yield f"{where}: {limited[0].wanted} lies {limit.where}; the {limit.taken} is taken"
        else:
            yield f"{where}: what is wanted lies {limit.where}; the {limit.taken} is taken"


def read_plan(text: str, group: str) -> dict[TopicPartition, int]:
    """The offsets that a file has for the group; BadPlan where it is none."""
    found: dict[TopicPartition, int] = {}
    for number, row in enumerate(_rows(text.removeprefix(_BYTE_ORDER_MARK)), 1):
        if not row or (number == 1 and _is_heading(row)):
            continue
        if len(row) not in (3, 4):
            raise BadPlan(f"line {number}: expected topic,partition,offset, not {','.join(row)!r}")
        *of, topic, index, offset = row
        if of and of[0] != group:
            continue
        partition = partition_of(topic, _number(number, "a partition", index, _PARTITIONS))
        if partition in found:
            raise BadPlan(f"line {number}: {partition} has an offset already")
        found[partition] = _number(number, "an offset", offset, _OFFSETS)
    if not found:
        raise BadPlan(f"it has no offsets for the group {group!r}")
    return found


def _rows(text: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(io.StringIO(text), skipinitialspace=True)
    except csv.Error as error:
        raise BadPlan(f"no CSV: {error}") from None


def _is_heading(row: list[str]) -> bool:
    """No partition has such a number, so that it can be nothing else."""
    return [field.strip().lower() for field in row[-3:]] in _HEADINGS


def write_plan(moves: Iterable[Move]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows((*move.partition, move.new) for move in moves)
    return out.getvalue()


def _number(line: int, what: str, text: str, allowed: range) -> int:
    stripped = text.strip()
    if stripped.isascii() and stripped.isdecimal() and len(stripped) < 20:
        number = int(stripped)
        if number in allowed:
            return number
    raise BadPlan(f"line {line}: {text[:40]!r} is not {what}")
