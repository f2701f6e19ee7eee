"""One run of one landed table: from its set-up over its batches to its end or failure."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sawlog.client.net.cluster import Cluster
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, PipelineConfig
from sawlog.pipeline.landing.driver.batch_commit import LandingCommitter
from sawlog.pipeline.landing.driver.events import LandedBatch
from sawlog.pipeline.landing.driver.table_setup import PreparedTable, prepare
from sawlog.pipeline.landing.failures import LandingFailure
from sawlog.pipeline.landing.planning.batch_planner import BatchPlanner, backlog
from sawlog.pipeline.landing.task.landing_task import LandingParameters, landing_parameters
from sawlog.pipeline.landing.task.task_report import TaskReport
from sawlog.pipeline.source.batch_planning import OffsetRange
from sawlog.pipeline.source.offset_json import Offsets

if TYPE_CHECKING:
    from pyspark import SparkContext


class PreparedLanding(NamedTuple):
    """A table that is ready to land.

    A run with `--once` ends at `last`; `held_back` are the records after it of open transactions.
    """

    ready: PreparedTable
    parameters: LandingParameters
    last: Offsets | None
    held_back: Sequence[OffsetRange] = ()


def set_up(
    cluster: Cluster, pipeline: PipelineConfig, config: LandedTable, *, once: bool
) -> PreparedLanding:
    """Create or check the table. Raises LandingFailure, KafkaError, ClientError or TableError."""
    ready = prepare(cluster, config)
    parameters = landing_parameters(pipeline, config, ready.topics)
    if not once:
        return PreparedLanding(ready, parameters, None)
    planner = planner_of(cluster, parameters)
    last = planner.check_ends(ready.starts)
    return PreparedLanding(ready, parameters, last, planner.held_back(last))


def planner_of(cluster: Cluster, parameters: LandingParameters) -> BatchPlanner:
    return BatchPlanner(
        cluster,
        parameters.topics,
        parameters.bounds,
        read_committed=parameters.read_committed,
    )


class LandingRun:
    """A run that ends when all is landed (`--once`), at its first failure, or when stopped.

    The scheduler's thread calls the methods, except for `is_active` and `stop`, which the
    supervisor calls, and `commit`, which a thread for commits calls. `check` raises the error
    for which no run can continue, such as a JVM that exited.
    """

    def __init__(self, config: LandedTable, check: Callable[[], None], *, once: bool) -> None:
        self.config = config
        self.once = once
        self.rows = 0
        self.failure: LandingFailure | None = None
        self._check = check
        self._has_ended = False
        self._is_stopped = False
        self._commit_lock = threading.Lock()
        self._landing: PreparedLanding | None = None
        self._committer: LandingCommitter | None = None
        self._record_bytes: dict[TopicPartition, float] = {}
        self.offsets: Offsets = {}
        self.ends: Offsets = {}

    @property
    def is_active(self) -> bool:
        self._check()
        return not self._has_ended

    def stop(self) -> None:
        """Wait for the commit in progress; no other follows."""
        with self._commit_lock:
            self._is_stopped = True
        self._has_ended = True

    def end(self, failure: LandingFailure | None) -> None:
        self.failure = failure
        self._has_ended = True

    @property
    def has_ended(self) -> bool:
        return self._has_ended

    @property
    def is_set_up(self) -> bool:
        return self._landing is not None

    @property
    def landing(self) -> PreparedLanding | None:
        """None until the table is set up."""
        return self._landing

    def prepared(
        self, landing: PreparedLanding, commit_to_group: Callable[[Offsets], object],
        landed: Callable[[LandedBatch], None],
    ) -> None:  # fmt: skip
        self._landing = landing
        self._committer = LandingCommitter(
            landing.parameters, landing.ready, landed=landed, commit_to_group=commit_to_group
        )
        self.offsets = dict(landing.ready.starts)
        self.ends = dict(landing.last or landing.ready.starts)

    def prepare_again(self) -> None:
        """Forget the set-up: `prepared` follows, with more topics."""
        self._landing = None

    def found_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Take the ends of partitions as polled; those of the others stay."""
        self.ends.update(ends)

    def measured_sizes(self, record_bytes: Mapping[TopicPartition, float]) -> None:
        self._record_bytes.update(record_bytes)

    def backlog(self) -> tuple[int, float]:
        """The offsets that wait, and their estimated bytes."""
        return backlog(self.offsets, self.ends, self._record_bytes)

    def commit(
        self, context: "SparkContext", reports: Sequence[TaskReport], began_s: float
    ) -> bool:
        """Commit a batch; False if the run was stopped before."""
        assert self._committer is not None, self.config.name
        with self._commit_lock:
            if self._is_stopped:
                return False
            landed = self._committer.commit(context, reports, began_s)
            if landed is not None:
                self.rows += landed.rows + landed.bad_rows
        return True

    def advanced(self, offsets: Offsets) -> None:
        """The table has the batch up to these offsets."""
        self.offsets.update(offsets)
