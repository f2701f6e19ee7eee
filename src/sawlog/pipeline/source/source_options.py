"""The options of the source, with the names and defaults of Spark's Kafka connector.

`columns` is new. Unknown, contradictory and invalid options are rejected before anything is read.
Importable without Spark.
"""

import logging
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sawlog.core.ids import TopicPartition
from sawlog.pipeline.source.batch_planning import DEFAULT_MAX_DELAY_MS, Limits
from sawlog.pipeline.source.client_options import (
    CLIENT_OPTIONS,
    Brokers,
    ClientSettings,
    read_client_settings,
)
from sawlog.pipeline.source.executor_check import Versions
from sawlog.pipeline.source.offset_json import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    AtOffsets,
    AtSameTime,
    AtTimes,
    Mark,
    Where,
    parse_partitions,
    parse_times,
    parse_where,
)
from sawlog.pipeline.source.option_values import (
    LONG,
    BadOption,
    Options,
    duration_ms,
    flag,
    nearest,
    one_of,
    whole,
)

WHAT = "the source 'sawlog'"
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS = "headers"
DEFAULT_READ_TIMEOUT_MS = 120_000

_TOPICS = ("subscribe", "subscribePattern", "assign")
_ENDINGS = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_PER_TRIGGER = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_NAMES = (
    *_TOPICS,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    *_ENDINGS,
    *_PER_TRIGGER,
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "columns",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",  # prefix of the groups that Spark's connector creates; not needed here
)
_EVERY_NAME = (*_NAMES, *CLIENT_OPTIONS)
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Topics:
    """What to read: topics by name, by a pattern, or single partitions."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    client: ClientSettings
    topics: Topics
    starting: Where
    ending: Where
    late_start_is_latest: bool  # if no record is at or after a starting time
    limits: Limits
    min_tasks: int | None
    max_task_records: int | None
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    read_timeout_ms: int
    offset_tries: int
    offset_retry_ms: int


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The settings that every task of a job needs besides its range."""

    brokers: Brokers
    columns: tuple[str, ...]
    read_committed: bool
    fetch_bytes: int
    fail_on_data_loss: bool
    versions: Versions


def read_source_options(written: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Parse the options. Raises BadOption."""
    options = Options(written, _EVERY_NAME, WHAT)
    _check_query_type(options, streaming)
    starting = _where(options, "starting", Mark.LATEST if streaming else Mark.EARLIEST)
    ending = _where(options, "ending", Mark.LATEST)
    if not streaming:
        _check_bounds(starting, ending)
    strategy = one_of("error", "latest")
    return SourceOptions(
        client=read_client_settings(options),
        topics=_topics(options),
        starting=starting,
        ending=ending,
        late_start_is_latest=options.read("startingOffsetsByTimestampStrategy", strategy, "error")
        == "latest",
        limits=_limits(options),
        min_tasks=options.read("minPartitions", whole(1), None),
        max_task_records=options.read("maxRecordsPerPartition", whole(1, LONG), None),
        fail_on_data_loss=options.read("failOnDataLoss", flag, True),
        columns=_columns(options),
        read_timeout_ms=options.read(
            "kafkaConsumer.pollTimeoutMs", whole(1, LONG), DEFAULT_READ_TIMEOUT_MS
        ),
        offset_tries=options.read("fetchOffset.numRetries", whole(1), 3),
        offset_retry_ms=options.read("fetchOffset.retryIntervalMs", whole(0), 10),
    )


def read_columns(written: Mapping[str, str]) -> tuple[str, ...]:
    """Parse only the columns, before it is known whether the query is a stream."""
    return _columns(Options(written, _EVERY_NAME, WHAT))


def _check_query_type(options: Options, streaming: bool) -> None:
    endings = options.given(_ENDINGS)
    if streaming and endings:
        raise BadOption(f"a stream has no end, so {endings[0]!r} is for batch queries only")
    for name in [] if streaming else options.given(_PER_TRIGGER):
        _logger.warning("%r is for streams, and has no effect on a batch query", name)


def _topics(options: Options) -> Topics:
    given = options.given(_TOPICS)
    if len(given) != 1:
        names = " and ".join(repr(name) for name in given)
        found = f"{names} are given" if given else "none is given"
        raise BadOption(
            f"{WHAT} takes exactly one of 'subscribe', 'subscribePattern' and 'assign'; {found}"
        )
    return Topics(
        names=options.read("subscribe", _names, ()),
        pattern=options.read("subscribePattern", _pattern, None),
        partitions=options.read("assign", parse_partitions, ()),
    )


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ValueError("it names no topic; write one, or several with commas between")
    return names


def _pattern(text: str) -> str:
    if not text:
        raise ValueError("it takes a pattern of topic names")
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"it is not a regular expression: {error}") from None
    return text


def _where(options: Options, side: str, default: Where) -> Where:
    """The position: a time for all before times, and times before offsets."""
    if f"{side}Timestamp" in options:
        return AtSameTime(options.required(f"{side}Timestamp", whole(0, LONG)))
    if f"{side}OffsetsByTimestamp" in options:
        return options.required(f"{side}OffsetsByTimestamp", parse_times)
    return options.read(f"{side}Offsets", parse_where, default)


def _check_bounds(starting: Where, ending: Where) -> None:
    """Check the start and end of a batch query against each other."""
    if starting is Mark.LATEST or _has(starting, LATEST_OFFSET):
        raise BadOption("'startingOffsets' cannot be latest (-1) for a batch query")
    if ending is Mark.EARLIEST or _has(ending, EARLIEST_OFFSET):
        raise BadOption("'endingOffsets' cannot be earliest (-2) for a batch query")
    if isinstance(starting, AtSameTime) and isinstance(ending, AtSameTime):
        if starting.time_ms > ending.time_ms:
            raise BadOption(
                f"'startingTimestamp' {starting.time_ms} is after 'endingTimestamp'"
                f" {ending.time_ms}"
            )
    elif isinstance(starting, AtTimes) and isinstance(ending, AtTimes):
        _check_pairs("OffsetsByTimestamp", starting.times_ms, ending.times_ms)
    elif isinstance(starting, AtOffsets) and isinstance(ending, AtOffsets):
        _check_pairs("Offsets", starting.offsets, ending.offsets)


def _has(where: Where, mark: int) -> bool:
    return isinstance(where, AtOffsets) and mark in where.offsets.values()


def _check_pairs(
    name: str, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> None:
    if starts.keys() != ends.keys():
        odd = ", ".join(str(partition) for partition in sorted(starts.keys() ^ ends.keys()))
        raise BadOption(
            f"'starting{name}' and 'ending{name}' must name the same partitions; {odd} is in one"
            " only"
        )
    for partition, start in starts.items():
        if 0 <= ends[partition] < start:
            raise BadOption(
                f"'starting{name}' of {partition} is {start}, after 'ending{name}'"
                f" {ends[partition]}"
            )


def _limits(options: Options) -> Limits:
    highest = options.read("maxOffsetsPerTrigger", whole(1, LONG), None)
    lowest = options.read("minOffsetsPerTrigger", whole(1, LONG), None)
    if (lowest or 0) > (highest or math.inf):
        raise BadOption(
            f"'minOffsetsPerTrigger' {lowest} is more than 'maxOffsetsPerTrigger' {highest}"
        )
    delay_ms = options.read("maxTriggerDelay", duration_ms, float(DEFAULT_MAX_DELAY_MS))
    return Limits(max_records=highest, min_records=lowest, max_delay_ms=delay_ms)


def _columns(options: Options) -> tuple[str, ...]:
    with_headers = options.read("includeHeaders", flag, False)
    usual: tuple[str, ...] = (*COLUMNS, HEADERS) if with_headers else COLUMNS
    chosen = options.read("columns", _chosen_columns, usual)
    if HEADERS in chosen and not with_headers and "includeHeaders" in options:
        raise BadOption("'columns' asks for headers, and 'includeHeaders' is false")
    return chosen


def _chosen_columns(text: str) -> tuple[str, ...]:
    by_lower = {name.lower(): name for name in (*COLUMNS, HEADERS)}
    chosen: list[str] = []
    for name in (piece.strip() for piece in text.split(",")):
        column = by_lower.get(name.lower())
        if column is None:
            raise ValueError(f"there is no column {name!r}; {nearest(name, by_lower.values())}")
        if column in chosen:
            raise ValueError(f"it names the column {column!r} twice")
        chosen.append(column)
    return tuple(chosen)
