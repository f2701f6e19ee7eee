"""Rows of a new run in the tables of an earlier one. No IO.

The document itself keeps the results: its tables are read back, the rows of the works that were
measured again are replaced, and all other rows stay as they are.
"""

from itertools import groupby
from operator import itemgetter

from bench.tables import Section

Rows = tuple[tuple[str, ...], ...]
PIPE = "&#124;"
"""A `|` inside a cell."""


def read_tables(text: str) -> list[Section]:
    """Return the tables of a document; the title of one is the heading above it."""
    found: list[Section] = []
    title, lines = "", []
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            title = line.lstrip("# ")
        elif line.startswith("|"):
            lines.append(line)
        elif lines:
            columns, _, *rows = map(_cells, lines)
            found.append(Section(title, columns, tuple(rows)))
            lines = []
    return found


def _cells(line: str) -> tuple[str, ...]:
    cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
    return tuple(cell.replace(PIPE, "|") for cell in cells)


def merged(older: list[Section], newer: list[Section]) -> list[Section]:
    """Return the older tables with the rows of the newer ones; new rows and tables follow."""
    fresh = {section.title: section for section in newer}
    kept = [_merged(section, fresh.pop(section.title, section)) for section in older]
    return [*kept, *fresh.values()]


def _merged(older: Section, newer: Section) -> Section:
    """A table without targets has fewer columns, the same ones at its left."""
    columns = max(older.columns, newer.columns, key=len)
    rows = _merged_rows(older.rows, newer.rows)
    width = len(columns)
    padded = tuple((*row, *[""] * (width - len(row))) for row in rows)
    return Section(older.title, columns, padded)


def _merged_rows(older: Rows, newer: Rows) -> Rows:
    """The first cell names the work; all older rows of a work that was measured again go."""
    first = itemgetter(0)
    fresh: dict[str, list[tuple[str, ...]]] = {}
    for row in newer:
        fresh.setdefault(first(row), []).append(row)
    rows: list[tuple[str, ...]] = []
    for work, group in groupby(older, first):
        rows += fresh.pop(work, group)
    return (*rows, *(row for group in fresh.values() for row in group))
