"""Whether the files of a batch fit the table, each other, and what is to be done where they do not.

Tasks infer the types of fields that are new, each from what it sees. Where they agree, the table is
widened by what they found. Where they do not, their types are merged into one that holds both, and
those tasks that wrote another must parse their ranges again.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from sawlog.pipeline.delta.delta_types import storable
from sawlog.pipeline.delta.errors import CannotWiden
from sawlog.pipeline.delta.schema_evolution import widened
from sawlog.pipeline.formats.schema_inference import merge
from sawlog.pipeline.landing.task.task_report import Report


class Fit(NamedTuple):
    schema: pa.Schema  # the table's, with all that the files have
    again: tuple[int, ...]  # places of the reports whose ranges must be parsed again to fit it


def fit(table: pa.Schema, reports: Sequence[Report]) -> Fit:
    """Where nothing is to be parsed again, every file fits `schema`, and it widens the table."""
    found = [distinct_schemas(report) for report in reports]
    try:
        return Fit(union(table, (schema for schemas in found for schema in schemas)), ())
    except CannotWiden:
        pass
    schema = merged(table, [schema for schemas in found for schema in schemas])
    again = tuple(
        place
        for place, schemas in enumerate(found)
        if any(not fits(schema, other) for other in schemas)
    )
    return Fit(schema, again)


def union(table: pa.Schema, found: Iterable[pa.Schema]) -> pa.Schema:
    """Raises CannotWiden where two have a column of different types."""
    for schema in found:
        table = widened(table, schema)
    return table


def fits(wide: pa.Schema, schema: pa.Schema) -> bool:
    try:
        return bool(widened(wide, schema).equals(wide))
    except CannotWiden:
        return False


def merged(known: pa.Schema, found: Sequence[pa.Schema]) -> pa.Schema:
    """A schema that all rows can be parsed with. What the table has stays as it is; of names that
    differ by case only the first one is kept.
    """
    return storable(merge(known, *found).schema)


def distinct_schemas(report: Report) -> list[pa.Schema]:
    distinct: list[pa.Schema] = []
    for file in report.files:
        if not any(file.schema.equals(known) for known in distinct):
            distinct.append(file.schema)
    return distinct
