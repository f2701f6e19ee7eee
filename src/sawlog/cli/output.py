"""Output of the commands: tables, JSON, notes and progress bars.

Results go to stdout, everything else to stderr. Only progress bars use rich: its tables take a
millisecond each.
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
    """Print all lines with one write and one flush."""
    if text := "\n".join(lines):
        print_line(text)


def print_bytes(lines: Iterable[bytes]) -> None:
    with writing_output():
        sys.stdout.buffer.writelines(lines)


def print_json(value: Any) -> None:
    """Print the value in one line."""
    print_line(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")))


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    numbers: Collection[str] = (),
    shortened: str = "",
    dimmed: Collection[int] = (),
) -> None:
    """Print the lines of `table_lines`."""
    lines = table_lines(columns, rows, numbers=numbers, shortened=shortened, dimmed=dimmed)
    print_lines(lines)


def table_lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    numbers: Collection[str] = (),
    shortened: str = "",
    dimmed: Collection[int] = (),
) -> list[str]:
    """Format a table: numbers right-aligned, other cells left-aligned, unknown values as `-`.

    Other programs can split the lines at spaces. Lines are never folded. Columns in `numbers` are
    right-aligned even if all their values are unknown. On a terminal that is too narrow, the cells
    of the column `shortened` lose their middle. A terminal shows the rows `dimmed` dimly.
    """
    is_terminal = sys.stdout.isatty()
    cells = [[_cell(value) for value in row] for row in rows]
    if is_terminal and shortened:
        index = columns.index(shortened)
        _shorten(columns, cells, index, shutil.get_terminal_size().columns)
    padded: list[list[str]] = []
    for index, column in enumerate(columns):
        known = [row[index] for row in rows if row[index] is not None]
        numeric = bool(known) and all(isinstance(value, int | float) for value in known)
        entries = [column, *(row[index] for row in cells)]
        padded.append(_padded(entries, is_right_aligned=numeric or column in numbers))
    gap = " " * _GAP
    lines = [gap.join(line).rstrip(" ") for line in zip(*padded, strict=True)]
    if is_terminal:
        lines[0] = click.style(lines[0], bold=True)
        for row in dimmed:
            lines[row + 1] = click.style(lines[row + 1], dim=True)
    return lines


def _padded(entries: list[str], *, is_right_aligned: bool) -> list[str]:
    widths = [_width(entry) for entry in entries]
    width = max(widths)
    if is_right_aligned:
        return [" " * (width - own) + entry for entry, own in zip(entries, widths, strict=True)]
    return [entry + " " * (width - own) for entry, own in zip(entries, widths, strict=True)]


def _shorten(columns: Sequence[str], cells: list[list[str]], index: int, width: int) -> None:
    """Shorten the cells of the column `index`, in place, until the table fits into `width`.

    Cells keep at least `_SHORTEST_CELL` characters.
    """
    widths = [max(map(_width, column)) for column in zip(columns, *cells, strict=True)]
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    if excess <= 0:
        return
    longest = max(widths[index] - excess, _SHORTEST_CELL)
    for row in cells:
        text = row[index]
        if len(text) > longest:  # member ids differ at their ends, so both ends stay
            tail = longest // 2
            row[index] = f"{text[: longest - tail - 2]}..{text[-tail:]}"


def _width(text: str) -> int:
    """Return the number of terminal columns that the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def note(message: str) -> None:
    """Print a message to stderr; it is not part of the result."""
    click.echo(message, err=True)


def is_interactive() -> bool:
    """Return whether stderr is a terminal."""
    return sys.stderr.isatty()


def hint(message: str) -> None:
    """Print a message to stderr if that is a terminal."""
    if is_interactive():
        note(f"sawlog: {message}")


class Progress(Protocol):
    def advance(self, amount: int) -> None: ...


class _NoBar:
    def advance(self, amount: int) -> None:
        pass


class _Bar:
    """A progress bar that updates rich ten times a second: an update costs more than a record."""

    def __init__(self, progress: "RichProgress", total: int | None, label: str) -> None:
        self._progress = progress
        self._task = progress.add_task(label, total=total)
        self._pending = 0
        self._update_at_s = 0.0

    def advance(self, amount: int) -> None:
        self._pending += amount
        now_s = time.monotonic()
        if now_s >= self._update_at_s:
            self._progress.advance(self._task, self._pending)
            self._pending = 0
            self._update_at_s = now_s + _BAR_INTERVAL_S


@contextlib.contextmanager
def progress(
    label: str,
    total: int | None,
    *,
    unit: str,
    prints: bool = False,
    reads: int | None = None,
) -> Iterator[Progress]:
    """Draw a progress bar on stderr if that is a terminal.

    There is no bar if the command prints records (`prints`), unless they go to a file: a program
    behind a pipe may print them to the same terminal. Nor is there one if the command reads the
    descriptor `reads` and that is a terminal: the bar would overwrite the typed lines.
    """
    shares_terminal = (prints and not _is_file(sys.stdout)) or (
        reads is not None and os.isatty(reads)
    )
    if not sys.stderr.isatty() or shares_terminal:
        yield _NoBar()
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
    except OSError:  # the stream has no descriptor
        return False


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: `1 record`, `2 records`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def _cell(value: object) -> str:
    """Format a value in one line; control characters are escaped."""
    if value is None:
        return "-"
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    if text.isprintable():
        return text
    shown = (c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return "".join(shown)
