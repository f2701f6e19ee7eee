"""What a task of an exactly-once sink does, by its marker and the record of its query."""

import pytest

from sawlog.pipeline.sink.batch_markers import (
    BatchRecord,
    Decision,
    Marker,
    check_digest,
    check_other_attempts,
    decide,
)
from sawlog.pipeline.sink.sink_errors import Refused

WRITE, VERIFY = Decision.WRITE, Decision.VERIFY


def marker(batch: int) -> Marker:
    return Marker(batch, "1:abc")


@pytest.mark.parametrize(
    ("batch", "task", "found", "record", "expected"),
    [
        (0, 0, None, None, WRITE),  # the first attempt
        (0, 0, marker(0), None, VERIFY),  # the driver died between two EndTxns
        (0, 1, None, None, WRITE),
        (5, 0, marker(4), BatchRecord(4, 2), WRITE),
        (5, 0, marker(5), BatchRecord(4, 2), VERIFY),
        (5, 0, marker(5), BatchRecord(5, 2), VERIFY),  # it died before Spark's commit log
        (5, 2, None, BatchRecord(4, 2), WRITE),  # more tasks than the last batch had
        (5, 2, marker(1), BatchRecord(4, 2), WRITE),  # as many as an older batch had
    ],
)
def test_a_task_writes_or_verifies(
    batch: int, task: int, found: Marker | None, record: BatchRecord | None, expected: Decision
) -> None:
    assert decide(batch, task, found, record) is expected


@pytest.mark.parametrize(
    ("batch", "task", "found", "record", "reason"),
    [
        (5, 0, None, None, "no batch of this query is recorded.*where the last batch ended"),
        (5, 0, marker(5), None, "no batch of this query is recorded"),
        (5, 0, marker(4), BatchRecord(3, 2), "its predecessor is not recorded"),
        (5, 0, marker(6), BatchRecord(5, 2), "task 0 has committed batch 6 already"),
        (5, 0, marker(6), BatchRecord(6, 2), "batch 6 is committed already"),
        (5, 0, None, BatchRecord(6, 2), "The checkpoint was rolled back"),
        (5, 2, None, BatchRecord(5, 2), "committed by 2 tasks, and task 2 was not among them"),
        (5, 2, marker(1), BatchRecord(5, 2), "committed by 2 tasks, and task 2 was not among"),
        (5, 1, None, BatchRecord(4, 2), "the marker of task 1 was deleted"),
        (5, 1, marker(3), BatchRecord(4, 2), "the marker of task 1 was deleted"),
    ],
)
def test_a_batch_that_might_be_written_twice_is_refused(
    batch: int, task: int, found: Marker | None, record: BatchRecord | None, reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        decide(batch, task, found, record)


def test_other_rows_than_those_committed_are_refused() -> None:
    check_digest(3, 0, marker(3), "1:abc")
    with pytest.raises(Refused, match="rows:digest 1:abc, now 2:abd"):
        check_digest(3, 0, marker(3), "2:abd")


@pytest.mark.parametrize(
    ("batch", "found", "record"),
    [
        (0, None, None),
        (5, None, BatchRecord(4, 2)),
        (5, marker(4), BatchRecord(4, 3)),  # the last batch had more tasks
        (5, None, BatchRecord(5, 2)),  # the same batch, committed before
        (5, marker(4), BatchRecord(5, 2)),
    ],
)
def test_a_batch_is_committed_if_no_attempt_has_committed_more_tasks(
    batch: int, found: Marker | None, record: BatchRecord | None
) -> None:
    check_other_attempts(batch, 2, found, record)


@pytest.mark.parametrize(
    ("batch", "found", "record", "reason"),
    [
        (0, marker(0), None, "had more than 2 tasks, and committed task 2"),
        (5, marker(5), BatchRecord(4, 2), "had more than 2 tasks, and committed task 2"),
        (5, marker(6), BatchRecord(4, 2), "had more than 2 tasks"),
        (5, marker(4), BatchRecord(5, 3), "committed by 3 tasks and rerun with 2"),
        (5, None, BatchRecord(5, 1), "committed by 1 tasks and rerun with 2"),
        (5, None, None, "no batch of this query is recorded"),
        (5, None, BatchRecord(6, 2), "The checkpoint was rolled back"),
    ],
)
def test_a_batch_is_not_committed_beside_an_attempt_with_other_tasks(
    batch: int, found: Marker | None, record: BatchRecord | None, reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        check_other_attempts(batch, 2, found, record)
