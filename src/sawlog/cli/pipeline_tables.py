"""`sawlog pipeline check`, `status`, `compact` and `replay`: maintain the tables of a file."""

import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sawlog.cli.exit_codes import FAILED, NO_BROKER
from sawlog.cli.option_types import TEXT, json_option
from sawlog.cli.output import counted, note, print_json, print_line, print_table
from sawlog.cli.pipeline_context import (
    TableErrors,
    file_argument,
    land_tables,
    landed_table,
    load,
    master_option,
    missing,
    require_spark,
    session_started,
    sql_check,
    table_file_option,
    verbose_option,
)
from sawlog.cli.start_options import TIMES, NotATime, at_time
from sawlog.client.consumer.consumer import AtOffset
from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.landing.driver.pipeline_cluster import pipeline_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sawlog.core.ids import TopicPartition
    from sawlog.pipeline.delta.compaction import CompactionResult
    from sawlog.pipeline.delta.table_path import TablePath
    from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig
    from sawlog.pipeline.landing.driver.pipeline_status import TableStatus
    from sawlog.pipeline.landing.driver.replay import From
    from sawlog.pipeline.landing.driver.skipped_records import SkippedRecords

_OFFSETS = re.compile(r"(?:[\w.-]+/)?\d+:\d+(?:,(?:[\w.-]+/)?\d+:\d+)*", re.ASCII)


@click.command()
@file_argument
def check(file: str) -> None:
    """Check FILE, its schemas, queries and tables, and say what a run would do; change nothing.

    Spark's own parser checks the syntax of queries, so a file with queries needs Java. Exit code 1
    if a table cannot be filled, 3 if the only reason is that no broker answers.
    """
    wanted = load(file)
    from sawlog.pipeline.landing.driver.preflight import check_tables, unwritable
    from sawlog.pipeline.landing.failures import FailureKind

    problem = unwritable(wanted.lake)
    if problem is not None:
        print_line(problem)
    with pipeline_cluster(wanted.brokers) as cluster, sql_check(wanted) as sql_error:
        found = check_tables(cluster, wanted.tables, sql_error)
    for name, (text, _) in found.items():
        print_line(f"{name}: {text}")
    kinds = {entry.problem for entry in found.values() if entry.problem is not None}
    if problem is not None or kinds:
        is_unreachable = problem is None and kinds == {FailureKind.UNREACHABLE}
        click.get_current_context().exit(NO_BROKER if is_unreachable else FAILED)


@click.command()
@file_argument
@json_option
def status(file: str, as_json: bool) -> None:
    """Show the state, records read, lag, rate and size of the tables of FILE.

    The state is that in the drivers that run now, or what a run would do. Exit code 1 if a table is
    stopped or stalled, 3 if no broker answers and the state is unknown.
    """
    wanted = load(file)
    from sawlog.pipeline.landing.driver.pipeline_status import statuses
    from sawlog.pipeline.landing.driver.table_state import State

    with pipeline_cluster(wanted.brokers) as cluster:
        found = statuses(wanted, cluster, note)
    if as_json:
        print_json([_as_json(entry) for entry in found])
    else:
        columns = ("table", "topic", "state", "since", "records read", "lag", "held back",
                   "rows", "rows/s", "last commit", "version", "files", "small", "MB",
                   "dead letters", "skipped", "reason")  # fmt: skip
        texts = ("table", "topic", "state", "since", "last commit", "reason")
        numbers = [column for column in columns if column not in texts]
        print_table(columns, [_row(entry) for entry in found], numbers=numbers)
    states = {entry.state for entry in found}
    if states & {State.STOPPED, State.STALLED}:
        click.get_current_context().exit(FAILED)
    if State.UNKNOWN in states:
        click.get_current_context().exit(NO_BROKER)


def _row(entry: "TableStatus") -> tuple[Any, ...]:
    size = None if entry.size_bytes is None else entry.size_bytes / 1e6
    return (
        entry.table, entry.topic, entry.state.value, _ago(entry.since_ms),
        _grouped(entry.records_read), _grouped(entry.lag), _grouped(entry.held_back),
        _grouped(entry.rows), _grouped(entry.rows_per_s), _ago(entry.committed_ms),
        _grouped(entry.version), _grouped(entry.files), _grouped(entry.small_files),
        _grouped(size), _grouped(entry.dead_letters),
        _skipped_count(entry.skipped), entry.reason,
    )  # fmt: skip


def _skipped_count(entries: "Sequence[SkippedRecords]") -> str | None:
    """How many offsets were skipped, such as 8; 8+ if the end of one loss is unknown."""
    if not entries:
        return None
    known = sum(entry.last_offset - entry.first_offset + 1
                for entry in entries if entry.last_offset is not None)  # fmt: skip
    return f"{known:,}{'+' if any(entry.last_offset is None for entry in entries) else ''}"


def _grouped(number: float | None) -> str | None:
    """A number with thousands separators, such as 1,234,567 or 1,234.5."""
    if number is None:
        return None
    return f"{number:,}" if isinstance(number, int) else f"{number:,.1f}"


def _ago(at_ms: int | None) -> str | None:
    if at_ms is None:
        return None
    seconds = max(0, int(time.time() - at_ms / 1_000))
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit} ago"
    return f"{seconds}s ago"


def _as_json(entry: "TableStatus") -> dict[str, Any]:
    at = entry.committed_ms
    held_back = {records.partition: records.size for records in entry.held_back_ranges}
    return {
        "table": entry.table,
        "topic": entry.topic,
        "state": entry.state.value,
        "reason": entry.reason,
        "since": _iso(entry.since_ms),
        "drivers": list(entry.drivers),
        "version": entry.version,
        "records_read": entry.records_read,
        "lag": entry.lag,
        "held_back": entry.held_back,
        "rows": entry.rows,
        "rows_per_s": entry.rows_per_s,
        "last_commit": _iso(at),
        "files": entry.files,
        "small_files": entry.small_files,
        "bytes": entry.size_bytes,
        "dead_letters": entry.dead_letters,
        "skipped": [_skipped(part) for part in entry.skipped],
        "partitions": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "offset": at,
                "end": (entry.ends or {}).get(tp),
                "held_back": None if entry.held_back is None else held_back.get(tp, 0),
            }
            for tp, at in sorted((entry.offsets or {}).items())
        ],
    }


def _skipped(entry: "SkippedRecords") -> dict[str, Any]:
    return {
        "topic": entry.topic,
        "partition": entry.partition,
        "first_offset": entry.first_offset,
        "last_offset": entry.last_offset,
        "at": _iso(entry.at_ms),
        "reason": entry.reason,
    }


def _iso(at_ms: int | None) -> str | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1e3, UTC).isoformat()


@click.command()
@click.argument("what", metavar="FILE|TABLE", type=TEXT)
@click.option(
    "--target", type=TEXT, default="128MB", show_default=True, help="The size of merged files."
)
@master_option
@verbose_option
def compact(what: str, target: str, master: str | None, verbose: bool) -> None:
    """Merge small files of the tables of FILE, or of the TABLE in that directory, with Spark.

    Landings and readers may run meanwhile.
    """
    try:
        from sawlog.pipeline.delta.compaction import compact as merge
        from sawlog.pipeline.delta.compaction import plan_groups
        from sawlog.pipeline.delta.table import Table
        from sawlog.pipeline.landing.configuration.yaml_nodes import parse_size
    except ImportError as error:
        raise missing(error) from None
    try:
        target_bytes = parse_size(target)
    except ValueError as error:
        raise click.UsageError(f"--target: {error}") from None
    wanted, paths = _places(what)
    require_spark()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    troubles = TableErrors(PySparkException, Py4JError)
    waiting = []  # Spark starts only if there is something to merge
    for name, path in paths:
        with troubles.of(name):
            if not Table.exists(path):
                print_line(f"{name}: does not exist yet")
            elif not plan_groups(Table.open(path).files(), target_bytes):
                print_line(f"{name}: nothing to merge")
            else:
                waiting.append((name, path))
    if waiting:
        with session_started(wanted, master, verbose=verbose) as spark:
            for name, path in waiting:
                with troubles.of(name):
                    print_line(f"{name}: {_merged(merge(spark, path, target_bytes))}")
    troubles.exit_if_any()


def _merged(done: "CompactionResult") -> str:
    text = f"{counted(done.files_before, 'file')} became {done.files_after}"
    lost = f", {counted(done.conflicts, 'group')} skipped: another writer changed them"
    return f"{text}{lost if done.conflicts else ''}"


def _places(what: str) -> "tuple[PipelineConfig, list[tuple[str, TablePath]]]":
    from sawlog.pipeline.delta.table import Table
    from sawlog.pipeline.delta.table_path import TablePath, is_object_store
    from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, PipelineConfig

    if is_object_store(what) or Path(what).is_dir():
        path = TablePath(what if is_object_store(what) else str(Path(what).resolve()))
        if not Table.exists(path):
            raise click.UsageError(f"there is no table in {what}")
        return PipelineConfig(path, "", path, ()), [(what, path)]
    wanted = load(what)
    paths = []
    for table in wanted.tables:
        if isinstance(table, LandedTable) and table.catalog is not None:
            note(f"{table.name}: an Iceberg table, which an engine for Iceberg compacts, such as"
                 " Spark's rewrite_data_files")  # fmt: skip
        else:
            paths.append((table.name, table.path))
    dead = [(f"{t.name}, dead letters", t.dead_path) for t in wanted.tables
            if isinstance(t, LandedTable)]  # fmt: skip
    return wanted, paths + dead


class ReplayFrom(click.ParamType["From"]):
    """`17`, `0:17,1:20`, `orders/0:17`, `2025-01-31T12:00`, or `15m` (ago)."""

    name = "from"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> "From":
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # converted already
        if value.isascii() and value.isdigit() and int(value) < 2**63:
            return AtOffset(int(value))
        if _OFFSETS.fullmatch(value):
            pairs = [pair.split(":") for pair in value.split(",")]
            offsets = {_partition(named): int(offset) for named, offset in pairs}
            if len(offsets) < len(pairs):
                self.fail(f"{value!r} names a partition twice", param, ctx)
            return offsets
        try:
            return at_time(value)
        except NotATime:
            self.fail(f"{value[:40]!r} is none of: {TIMES}, an offset (17), one for each partition"
                      " (0:17,1:20)", param, ctx)  # fmt: skip
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _partition(named: str) -> "int | TopicPartition":
    """`0`, or `orders/0` of a table with several topics."""
    topic, _, index = named.rpartition("/")
    return partition_of(topic, int(index)) if topic else int(index)


@click.command()
@click.argument("table", type=TEXT)
@click.option(
    "--from",
    "start",
    type=ReplayFrom(),
    required=True,
    metavar="TIME|OFFSETS",
    help="A time, a duration ago (2h), an offset, or one per partition (0:17,1:20; of several"
    " topics orders/0:17).",
)
@click.option(
    "--into",
    type=TEXT,
    metavar="NEW",
    help="Land in a new table of this name; default: the same table.",
)
@table_file_option
@master_option
@verbose_option
def replay(
    table: str, start: "From", into: str | None, file: str, master: str | None, verbose: bool
) -> None:
    """Land TABLE again from a time or from offsets on, without duplicates.

    Rows from there on are deleted from the table and landed again; with --into they land in a new
    table, and the old one is unchanged. A landing may run meanwhile.
    """
    wanted = load(file)
    config = landed_table(wanted, table)
    if into is not None:
        _check_new(wanted, into)
    require_spark()
    from sawlog.pipeline.delta.errors import TableError
    from sawlog.pipeline.landing.driver.dead_letter_counts import (
        describe_lost,
        listed_offsets,
        lost_dead_letters,
    )
    from sawlog.pipeline.landing.driver.landed_tables import open_table
    from sawlog.pipeline.landing.driver.replay import (
        InvalidReplayStart,
        create_replay_table,
        replay_target,
        resolve_replay_start,
        restore_to,
    )
    from sawlog.pipeline.landing.failures import LandingFailure, classify

    try:
        with pipeline_cluster(wanted.brokers) as cluster:
            starts = resolve_replay_start(cluster, config, start)
            if into is None:
                lost = lost_dead_letters(config, open_table(config))
                back = restore_to(cluster, config, starts)
                if lost:
                    note(f"{config.name}: the table {config.name}__dead was deleted with"
                         f" {describe_lost(lost)}; only those in the replayed offsets land"
                         " again")  # fmt: skip
                text = listed_offsets(config, back, ", ")
                print_line(f"{config.name}: restored to {text or 'its current offsets'}")
            else:
                config = replay_target(config, into)
                if not create_replay_table(cluster, config, starts):
                    note(f"{into}: already exists and continues from its offsets; --from applies"
                         " only to a new table")  # fmt: skip
    except InvalidReplayStart as error:
        raise click.UsageError(f"--from: {error}") from None
    except (LandingFailure, TableError) as error:
        raise click.ClickException(classify(error).message) from None
    only = replace(wanted, tables=(config,))
    if land_tables(only, master, once=True, verbose=verbose):
        note(
            f"{config.name}: not all records have landed; continue with a run, or repeat the replay"
        )
        raise click.Abort


def _check_new(wanted: "PipelineConfig", name: str) -> None:
    from sawlog.pipeline.landing.configuration.pipeline_file import check_name

    try:
        check_name(name)
    except ValueError as error:
        raise click.UsageError(f"--into: {error}") from None
    if name.lower() in (table.name.lower() for table in wanted.tables):
        raise click.UsageError(f"--into: {wanted.file} has a table {name!r}; choose a new name")
