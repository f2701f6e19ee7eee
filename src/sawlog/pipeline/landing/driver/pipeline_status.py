"""The status of the tables of a file, from their logs, the brokers and the records of drivers.

The state comes from the checks of a run (`preflight.py`), so a table that would stop is never shown
as ready, and from what drivers recorded (`driver_records.py`).
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from sawlog.client.errors import ClientError
from sawlog.client.net.cluster import Cluster, NoSuchTopic
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.errors import TableError
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_storage import open_storage
from sawlog.pipeline.landing.configuration.pipeline_config import (
    LandedTable,
    PipelineConfig,
    QueryTable,
    dependency_order,
)
from sawlog.pipeline.landing.driver.driver_records import SeenDriver, read_drivers
from sawlog.pipeline.landing.driver.landed_tables import LandingTable, open_table, table_exists
from sawlog.pipeline.landing.driver.preflight import PreflightResult, preflight
from sawlog.pipeline.landing.driver.skipped_records import SkippedRecords, skipped_records
from sawlog.pipeline.landing.driver.table_state import (
    PATIENCE_MS,
    State,
    TableState,
    combined_state,
    recorded_runs,
)
from sawlog.pipeline.landing.failures import FATAL, FailureKind, LandingFailure, classify
from sawlog.pipeline.landing.planning.held_back_records import describe_held_back
from sawlog.pipeline.source.batch_planning import OffsetRange

_RECENT_MS = 5 * 60 * 1_000
_NOT_LANDING = frozenset({State.STOPPED, State.WAITING, State.STALLED})


@dataclass(frozen=True, slots=True)
class TableStatus:
    """The status of one table. None means unknown: no table yet, or no broker answers."""

    table: str
    topic: str | None
    state: State = State.UNKNOWN
    reason: str | None = None  # why it is not running or ready, and what to do
    since_ms: int | None = None  # since when it has that state, if a driver recorded it
    drivers: tuple[str, ...] = ()  # those that run it
    version: int | None = None
    records_read: int | None = None  # the sum of the next offsets of all partitions
    lag: int | None = None  # to the ends of the logs
    held_back: int | None = None  # the part of the lag that open transactions hold back
    rows: int | None = None
    rows_per_s: float | None = None  # over the last five minutes with commits
    committed_ms: int | None = None
    files: int | None = None
    small_files: int | None = None
    size_bytes: int | None = None
    dead_letters: int | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    ends: Mapping[TopicPartition, int] | None = None  # those of the logs
    held_back_ranges: Sequence[OffsetRange] = ()
    skipped: Sequence[SkippedRecords] = ()  # accepted losses, oldest first


def statuses(
    pipeline: PipelineConfig, cluster: Cluster, warn: Callable[[str], None]
) -> list[TableStatus]:
    """The status of all tables in the order of the file. Unreachable brokers are reported once."""
    brokers = _Brokers(cluster, warn)
    records = _Records(pipeline)
    found = {
        config.name: records.combine(_landed_status(config, brokers), _patience_ms(config))
        for config in pipeline.landed
    }
    for query in dependency_order(pipeline.queries):
        found[query.name] = records.combine(_query_status(query, found, brokers))
    return [found[config.name] for config in pipeline.tables]


class _Records:
    """What drivers have recorded in the lake."""

    def __init__(self, pipeline: PipelineConfig) -> None:
        self._now_ms = time.time_ns() // 1_000_000
        self._drivers: list[SeenDriver] = []
        with suppress(OSError, TableError):  # the status of the tables reports it
            self._drivers = read_drivers(open_storage(pipeline.lake))

    def combine(self, entry: TableStatus, patience_ms: int = PATIENCE_MS) -> TableStatus:
        runs = recorded_runs(self._drivers, entry.table, self._now_ms)
        state, reason, since_ms, drivers = combined_state(
            TableState(entry.state, entry.reason), entry.lag, runs, self._now_ms,
            patience_ms=patience_ms, is_query=entry.topic is None,
        )  # fmt: skip
        if entry.held_back_ranges:
            held_back = describe_held_back(entry.held_back_ranges)
            reason = held_back if reason is None else f"{reason}; {held_back}"
        return replace(entry, state=state, reason=reason, since_ms=since_ms, drivers=drivers)


def _patience_ms(config: LandedTable) -> int:
    return PATIENCE_MS + int(3_000 * config.commit.every_s)


def _landed_status(config: LandedTable, brokers: "_Brokers") -> TableStatus:
    """The status by the checks of a run; a table that could land is ready."""
    known = brokers.preflight(config)
    try:
        entry = status_of(config, known.ends, known.held_back)
    except (TableError, OSError) as error:
        failure = classify(error)
        return TableStatus(config.name, str(config.selection), _state(failure), failure.message)
    if known.failure is None:
        return replace(entry, state=State.READY)
    return replace(entry, state=_state(known.failure), reason=known.failure.message)


def _state(failure: LandingFailure) -> State:
    if failure.kind in (FailureKind.UNREACHABLE, FailureKind.STORE_UNREACHABLE):
        return State.UNKNOWN
    if failure.kind in FATAL or failure.kind is FailureKind.OTHER:
        return State.STOPPED
    return State.WAITING


def _query_status(
    config: QueryTable, sources: Mapping[str, TableStatus], brokers: "_Brokers"
) -> TableStatus:
    """A query runs even if its tables are stopped; it then gets no more rows from them."""
    try:
        entry = status_of(config, None)
    except (TableError, OSError) as error:
        found = classify(error)
        return TableStatus(config.name, None, _state(found), found.message)
    reasons = {
        name: f"{name!r}, which it reads, is {sources[name].state.value}"
        for name in config.tables
        if sources[name].state not in (State.READY, State.RUNNING)
    }
    if any(sources[name].state in _NOT_LANDING for name in reasons):
        return replace(entry, state=State.WAITING, reason="; ".join(reasons.values()))
    failure = brokers.failure_of(config.topics)
    if failure is not None:
        return replace(entry, state=_state(failure), reason=failure.message)
    if reasons:
        return replace(entry, state=State.UNKNOWN, reason="; ".join(reasons.values()))
    return replace(entry, state=State.READY)


def status_of(
    config: LandedTable | QueryTable,
    ends: Mapping[TopicPartition, int] | None,
    held_back: Sequence[OffsetRange] = (),
) -> TableStatus:
    """The status by the table's log alone.

    `ends` are the end offsets of its topic, if known, and `held_back` the records after them that
    open transactions hold back.
    """
    if ends is not None:
        ends = {**ends, **{records.partition: records.end for records in held_back}}
    landed = config if isinstance(config, LandedTable) else None
    topic = None if landed is None else str(landed.selection)
    if not table_exists(config):
        return TableStatus(config.name, topic, ends=ends)
    table = open_table(config)
    detail = table.detail()
    stored = {} if landed is None else table.offsets(landed.group)
    offsets = {
        tp: offset
        for tp, offset in stored.items()
        if landed is not None and landed.selection.selects(tp.topic)
    }
    return TableStatus(
        table=config.name,
        topic=topic,
        version=table.version,
        records_read=sum(offsets.values()) if landed else None,
        lag=None if ends is None else _lag(offsets, ends),
        held_back=None if ends is None else sum(records.size for records in held_back),
        rows=detail.rows,
        rows_per_s=recent_rate(table),
        committed_ms=table.committed_ms,
        files=detail.files,
        small_files=detail.small_files,
        size_bytes=detail.size_bytes,
        dead_letters=None if landed is None else _rows(landed.dead_path),
        offsets=offsets,
        ends=ends,
        held_back_ranges=held_back,
        skipped=skipped_records(table.properties),
    )


class _Brokers:
    """The brokers of a file. After one request without an answer no more are sent."""

    def __init__(self, cluster: Cluster, warn: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._warn = warn
        self._unreachable: LandingFailure | None = None

    def preflight(self, config: LandedTable) -> PreflightResult:
        if self._unreachable is not None:
            return PreflightResult(0, failure=self._unreachable)
        found = preflight(self._cluster, config)
        if found.failure is not None:
            self._note_failure(found.failure)
        return found

    def failure_of(self, topics: Iterable[str]) -> LandingFailure | None:
        """Why the first unreadable topic of a query cannot be read; None if all can."""
        for topic in topics:
            if self._unreachable is not None:
                return self._unreachable
            try:
                self._cluster.topic(topic)
            except NoSuchTopic as error:
                return LandingFailure(FailureKind.NOT_FOUND, error.message or str(error))
            except (KafkaError, ClientError) as error:
                failure = classify(error)
                self._note_failure(failure)
                return failure
        return None

    def _note_failure(self, failure: LandingFailure) -> None:
        if failure.kind is FailureKind.UNREACHABLE:
            self._unreachable = failure
            self._warn(f"the state of tables is unknown: {failure.message}")


def recent_rate(table: LandingTable) -> float | None:
    """Rows per second over the newest commits that added rows, within five minutes.

    None if there are fewer than two.
    """
    commits = table.recent_commits(_RECENT_MS)
    if len(commits) < 2 or commits[0][0] <= commits[-1][0]:
        return None
    rows = sum(count for _, count in commits[:-1])  # the duration of the oldest commit is unknown
    return rows * 1_000 / (commits[0][0] - commits[-1][0])


def _lag(offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    return sum(max(0, end - offsets.get(partition, 0)) for partition, end in ends.items())


def _rows(path: str) -> int | None:
    if not Table.exists(path):
        return None
    return Table.open(path).detail().rows
