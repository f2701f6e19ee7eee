"""Compares the rows that a reader returns with those of `lake.everything`."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from support.pipeline.lake import expected


def same(found: Iterable[dict[str, Any]], *, without: frozenset[str] = frozenset()) -> None:
    rows = sorted(found, key=lambda row: int(row["offset"]))
    assert len(rows) == 30
    for number, row in enumerate(rows):
        wanted = expected(number)
        assert row.keys() == wanted.keys()
        for name, value in wanted.items():
            if name not in without:
                assert plain(row[name]) == plain(value), (number, name)


def plain(value: Any) -> Any:
    """Normalise rows: readers return maps as pairs or dictionaries, and times in any zone."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    if isinstance(value, list) and value and isinstance(value[0], dict) and "key" in value[0]:
        return {entry["key"]: entry["value"] for entry in value}
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return bytes(value) if isinstance(value, bytearray) else value
