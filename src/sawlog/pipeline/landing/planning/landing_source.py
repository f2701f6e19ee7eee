"""The streaming source of a landing, as Spark calls it. Its rows are task reports.

Spark calls `latestOffset` and `partitions` in a Python worker beside the driver, and `read` in
tasks. A task lands some ranges and returns one row. `batch_planner.py` plans,
`task/landing_task.py` lands.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from sawlog.client.net.cluster import Cluster
from sawlog.pipeline.delta.table_path import NO_OPTIONS, StorageOptions
from sawlog.pipeline.landing.failures import tagged_failures
from sawlog.pipeline.landing.planning.batch_planner import BatchPlanner
from sawlog.pipeline.landing.planning.task_split import split_into_tasks
from sawlog.pipeline.landing.task.landing_task import (
    LandingParameters,
    current_columns,
    land_ranges,
    read_parameters,
)
from sawlog.pipeline.source.batch_planning import OffsetRange
from sawlog.pipeline.source.offset_json import Offsets, read_stream_offset, write_offsets

NAME = "sawlog-landing"
SCHEMA = "report string"
_TIMEOUT_MS = 5_000  # planning must not delay the stop of a query


@dataclass
class RangesToLand(InputPartition):
    """The ranges of one task; `columns` are those of the table as JSON."""

    ranges: tuple[OffsetRange, ...]
    columns: str


class LandingSource(DataSource):
    """Options: `parameters` and `starts` (offsets) as JSON; `tasks`, their number."""

    storage_options: ClassVar[StorageOptions] = NO_OPTIONS  # `register_source` sets others

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> "LandingReader":  # noqa: N802, ARG002
        return LandingReader(
            read_parameters(self.options["parameters"], self.storage_options),
            read_stream_offset(json.loads(self.options["starts"])).offsets,
            int(self.options["tasks"]),
        )


class LandingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Pickled to the tasks, without its connection."""

    def __init__(self, parameters: LandingParameters, starts: Offsets, tasks: int) -> None:
        self._parameters = parameters
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
            starts = read_stream_offset(start).offsets
            planner = self._planning()
            if self._last is None:
                return write_offsets(planner.next_batch(starts))
            return write_offsets(planner.bounded(starts, self._last))

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]:
        with tagged_failures():
            starts, ends = read_stream_offset(start).offsets, read_stream_offset(end).offsets
            whole = [OffsetRange(tp, starts.get(tp, 0), last) for tp, last in ends.items()]
            columns = current_columns(self._parameters)
            return [RangesToLand(part, columns) for part in split_into_tasks(whole, self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        assert isinstance(partition, RangesToLand)
        with tagged_failures():
            yield (land_ranges(self._parameters, partition.columns, partition.ranges).to_json(),)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()

    def _planning(self) -> BatchPlanner:
        if self._planner is None:
            parameters = self._parameters
            cluster = Cluster(
                parameters.brokers,
                client_id=f"{parameters.group}-planner",
                timeout_ms=_TIMEOUT_MS,
                request_timeout_ms=_TIMEOUT_MS,
            )
            self._planner = BatchPlanner(
                cluster,
                parameters.topic,
                parameters.topic_id,
                parameters.bounds,
                read_committed=parameters.read_committed,
            )
        return self._planner
