"""Checks before a run that change nothing: the lake, the tables and the queries."""

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from sawlog.client.errors import ClientError
from sawlog.client.net.cluster import Cluster
from sawlog.core.errors import KafkaError
from sawlog.pipeline.delta.errors import TableError, UnsupportedStorage
from sawlog.pipeline.delta.store_probe import probe
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_path import is_object_store
from sawlog.pipeline.delta.table_storage import open_storage
from sawlog.pipeline.formats import parser
from sawlog.pipeline.formats.parsed import FormatError
from sawlog.pipeline.landing.configuration.declared_columns import (
    declared_schema,
    format_of,
    initial_value_schema,
)
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, QueryTable
from sawlog.pipeline.landing.driver.dead_letter_counts import check_dead_letters
from sawlog.pipeline.landing.driver.landed_tables import (
    check_other_format,
    open_table,
    table_exists,
)
from sawlog.pipeline.landing.driver.table_setup import (
    check_replays,
    find_topics,
    landed_topic_id,
    landed_topics,
    next_offsets,
    partitions_of,
)
from sawlog.pipeline.landing.driver.table_setup import check_table as check_existing
from sawlog.pipeline.landing.failures import FATAL, FailureKind, LandingFailure, classify
from sawlog.pipeline.landing.topic_check import TopicState
from sawlog.pipeline.registry.registry_client import (
    RegistryRefused,
    RegistryUnavailable,
    registry_client,
)
from sawlog.pipeline.source.batch_planning import OffsetRange
from sawlog.pipeline.source.offset_json import Offsets

_MAX_NAMED = 5
_FAILURES = (LandingFailure, FormatError, TableError, KafkaError, ClientError, OSError)


class CheckResult(NamedTuple):
    text: str
    problem: FailureKind | None = None


class PreflightResult(NamedTuple):
    """What a run that starts now would find for a landed table."""

    partitions: int  # of the topic; 0 if unknown
    starts: Offsets | None = None  # None: there is no table yet
    ends: Offsets | None = None  # None: unknown, or of another topic than the one that landed
    failure: LandingFailure | None = None
    held_back: Sequence[OffsetRange] = ()  # the records after `ends` of open transactions
    topics: tuple[str, ...] = ()  # the existing ones that the table selects


def preflight(cluster: Cluster, config: LandedTable) -> PreflightResult:
    """Run the checks of a run in its order: the file, the topic, the table, the topic's log."""
    found = PreflightResult(0)
    try:
        columns = initial_value_schema(config)
        parser(format_of(config), columns, infer=declared_schema(config) is None)
        topics = find_topics(cluster, config)
        names = tuple(sorted(str(topic.name) for topic in topics))
        found = PreflightResult(len(partitions_of(topics)), topics=names)
        if not table_exists(config):
            check_other_format(config)
            return found
        table = open_table(config)
        check_existing(table, config, topics)
        check_dead_letters(config, table)
        if Table.exists(config.dead_path):
            check_replays(config, table, Table.open(config.dead_path))
        landed = landed_topics(table, config.group)
        topics = [topic for topic in topics if topic.name in landed]  # others start anywhere
        starts = next_offsets(table, config, topics)
        found = found._replace(starts=starts)
        ids = {str(topic.name): landed_topic_id(table, topic.name) for topic in topics}
        state = TopicState(cluster, ids, read_committed=config.read_committed)
        ends = state.check_end_offsets(starts, state.ends())
        found = found._replace(ends=ends, held_back=state.held_back(ends))
        state.check_start_offsets(starts, ends)
    except _FAILURES as error:
        return found._replace(failure=classify(error))
    return found


def check_tables(
    cluster: Cluster,
    tables: Iterable[LandedTable | QueryTable],
    sql_error: Callable[[str], str | None],
) -> dict[str, CheckResult]:
    """Check each table; the results are by name.

    `sql_error` returns why SQL is not a query. The result of a query names the tables it reads that
    are stopped, because no new rows will come from them.
    """
    configs = list(tables)
    names = [config.name for config in configs]
    found = {
        config.name: check_landed(cluster, config)
        if isinstance(config, LandedTable)
        else check_query(config, names, sql_error)
        for config in configs
    }
    for config in configs:
        if isinstance(config, QueryTable):
            stopped = [name for name in config.tables if found[name].problem in FATAL]
            if stopped:
                text = f"{found[config.name].text}; it gets no more rows from {', '.join(stopped)}"
                found[config.name] = found[config.name]._replace(text=text)
    return found


def check_query(
    config: QueryTable, names: Iterable[str], sql_error: Callable[[str], str | None]
) -> CheckResult:
    """Check the syntax of a query and that it reads a table or topic; columns are not checked."""
    if (error := sql_error(config.sql)) is not None:
        return CheckResult(f"sql: {error}", FailureKind.INVALID)
    reads = ", ".join([*config.tables, *config.topics])
    if not reads:
        others = ", ".join(name for name in names if name != config.name)
        return CheckResult(
            f"sql: it reads none of the file's other tables ({others}), and 'topics' lists no"
            " topic",
            FailureKind.INVALID,
        )
    return CheckResult(f"a query over {reads}; the syntax of its SQL is valid")


def _exists(config: LandedTable) -> bool:
    """Whether there is a table, as far as its store and catalog answer."""
    try:
        return table_exists(config)
    except (TableError, OSError):
        return False


def check_landed(cluster: Cluster, config: LandedTable) -> CheckResult:
    """Say in one line where a landing would start, or why it cannot."""
    found = preflight(cluster, config)
    failure = found.failure or _registry_failure(config)
    if failure is not None:
        is_stopped = failure.kind in FATAL and _exists(config)
        text = f"stopped: {failure.message}" if is_stopped else failure.message
        return CheckResult(text, failure.kind)
    selected = _selected(config, found.topics)
    if found.starts is not None:
        records = sum(found.starts.values())
        return CheckResult(
            f"continues after {_counted(records, 'record')} in"
            f" {_counted(len(found.starts), 'partition')} of {selected}"
        )
    return CheckResult(
        f"will be created from {_counted(found.partitions, 'partition')} of {selected}"
    )


def _selected(config: LandedTable, topics: tuple[str, ...]) -> str:
    """The topics of the file, and those that a pattern matches now."""
    selection = repr(str(config.selection))
    if not config.selection.pattern:
        return selection
    more = len(topics) - _MAX_NAMED
    named = ", ".join(topics[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{selection}, which matches {named}"


def _registry_failure(config: LandedTable) -> LandingFailure | None:
    """Why the registry of a table cannot be used; None if it can, or there is none."""
    registry = format_of(config).any_registry
    try:
        if registry is not None:
            registry_client(registry).check()
    except (RegistryUnavailable, RegistryRefused) as error:
        return classify(error)
    return None


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def unwritable(lake: str) -> str | None:
    """Why the lake cannot be created or written to, and what to do; None if it can.

    The check creates and deletes a directory, since permissions say nothing about read-only and
    special file systems. In an object store it races writers for one name.
    """
    if is_object_store(lake):
        return _unusable_store(lake)
    nearest = _nearest_existing(Path(lake))
    does = "be written to" if nearest == Path(lake) else "be created"
    advice = "choose another directory for 'lake', or let this user write there"
    if not nearest.is_dir():
        return f"the lake {lake} cannot {does}: {nearest} is not a directory; {advice}"
    try:
        with tempfile.TemporaryDirectory(prefix=".sawlog-", dir=nearest):
            return None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        return f"the lake {lake} cannot {does}: writing in {nearest} fails: {reason}; {advice}"


def _unusable_store(lake: str) -> str | None:
    try:
        probe(open_storage(lake))
    except UnsupportedStorage as error:
        return f"the lake cannot be used: {error}"
    except OSError as error:
        return (
            f"the lake {lake} cannot be written to: {error.strerror or error}; check the URL, the"
            " credentials (lake_options, the environment or an AWS profile) and the permissions"
        )
    return None


def _nearest_existing(path: Path) -> Path:
    """The path itself or its nearest ancestor that exists."""
    return next(place for place in (path, *path.parents) if os.path.lexists(place))
