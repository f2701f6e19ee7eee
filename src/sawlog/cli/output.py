"""What commands print: tables for people, JSON for machines, progress where someone watches.

Results go to stdout, everything else to stderr. rich is imported when a bar is drawn: its
tables cost a millisecond each.
"""

import contextlib
import json
import os
import shutil
import stat
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import click

from sawlog.cli.standard_streams import writing_output

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

_BAR_INTERVAL_S = 0.1
_GAP = 2  # between columns
_SHORTEST_CELL = 10


def print_line(text: str) -> None:
    with writing_output():
        click.echo(text)


def print_lines(lines: Iterable[str]) -> None:
    """Print all of them with one write, which is flushed once."""
    if text := "\n".join(lines):
        print_line(text)


def print_bytes(lines: Iterable[bytes]) -> None:
    with writing_output():
        sys.stdout.buffer.writelines(lines)


def print_json(value: Any) -> None:
    """One value in one line."""
    print_line(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")))


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    numbers: Collection[str] = (),
    shortened: str = "",
) -> None:
    """Print a table, as `table_lines` makes it."""
    print_lines(table_lines(columns, rows, numbers=numbers, shortened=shortened))


def table_lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    numbers: Collection[str] = (),
    shortened: str = "",
) -> list[str]:
    """Numbers to the right, the rest to the left; plain enough to be cut up by other programs, for
    which a dash stands where nothing is known. A table is not folded: a narrow terminal breaks
    its lines, not its words.

    `numbers` are columns that have numbers wherever they know any. On a terminal that is too narrow
    the cells of the column `shortened` lose their middle.
    """
    is_watched = sys.stdout.isatty()
    cells = [[_cell(value) for value in row] for row in rows]
    if is_watched and shortened:
        place = columns.index(shortened)
        narrowed(columns, cells, place, shutil.get_terminal_size().columns)
    padded: list[list[str]] = []
    for place, column in enumerate(columns):
        known = [row[place] for row in rows if row[place] is not None]
        numeric = bool(known) and all(isinstance(value, int | float) for value in known)
        entries = [column, *(row[place] for row in cells)]
        padded.append(_padded(entries, to_the_right=numeric or column in numbers))
    gap = " " * _GAP
    lines = [gap.join(line).rstrip(" ") for line in zip(*padded, strict=True)]
    if is_watched:
        lines[0] = click.style(lines[0], bold=True)
    return lines


def _padded(entries: list[str], *, to_the_right: bool) -> list[str]:
    widths = [_width(entry) for entry in entries]
    width = max(widths)
    if to_the_right:
        return [" " * (width - own) + entry for entry, own in zip(entries, widths, strict=True)]
    return [entry + " " * (width - own) for entry, own in zip(entries, widths, strict=True)]


def narrowed(columns: Sequence[str], cells: list[list[str]], place: int, width: int) -> None:
    """Takes what the table is too wide from the column at `place`, in place; some of it stays."""
    widths = [max(map(_width, column)) for column in zip(columns, *cells, strict=True)]
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    if excess <= 0:
        return
    longest = max(widths[place] - excess, _SHORTEST_CELL)
    for row in cells:
        text = row[place]
        if len(text) > longest:  # ids of members: what tells them apart is at their ends
            tail = longest // 2
            row[place] = f"{text[: longest - tail - 2]}..{text[-tail:]}"


def _width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def note(message: str) -> None:
    """A remark for whoever watches; never part of the result."""
    click.echo(message, err=True)


def is_watched() -> bool:
    """Whether stderr is a terminal, so that a person reads what is remarked."""
    return sys.stderr.isatty()


def remark(message: str) -> None:
    """A note for a person at a terminal; where stderr goes elsewhere, nothing is said."""
    if is_watched():
        note(f"sawlog: {message}")


class Progress(Protocol):
    def advance(self, amount: int) -> None: ...


class _Silent:
    def advance(self, amount: int) -> None:
        """Nobody watches."""


class _Bar:
    """Tells rich a few times a second: once a record would cost more than the record."""

    def __init__(self, progress: "RichProgress", total: int | None, label: str) -> None:
        self._progress = progress
        self._task = progress.add_task(label, total=total)
        self._untold = 0
        self._tell_at_s = 0.0

    def advance(self, amount: int) -> None:
        self._untold += amount
        now_s = time.monotonic()
        if now_s >= self._tell_at_s:
            self._progress.advance(self._task, self._untold)
            self._untold = 0
            self._tell_at_s = now_s + _BAR_INTERVAL_S


@contextlib.contextmanager
def progress(
    label: str,
    total: int | None,
    *,
    unit: str,
    prints: bool = False,
    reads: int | None = None,
) -> Iterator[Progress]:
    """Draw a bar on stderr where that is a terminal.

    There is no bar where the command prints records (`prints`), unless they go to a file: a program
    behind a pipe may print them to the same terminal. Nor is there one where it reads them from a
    terminal (`reads`, a descriptor): it would be drawn over them.
    """
    is_disturbing = (prints and not _is_file(sys.stdout)) or (
        reads is not None and os.isatty(reads)
    )
    if not sys.stderr.isatty() or is_disturbing:
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with RichProgress(*columns, console=console, transient=True) as drawn:
        yield _Bar(drawn, total, label)


def _is_file(stream: TextIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except OSError:  # it has no descriptor
        return False


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 record`, `2 records`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def _cell(value: object) -> str:
    """In one line, whatever characters it has."""
    if value is None:
        return "-"
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    if text.isprintable():
        return text
    shown = (c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return "".join(shown)
