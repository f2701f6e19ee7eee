"""The streaming source of a landing, as Spark calls it. Its rows are task reports.

Spark plans it (offsets and ranges) in a process beside the driver and reads it in tasks. A task
lands some ranges and returns one row. `batch_planner.py` plans, `task/landing_task.py` lands.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from sawlog.client.net.cluster import Cluster
from sawlog.pipeline.landing.failures import tagged_failures
from sawlog.pipeline.landing.planning.batch_planner import BatchPlanner
from sawlog.pipeline.landing.planning.task_split import split_into_tasks
from sawlog.pipeline.landing.task.landing_task import LandingJob, current_columns, land, read_job
from sawlog.pipeline.source.batch_planning import OffsetRange
from sawlog.pipeline.source.offset_json import Offsets, read_position, write_offsets

NAME = "sawlog-landing"
SCHEMA = "report string"
_TIMEOUT_MS = 5_000  # planning must not delay the stop of a query


@dataclass
class RangesToLand(InputPartition):
    """The ranges of one task; `columns` are those of the table as JSON."""

    ranges: tuple[OffsetRange, ...]
    columns: str


class LandingSource(DataSource):
    """Options: `job` (LandingJob as JSON), `starts` (offsets as JSON), `tasks` (a number)."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> "LandingReader":  # noqa: N802, ARG002
        return LandingReader(
            read_job(self.options["job"]),
            read_position(json.loads(self.options["starts"])).offsets,
            int(self.options["tasks"]),
        )


class LandingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Pickled to the tasks, without its connection."""

    def __init__(self, job: LandingJob, starts: Offsets, tasks: int) -> None:
        self._job = job
        self._starts = starts
        self._tasks = tasks
        self._last: Offsets | None = None
        self._planner: BatchPlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return write_offsets(self._starts)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()  # the planner limits batches itself

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with tagged_failures():
            self._last = self._planning().ends()

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802, ARG002
        with tagged_failures():
            starts = read_position(start).offsets
            planner = self._planning()
            if self._last is None:
                return write_offsets(planner.next_batch(starts))
            return write_offsets(planner.bounded(starts, self._last))

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]:
        with tagged_failures():
            starts, ends = read_position(start).offsets, read_position(end).offsets
            whole = [OffsetRange(tp, starts.get(tp, 0), last) for tp, last in ends.items()]
            columns = current_columns(self._job)
            return [RangesToLand(part, columns) for part in split_into_tasks(whole, self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        assert isinstance(partition, RangesToLand)
        with tagged_failures():
            yield (land(self._job, partition.columns, partition.ranges).to_json(),)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()

    def _planning(self) -> BatchPlanner:
        if self._planner is None:
            job = self._job
            cluster = Cluster(
                job.brokers,
                client_id=f"{job.group}-planner",
                timeout_ms=_TIMEOUT_MS,
                request_timeout_ms=_TIMEOUT_MS,
            )
            self._planner = BatchPlanner(
                cluster, job.topic, job.topic_id, job.bounds, read_committed=job.read_committed
            )
        return self._planner
