"""What a table has skipped after losses that the operator accepted, as the table records it.

The newest entries are a table property, which outlives the log entry of the version that skipped
them. A second record is for replays: rows of records that the topic no longer has (it was created
again, or its broker lost its end) have offsets that newer records have too. A replay from an offset
below the stored one would delete them, and could not land them again.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.landed_offsets import application_id, notes_of

SKIPPED = "sawlog.skipped"  # the table property
_KEPT = 100  # entries, and all those of the newest resume
_FORMER = "(former)"


class SkippedRecords(NamedTuple):
    """Records of one partition that never landed, or dead letters that were deleted."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int | None  # inclusive; None: unknown, to the end of a topic that was deleted
    landed: int  # the next offset that the table had before
    reason: str
    at_ms: int
    resume: int  # the replay count of the version that skipped them

    @property
    def topic_partition(self) -> TopicPartition:
        return partition_of(self.topic, self.partition)

    def describe(self) -> str:
        if self.last_offset is None:
            offsets = f"from offset {self.first_offset} on"
        elif self.first_offset == self.last_offset:
            offsets = f"offset {self.first_offset}"
        else:
            offsets = f"offsets {self.first_offset} to {self.last_offset}"
        return f"{self.topic_partition} {offsets}: {self.reason}"


def skipped_records(properties: Mapping[str, str]) -> list[SkippedRecords]:
    """The recorded entries, oldest first."""
    stored = properties.get(SKIPPED)
    return [SkippedRecords(**entry) for entry in json.loads(stored)] if stored else []


def skipped_property(properties: Mapping[str, str], more: Iterable[SkippedRecords]) -> str:
    """The value of the property with more entries."""
    new = list(more)
    kept = [*skipped_records(properties), *new][-max(_KEPT, len(new)) :]
    return json.dumps(as_json(kept))


def as_json(entries: Iterable[SkippedRecords]) -> list[dict[str, Any]]:
    return [entry._asdict() for entry in entries]


def former_offsets(group: str, versions: Mapping[str, int]) -> dict[TopicPartition, int]:
    """By partition, the offset below which the table has rows that the topic no longer has."""
    return {
        partition_of(tp.topic.removeprefix(_FORMER), tp.partition): offset
        for tp, offset in notes_of(group, versions).items()
        if tp.topic.startswith(_FORMER)
    }


def former_transactions(group: str, offsets: Mapping[TopicPartition, int]) -> dict[str, int]:
    """The `txn` versions that record these offsets."""
    return {
        application_id(group, partition_of(_FORMER + tp.topic, tp.partition)): offset
        for tp, offset in sorted(offsets.items())
    }
