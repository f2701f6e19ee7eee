"""What a task tells the driver of its ranges: the files it wrote, and how much it read.

A report travels as JSON through a row of Spark's. Together the reports of a batch say how far it
moves every partition.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.data_files import DataFile
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.source.batch_limits import OffsetRange


class TaskReport(NamedTuple):
    ranges: tuple[OffsetRange, ...]
    rows: int
    bad_rows: int
    fetched_bytes: int
    files: tuple[DataFile, ...]
    dead_files: tuple[DataFile, ...]

    def to_json(self) -> str:
        return json.dumps(
            {
                "ranges": ranges_to_json(self.ranges),
                "rows": self.rows,
                "bad_rows": self.bad_rows,
                "fetched_bytes": self.fetched_bytes,
                "files": [file.to_json() for file in self.files],
                "dead_files": [file.to_json() for file in self.dead_files],
            },
            separators=(",", ":"),
        )


def read_report(text: str) -> TaskReport:
    told = json.loads(text)
    return TaskReport(
        ranges_from_json(told["ranges"]),
        told["rows"],
        told["bad_rows"],
        told["fetched_bytes"],
        tuple(DataFile.from_json(file) for file in told["files"]),
        tuple(DataFile.from_json(file) for file in told["dead_files"]),
    )


def ranges_to_json(ranges: Iterable[OffsetRange]) -> list[list[Any]]:
    return [[*part.partition, part.start, part.end] for part in ranges]


def ranges_from_json(told: Iterable[Sequence[Any]]) -> tuple[OffsetRange, ...]:
    return tuple(
        OffsetRange(partition_of(topic, index), start, end) for topic, index, start, end in told
    )


def batch_spans(reports: Sequence[TaskReport]) -> dict[TopicPartition, OffsetSpan]:
    """How far a batch goes in each partition. Its ranges lie end to end, or a task told nothing,
    which must never be committed over: AssertionError.
    """
    spans: dict[TopicPartition, OffsetSpan] = {}
    for partition, start, end in sorted(part for report in reports for part in report.ranges):
        before = spans.get(partition)
        if before is None:
            spans[partition] = OffsetSpan(start, end)
        else:
            assert before.end == start, f"{partition}: nothing was told of {before.end} to {start}"
            spans[partition] = OffsetSpan(before.start, end)
    return spans


def data_files(reports: Iterable[TaskReport]) -> list[DataFile]:
    return [file for report in reports for file in report.files]


def dead_letter_files(reports: Iterable[TaskReport]) -> list[DataFile]:
    return [file for report in reports for file in report.dead_files]
