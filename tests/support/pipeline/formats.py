"""Parses values to plain Python, for tests of formats."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from sawlog.pipeline.formats import Format, Parsed, parser


class Outcome(NamedTuple):
    rows: list[dict[str, Any]]
    bad: dict[int, str]
    schema: pa.Schema


def outcome_of(parts: Iterable[Parsed], count: int) -> Outcome:
    """Check the invariants of a result: each value is a row or bad, in order, never both."""
    tables: list[pa.Table] = []
    bad: dict[int, str] = {}
    done = 0
    for parsed in parts:
        _check(parsed)
        tables.append(pa.Table.from_batches([parsed.rows]))
        bad |= {done + row.row: row.reason for row in parsed.bad}
        done += parsed.values
    assert done == count
    rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="default")
    return Outcome(rows.to_pylist(), bad, rows.schema)


def _check(parsed: Parsed) -> None:
    parsed.rows.validate(full=True)
    bad = {row.row for row in parsed.bad}
    assert [row.row for row in parsed.bad] == sorted(bad)
    kept = list(range(parsed.values)) if parsed.kept is None else parsed.kept.to_pylist()
    assert kept == [row for row in range(parsed.values) if row not in bad]


def parse(
    kind: Any,
    *values: bytes | None,
    known: pa.Schema | None = None,
    infer: bool | None = None,
    **options: str,
) -> Outcome:
    """Parse values; by default new fields are inferred if no schema is given."""
    is_wider = known is None if infer is None else infer
    parse_values = parser(Format(kind, options), known, infer=is_wider)
    return outcome_of(parse_values(pa.array(values, pa.binary())), len(values))
