"""The report of a task to the driver: its ranges, its files, and how much it read.

A report is JSON in a row of Spark. The reports of a batch together give its offset spans.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.data_files import DataFile
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.merge import Changes
from sawlog.pipeline.source.batch_planning import OffsetRange


class TaskReport(NamedTuple):
    ranges: tuple[OffsetRange, ...]
    rows: int
    bad_rows: int
    fetched_bytes: int
    files: tuple[DataFile, ...]
    dead_files: tuple[DataFile, ...]
    delete_files: tuple[DataFile, ...] = ()  # keys of rows that a keyed table loses
    widen: tuple[str, ...] = ()  # bigint columns that would fit more rows if they were double

    def to_json(self) -> str:
        return json.dumps(
            {
                "ranges": ranges_to_json(self.ranges),
                "rows": self.rows,
                "bad_rows": self.bad_rows,
                "fetched_bytes": self.fetched_bytes,
                "files": [file.to_json() for file in self.files],
                "dead_files": [file.to_json() for file in self.dead_files],
                "delete_files": [file.to_json() for file in self.delete_files],
                "widen": self.widen,
            },
            separators=(",", ":"),
        )


def read_report(text: str) -> TaskReport:
    fields = json.loads(text)
    return TaskReport(
        ranges_from_json(fields["ranges"]),
        fields["rows"],
        fields["bad_rows"],
        fields["fetched_bytes"],
        tuple(DataFile.from_json(file) for file in fields["files"]),
        tuple(DataFile.from_json(file) for file in fields["dead_files"]),
        tuple(DataFile.from_json(file) for file in fields["delete_files"]),
        tuple(fields["widen"]),
    )


def ranges_to_json(ranges: Iterable[OffsetRange]) -> list[list[Any]]:
    return [[*part.partition, part.start, part.end] for part in ranges]


def ranges_from_json(ranges: Iterable[Sequence[Any]]) -> tuple[OffsetRange, ...]:
    return tuple(
        OffsetRange(partition_of(topic, index), start, end) for topic, index, start, end in ranges
    )


def batch_spans(reports: Sequence[TaskReport]) -> dict[TopicPartition, OffsetSpan]:
    """The span of a batch in each partition.

    Asserts that the ranges are contiguous: a missing report must never be committed over.
    """
    spans: dict[TopicPartition, OffsetSpan] = {}
    for partition, start, end in sorted(part for report in reports for part in report.ranges):
        before = spans.get(partition)
        if before is None:
            spans[partition] = OffsetSpan(start, end)
        else:
            assert before.end == start, f"{partition}: no report for {before.end} to {start}"
            spans[partition] = OffsetSpan(before.start, end)
    return spans


def data_files(reports: Iterable[TaskReport]) -> list[DataFile]:
    return [file for report in reports for file in report.files]


def changes_of(reports: Sequence[TaskReport]) -> Changes:
    """The files of a batch of a keyed table."""
    deletes = [file for report in reports for file in report.delete_files]
    return Changes(data_files(reports), deletes)


def dead_letter_files(reports: Iterable[TaskReport]) -> list[DataFile]:
    return [file for report in reports for file in report.dead_files]
