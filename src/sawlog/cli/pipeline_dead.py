"""`sawlog pipeline dead`: list dead letters, show them, and move those that fit by now."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from sawlog.cli.option_types import TEXT, json_option
from sawlog.cli.output import counted, note, print_json, print_line, print_table
from sawlog.cli.pipeline_context import landed_table, load, table_file_option
from sawlog.cli.record_format import to_json_fields

if TYPE_CHECKING:
    from datetime import datetime

    from sawlog.pipeline.delta.table import Table
    from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, PipelineConfig

_SHOWN_CHARS = 60

table_argument = click.argument("table", type=TEXT)
where_option = click.option(
    "--where",
    type=TEXT,
    metavar="SQL",
    help="A condition on topic, partition, offset, timestamp, key, value, headers and error, such"
    " as \"error LIKE '%price%'\".",
)


@click.group()
def dead() -> None:
    """List, show and retry the dead letters of a table."""


@dead.command(name="list")
@table_argument
@where_option
@table_file_option
@json_option
def list_(table: str, where: str | None, file: str, as_json: bool) -> None:
    """Count the dead letters of TABLE by reason."""
    from sawlog.pipeline.landing.driver.dead_letter_reader import count_reasons

    _, config = _table(file, table)
    with _failures():
        letters = _dead_letters(config)
        found = {} if letters is None else count_reasons(letters, where)
    rows = [(count.rows, _iso(count.first), _iso(count.last), reason)
            for reason, count in found.items()]  # fmt: skip
    if as_json:
        names = ("rows", "first", "last", "reason")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    elif rows:
        print_table(("rows", "first", "last", "reason"), rows, numbers=("rows",))
    else:
        note(_none(table, where))


@dead.command()
@table_argument
@where_option
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many."
)
@table_file_option
@json_option
def show(table: str, where: str | None, limit: int, file: str, as_json: bool) -> None:
    """Show dead letters of TABLE with their place, time, error and value.

    A value that is not text is shown in hexadecimal, in JSON as base64. JSON is one line for each.
    """
    _, config = _table(file, table)
    with _failures():
        letters = _dead_letters(config)
        found = [] if letters is None else list(_rows(letters, where, limit))
    if as_json:
        for row in found:
            fields = to_json_fields(row["key"], row["value"], _headers(row["headers"]))
            print_json({**_position(row), "error": row["error"], **fields})
    elif found:
        columns = ("topic", "partition", "offset", "timestamp", "error", "value")
        cells = [(*_position(row).values(), row["error"], _text(row["value"])) for row in found]
        print_table(columns, cells, numbers=("partition", "offset"))
    else:
        note(_none(table, where))


@dead.command()
@table_argument
@where_option
@table_file_option
def retry(table: str, where: str | None, file: str) -> None:
    """Parse the dead letters of TABLE again and move those that fit to the table, exactly once.

    The schema and format are those of the file now. The others stay. A landing may run meanwhile.
    """
    wanted, config = _table(file, table)
    from sawlog.pipeline.delta.table import Table
    from sawlog.pipeline.landing.driver.dead_letter_counts import check_dead_letters
    from sawlog.pipeline.landing.driver.dead_letter_retry import retry_dead_letters
    from sawlog.pipeline.landing.driver.landed_tables import require_delta
    from sawlog.pipeline.landing.driver.table_setup import check_owner, check_replays

    with _failures():
        letters = _dead_letters(config)
        if letters is None:
            note(f"{table}: no dead letters")
            return
        require_delta(config, "a retry of dead letters", "replay it into a new one (--into)")
        landed = Table.open(config.path)
        check_owner(landed, config)
        check_dead_letters(config, landed)
        check_replays(config, landed, letters)
        done = retry_dead_letters(wanted, config, landed, letters, where)
    parts = [f"{counted(done.moved, 'dead letter')} moved to the table", f"{done.kept} do not fit"]
    if done.ambiguous:
        parts.append(f"{done.ambiguous} left out, because two of them have one offset")
    print_line(f"{table}: {', '.join(parts)}")


def _none(table: str, where: str | None) -> str:
    return f"{table}: no dead letters" + ("" if where is None else " that fulfil the condition")


def _table(file: str, table: str) -> "tuple[PipelineConfig, LandedTable]":
    wanted = load(file)
    return wanted, landed_table(wanted, table)


@contextmanager
def _failures() -> Iterator[None]:
    """Convert the errors of tables to one line."""
    from sawlog.pipeline.delta.errors import TableError
    from sawlog.pipeline.formats.parsed import FormatError
    from sawlog.pipeline.landing.driver.dead_letter_reader import InvalidCondition
    from sawlog.pipeline.landing.failures import LandingFailure, classify

    try:
        yield
    except InvalidCondition as error:
        raise click.UsageError(f"--where: {error}") from None
    except FormatError as error:
        raise click.ClickException(str(error)) from None
    except (LandingFailure, TableError, OSError) as error:
        raise click.ClickException(classify(error).message) from None


def _dead_letters(config: "LandedTable") -> "Table | None":
    from sawlog.pipeline.delta.table import Table
    from sawlog.pipeline.landing.driver.landed_tables import table_exists

    if not table_exists(config):
        raise click.ClickException(f"there is no table in {config.path}")
    return Table.open(config.dead_path) if Table.exists(config.dead_path) else None


def _rows(letters: "Table", where: str | None, limit: int) -> Iterator[dict[str, Any]]:
    from sawlog.pipeline.landing.driver.dead_letter_reader import read_rows, select_positions

    left = limit
    for batch in read_rows(letters, select_positions(letters, where)):
        rows = batch.slice(0, left).to_pylist()
        left -= len(rows)
        yield from rows
        if not left:
            return


def _position(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "offset": row["offset"],
        "timestamp": _iso(row["timestamp"]),
    }


def _headers(entries: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((entry["key"], entry["value"]) for entry in entries or ())


def _iso(at: "datetime | None") -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = f"0x{value.hex()}"
    if not text.isprintable():
        text = repr(text)[1:-1]
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
