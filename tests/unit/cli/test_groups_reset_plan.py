"""Reset plans: offsets limited to the log, CSV files."""

import pytest

from sawlog.cli.groups_reset_plan import (
    Bounds,
    InvalidPlan,
    Limit,
    PartitionReset,
    bounded,
    notes,
    read_plan,
    write_plan,
)
from sawlog.client.net.leader_requests import partition_of

PARTITION = partition_of("t", 0)


@pytest.mark.parametrize(
    ("requested", "new", "note"),
    [
        (10, 10, ""),
        (15, 15, ""),
        (20, 20, ""),
        (21, 20, "21 is beyond the end; using 20"),
        (9, 10, "9 is before the log start offset; using 10"),
        (-3, 10, "-3 is before the log start offset; using 10"),
    ],
)
def test_offset_is_limited_to_the_log(requested: int, new: int, note: str) -> None:
    reset = bounded(PARTITION, 12, requested, Bounds(10, 20))
    assert (reset.old, reset.new, reset.end, reset.note) == (12, new, 20, note)


def test_plan_survives_a_round_trip() -> None:
    resets = [bounded(partition_of("a,b", index), None, index, Bounds(0, 9)) for index in range(3)]
    text = write_plan(resets)
    assert text == '"a,b",0,0\n"a,b",1,1\n"a,b",2,2\n'
    assert read_plan(text, "g") == {reset.partition: reset.new for reset in resets}


@pytest.mark.parametrize("text", ["t,0,5\n", '"t",0,5', "t, 0, 5\n\n", "g,t,0,5\nother,t,0,7\n"])
def test_rows_of_other_groups_are_ignored(text: str) -> None:
    assert read_plan(text, "g") == {PARTITION: 5}


@pytest.mark.parametrize(
    "heading",
    ["topic,partition,offset", "GROUP,TOPIC,PARTITION,NEW-OFFSET", "Topic, Partition, Offset"],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_heading_is_skipped(heading: str, mark: str) -> None:
    assert read_plan(f"{mark}{heading}\nt,0,5\n", "g") == {PARTITION: 5}


def test_partitions_with_the_same_limit_share_a_note() -> None:
    def reset(topic: str, index: int, requested: int) -> PartitionReset:
        return bounded(partition_of(topic, index), None, requested, Bounds(10, 20))

    assert list(notes([reset("t", 0, 15)])) == []
    assert list(notes([reset("t", 0, 21)])) == ["t:0: 21 is beyond the end; using 20"]
    resets = [
        *(reset("t", 0, 21), reset("t", 2, 21), reset("u", 1, 21)),
        *(reset("t", 3, 3), reset("t", 4, 4)),
    ]
    assert list(notes(resets)) == [
        "t:0,2;u:1: 21 is beyond the end; using the end",
        "t:3,4: the requested offset is before the log start offset; using the log start offset",
    ]
    late = [
        PartitionReset(partition_of("t", index), None, 20, 20, limit=Limit.NO_LATER_RECORD)
        for index in range(2)
    ]
    note = "no record has this timestamp or a later one; using the end"
    assert list(notes(late)) == [f"t:0,1: {note}"]
    assert list(notes(late[:1])) == [f"t:0: {note}"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no offsets for the group 'g'"),
        ("other,t,0,5", "no offsets for the group 'g'"),
        ("t,0,1\nt,1", "line 2: expected topic,partition,offset, not 't,1'"),
        ("topic,partition,offset", "no offsets for the group 'g'"),
        ("t,0,1\ntopic,partition,offset", "line 2: 'partition' is not a partition"),
        ("topic,partition,size", "line 1: 'partition' is not a partition"),
        ("t,0,-1", "line 1: '-1' is not an offset"),
        ("t,0,1.5", "line 1: '1.5' is not an offset"),
        ("t,4294967296,1", "is not a partition"),
        ("t,0,9223372036854775808", "is not an offset"),
        (f"t,0,{'9' * 5_000}", "is not an offset"),
        ("t,0," + "9" * 200_000, "invalid CSV"),
        ("t,0,1\nt,0,2", "line 2: t-0 appears twice"),
    ],
)
def test_invalid_plan_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(InvalidPlan) as raised:
        read_plan(text, "g")
    assert words in str(raised.value)
