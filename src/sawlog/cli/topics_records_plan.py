"""The plan of a deletion of records: the new log start offset of each partition."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from sawlog.cli.cluster_options import show_partitions
from sawlog.client.admin.group_offsets import Committed
from sawlog.core.ids import TopicPartition


class PartitionDeletion(NamedTuple):
    """Delete the records of one partition from `start`, the log start offset, up to `before`.

    `start <= before <= end`, the high watermark; `note` says why `before` is not what the user
    asked for.
    """

    partition: TopicPartition
    start: int
    before: int
    end: int
    note: str = ""

    @property
    def deleted(self) -> int:
        """The number of offsets; in a compacted log there may be fewer records."""
        return self.before - self.start

    @property
    def kept(self) -> int:
        return self.end - self.before


class BeyondEnd(ValueError):
    """A requested offset is beyond the end of its partition."""


def plan_deletion(
    partition: TopicPartition, start: int, end: int, requested: int
) -> PartitionDeletion:
    """Delete the records before the requested offset. Raises BeyondEnd.

    An offset before the log start is not an error: its records are gone already.
    """
    if requested > end:
        raise BeyondEnd(
            f"{partition} ends at offset {end}, before the offset {requested}; choose other"
            " partitions with --partition, or use --all"
        )
    if requested < start:
        text = f"the records before {requested} are deleted already"
        return PartitionDeletion(partition, start, start, end, text)
    return PartitionDeletion(partition, start, requested, end)


def plan_deletion_by_time(
    partition: TopicPartition, start: int, end: int, first_later: int
) -> PartitionDeletion:
    """Delete the records before `first_later`, the first one at or after a time; -1: there is none.

    The offset may lie beyond `end` if records were written meanwhile, and before `start` if others
    were deleted.
    """
    if first_later < 0:
        if start == end:
            return PartitionDeletion(partition, start, end, end)
        text = "no record has this timestamp or a later one; all go"
        return PartitionDeletion(partition, start, end, end, text)
    return PartitionDeletion(partition, start, min(max(first_later, start), end), end)


def notes(plan: Iterable[PartitionDeletion]) -> Iterator[str]:
    """Yield the notes of the plan; partitions with the same note share a line."""
    by_note: dict[str, list[TopicPartition]] = defaultdict(list)
    for each in plan:
        if each.note:
            by_note[each.note].append(each.partition)
    for text, partitions in by_note.items():
        yield f"{show_partitions(partitions)}: {text}"


def unread(
    plan: Iterable[PartitionDeletion],
    committed: Mapping[str, Mapping[TopicPartition, Committed]],
) -> dict[str, int]:
    """Return how many of the records to delete each group has not read yet; groups with none are
    left out.
    """
    deletions = list(plan)
    found: dict[str, int] = {}
    for group, offsets in committed.items():
        count = sum(
            max(0, each.before - max(each.start, offsets[each.partition].offset))
            for each in deletions
            if each.partition in offsets
        )
        if count:
            found[group] = count
    return found
