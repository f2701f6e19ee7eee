"""Whether the files of a batch fit the table and each other.

Each task infers the types of new fields from the records it sees. If the tasks agree, the columns
are added to the table. If not, the types are merged into one that holds all values, and tasks that
wrote another type must parse their ranges again.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from sawlog.pipeline.delta.data_files import DataFile
from sawlog.pipeline.delta.errors import SchemaMismatch
from sawlog.pipeline.delta.schema_evolution import evolved_schema
from sawlog.pipeline.landing.task.landing_task import merge_inferred
from sawlog.pipeline.landing.task.task_report import TaskReport


class SchemaFit(NamedTuple):
    schema: pa.Schema  # the table's columns and those of all files
    to_reparse: tuple[int, ...]  # indexes of the reports whose ranges must be parsed again


def merge_task_schemas(table: pa.Schema, reports: Sequence[TaskReport]) -> SchemaFit:
    """Merge the schemas of a batch. If nothing is parsed again, all files fit the result.

    Keys of deletes decide no type: they must fit those of rows, if there are any.
    """
    found = [distinct_schemas(report.files) for report in reports]
    try:
        schema = union(table, (schema for schemas in found for schema in schemas))
    except SchemaMismatch:
        schema = merge_inferred(table, [schema for schemas in found for schema in schemas])
    for schemas, report in zip(found, reports, strict=True):
        for deletes in distinct_schemas(report.delete_files):
            schemas.append(pa.schema([part for part in deletes if part.name in schema.names]))
    to_reparse = tuple(
        place
        for place, schemas in enumerate(found)
        if any(not fits_schema(schema, other) for other in schemas)
    )
    return SchemaFit(schema, to_reparse)


def union(table: pa.Schema, found: Iterable[pa.Schema]) -> pa.Schema:
    """Add the columns of all schemas. Raises SchemaMismatch."""
    for schema in found:
        table = evolved_schema(table, schema)
    return table


def fits_schema(wide: pa.Schema, schema: pa.Schema) -> bool:
    try:
        return bool(evolved_schema(wide, schema).equals(wide))
    except SchemaMismatch:
        return False


def distinct_schemas(files: Iterable[DataFile]) -> list[pa.Schema]:
    distinct: list[pa.Schema] = []
    for file in files:
        if not any(file.schema.equals(known) for known in distinct):
            distinct.append(file.schema)
    return distinct
