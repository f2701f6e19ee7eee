"""`sawlog topics records delete` without a broker: its options and its plan."""

import pytest

from sawlog.cli.commands import run
from sawlog.cli.topics_records_plan import (
    BeyondEnd,
    PartitionDeletion,
    notes,
    plan_deletion,
    plan_deletion_by_time,
    unread,
)
from sawlog.client.admin.group_offsets import Committed
from sawlog.client.net.leader_requests import partition_of

ZERO, ONE = partition_of("orders", 0), partition_of("orders", 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "give one of --before, --before-time, --all, --partition P:OFFSET"),
        (["-p", "0"], "give one of"),
        (["--all", "--before", "3"], "give --before or --all, not both"),
        (["--all", "--before", "3", "-p", "0:4"], "not all of them"),
        (["-p", "0:5", "-p", "1"], "--partition 1 has no offset: give 1:OFFSET"),
        (["-p", "0:5", "-p", "0:6"], "--partition 0 has two offsets"),
        (["-p", "0:"], "expected PARTITION or PARTITION:OFFSET"),
        (["-p", "x:1"], "'x' is not an integer from 0"),
        (["--before", "-1"], "'-1' is not an integer from 0"),
        (["--before-time", "yesterday"], "'yesterday' is not one of"),
    ],
)
def test_wrong_targets_are_usage_errors(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["topics", "records", "delete", "orders", *options]) == 2
    assert words in capsys.readouterr().err


def test_offset_within_the_log_is_planned() -> None:
    plan = plan_deletion(ZERO, 5, 20, 12)
    assert (plan.before, plan.deleted, plan.kept, plan.note) == (12, 7, 8, "")
    assert plan_deletion(ZERO, 5, 20, 20).kept == 0


def test_offset_before_the_log_start_deletes_nothing() -> None:
    plan = plan_deletion(ZERO, 5, 20, 3)
    assert (plan.before, plan.deleted) == (5, 0)
    assert plan.note == "the records before 3 are deleted already"


def test_offset_beyond_the_end_is_refused() -> None:
    with pytest.raises(BeyondEnd, match="orders-0 ends at offset 20, before the offset 21"):
        plan_deletion(ZERO, 5, 20, 21)


@pytest.mark.parametrize(("first_later", "before"), [(12, 12), (3, 5), (25, 20), (-1, 20)])
def test_time_is_planned_within_the_log(first_later: int, before: int) -> None:
    assert plan_deletion_by_time(ZERO, 5, 20, first_later).before == before


def test_partitions_with_the_same_note_share_a_line() -> None:
    plan = [plan_deletion_by_time(each, 0, 9, -1) for each in (ZERO, ONE)]
    plan.append(plan_deletion_by_time(partition_of("orders", 2), 7, 7, -1))
    assert list(notes(plan)) == ["orders:0,1: no record has this timestamp or a later one; all go"]


def test_unread_records_are_counted_from_the_log_start() -> None:
    plan = [PartitionDeletion(ZERO, 10, 30, 40), PartitionDeletion(ONE, 0, 5, 5)]
    committed = {
        "lost": {ZERO: Committed(2, -1, "")},
        "middle": {ZERO: Committed(25, -1, ""), ONE: Committed(1, None, None)},
        "done": {ZERO: Committed(30, -1, "")},
        "other": {partition_of("refunds", 0): Committed(0, -1, "")},
    }
    assert unread(plan, committed) == {"lost": 20, "middle": 9}
