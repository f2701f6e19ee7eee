"""What a reset of offsets will do, partition by partition, and such plans as CSV files.

The files are those of Kafka's kafka-consumer-groups: topic,partition,offset, with the group in
front where they are about several.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sawlog.client.leaders import partition_of
from sawlog.core.ids import TopicPartition

_PARTITIONS = range(2**31)
_OFFSETS = range(2**63)


class Bounds(NamedTuple):
    """The first offset of a partition and its end."""

    first: int
    end: int


class Move(NamedTuple):
    """`note` says where another offset is taken than was asked for."""

    partition: TopicPartition
    old: int | None
    new: int
    end: int
    note: str = ""


class BadPlan(ValueError):
    """A file that is no plan; says where and why."""


def bounded(partition: TopicPartition, old: int | None, wanted: int, bounds: Bounds) -> Move:
    """To the offset wanted, or as near as the log allows."""
    if wanted > bounds.end:
        note = f"{wanted} lies beyond the end; {bounds.end} is taken"
        return Move(partition, old, bounds.end, bounds.end, note)
    if wanted < bounds.first:
        note = f"{wanted} lies before the first offset; {bounds.first} is taken"
        return Move(partition, old, bounds.first, bounds.end, note)
    return Move(partition, old, wanted, bounds.end)


def read_plan(text: str, group: str) -> dict[TopicPartition, int]:
    """The offsets that a file has for the group; BadPlan where it is none."""
    found: dict[TopicPartition, int] = {}
    for number, row in enumerate(_rows(text), 1):
        if not row:
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
