"""Task reports, and the spans of a batch."""

import pyarrow as pa
import pytest

from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.delta.data_files import DataFile
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.landing.driver.schema_merge import merge_task_schemas
from sawlog.pipeline.landing.task.task_report import TaskReport, batch_spans, read_report
from sawlog.pipeline.source.batch_planning import OffsetRange


def part(index: int, start: int, end: int) -> OffsetRange:
    return OffsetRange(partition_of("t", index), start, end)


def report(*ranges: OffsetRange, schemas: tuple[pa.Schema, ...] = ()) -> TaskReport:
    files = tuple(
        DataFile(f"f{number}", 1, 1, {}, "{}", schema) for number, schema in enumerate(schemas)
    )
    return TaskReport(ranges, 5, 1, 100, files, ())


def test_a_report_round_trips_as_json() -> None:
    told = report(part(0, 1, 5), part(1, 0, 9), schemas=(pa.schema({"a": pa.int64()}),))
    assert read_report(told.to_json()) == told


def test_ranges_of_all_tasks_join_into_spans() -> None:
    reports = [report(part(1, 5, 9)), report(part(0, 3, 4), part(1, 2, 5))]
    assert batch_spans(reports) == {
        partition_of("t", 0): OffsetSpan(3, 4),
        partition_of("t", 1): OffsetSpan(2, 9),
    }


def test_a_hole_between_ranges_is_never_committed_over() -> None:
    with pytest.raises(AssertionError, match="no report for 5 to 6"):
        batch_spans([report(part(0, 2, 5)), report(part(0, 6, 9))])


TABLE = pa.schema({"offset": pa.int64(), "old": pa.int64()})
WHOLE = pa.schema({"offset": pa.int64(), "new": pa.int64()})
FRACTION = pa.schema({"offset": pa.int64(), "new": pa.float64()})
OTHER = pa.schema({"offset": pa.int64(), "other": pa.string()})


def test_new_columns_that_agree_are_added() -> None:
    reports = [report(schemas=(WHOLE,)), report(schemas=(WHOLE, OTHER))]
    schema, to_reparse = merge_task_schemas(TABLE, reports)
    assert to_reparse == ()
    assert schema.names == ["offset", "old", "new", "other"]


def test_ranges_that_do_not_fit_the_merged_type_are_parsed_again() -> None:
    reports = [
        report(schemas=(OTHER, WHOLE)),
        report(schemas=(FRACTION,)),
        report(schemas=(OTHER,)),
    ]
    schema, to_reparse = merge_task_schemas(TABLE, reports)
    assert schema.field("new").type == pa.float64()
    assert to_reparse == (0,)


def test_a_type_that_the_table_has_binds() -> None:
    """Another driver may have added columns since the tasks started."""
    schema, to_reparse = merge_task_schemas(
        TABLE, [report(schemas=(pa.schema({"old": pa.string()}),))]
    )
    assert schema.field("old").type == pa.int64()
    assert to_reparse == (0,)


def test_names_that_differ_by_case_only_are_one_column() -> None:
    reports = [report(schemas=(WHOLE,)), report(schemas=(pa.schema({"New": pa.int64()}),))]
    schema, to_reparse = merge_task_schemas(TABLE, reports)
    assert schema.names == ["offset", "old", "new"]
    assert to_reparse == (1,)
