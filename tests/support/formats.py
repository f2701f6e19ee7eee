"""Values parsed to plain Python, for tests of formats."""

from typing import Any, NamedTuple

import pyarrow as pa

from sawlog.pipeline.formats import Format, Parsed, parser


class Outcome(NamedTuple):
    rows: list[dict[str, Any]]
    bad: dict[int, str]
    schema: pa.Schema


def outcome_of(parsed: Parsed, count: int) -> Outcome:
    """Checks what holds for every result: each value is a row or bad, in order, and never both."""
    parsed.rows.validate(full=True)
    bad = {row.row: row.reason for row in parsed.bad}
    assert list(bad) == sorted(bad)
    assert len(bad) == len(parsed.bad)
    kept = list(range(count)) if parsed.kept is None else parsed.kept.to_pylist()
    assert kept == [row for row in range(count) if row not in bad]
    assert parsed.rows.num_rows == len(kept)
    return Outcome(parsed.rows.to_pylist(), bad, parsed.rows.schema)


def parse(
    kind: Any,
    *values: bytes | None,
    known: pa.Schema | None = None,
    widen: bool | None = None,
    **options: str,
) -> Outcome:
    """New fields widen the table where no schema is given, unless `widen` says otherwise."""
    is_wider = known is None if widen is None else widen
    parse_values = parser(Format(kind, options), known, widen=is_wider)
    return outcome_of(parse_values(pa.array(values, pa.binary())), len(values))
