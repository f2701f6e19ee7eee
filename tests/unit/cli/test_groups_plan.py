"""Plans of a reset: kept within the log, read from files and written to them."""

import pytest

from sawlog.cli.groups_plan import (
    BadPlan,
    Bounds,
    Limit,
    Move,
    bounded,
    notes,
    read_plan,
    write_plan,
)
from sawlog.client.net.leader_requests import partition_of

HERE = partition_of("t", 0)


@pytest.mark.parametrize(
    ("wanted", "taken", "words"),
    [
        (10, 10, ""),
        (15, 15, ""),
        (20, 20, ""),
        (21, 20, "21 lies beyond the end; 20 is taken"),
        (9, 10, "9 lies before the first offset; 10 is taken"),
        (-3, 10, "-3 lies before the first offset; 10 is taken"),
    ],
)
def test_an_offset_is_kept_within_the_log(wanted: int, taken: int, words: str) -> None:
    move = bounded(HERE, 12, wanted, Bounds(10, 20))
    assert (move.old, move.new, move.end, move.note) == (12, taken, 20, words)


def test_what_is_written_is_read_back() -> None:
    moves = [bounded(partition_of("a,b", index), None, index, Bounds(0, 9)) for index in range(3)]
    text = write_plan(moves)
    assert text == '"a,b",0,0\n"a,b",1,1\n"a,b",2,2\n'
    assert read_plan(text, "g") == {move.partition: move.new for move in moves}


@pytest.mark.parametrize("text", ["t,0,5\n", '"t",0,5', "t, 0, 5\n\n", "g,t,0,5\nother,t,0,7\n"])
def test_a_plan_may_name_its_group(text: str) -> None:
    assert read_plan(text, "g") == {HERE: 5}


@pytest.mark.parametrize(
    "heading",
    ["topic,partition,offset", "GROUP,TOPIC,PARTITION,NEW-OFFSET", "Topic, Partition, Offset"],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_line_of_headings_is_passed_over(heading: str, mark: str) -> None:
    assert read_plan(f"{mark}{heading}\nt,0,5\n", "g") == {HERE: 5}


def test_partitions_that_have_the_same_to_say_share_a_line() -> None:
    def to(topic: str, index: int, wanted: int) -> Move:
        return bounded(partition_of(topic, index), None, wanted, Bounds(10, 20))

    assert list(notes([to("t", 0, 15)])) == []
    assert list(notes([to("t", 0, 21)])) == ["t:0: 21 lies beyond the end; 20 is taken"]
    moves = [to("t", 0, 21), to("t", 2, 21), to("u", 1, 21), to("t", 3, 3), to("t", 4, 4)]
    assert list(notes(moves)) == [
        "t:0,2;u:1: 21 lies beyond the end; the end is taken",
        "t:3,4: what is wanted lies before the first offset; the first offset is taken",
    ]
    late = [Move(partition_of("t", index), None, 20, 20, limit=Limit.LATE) for index in range(2)]
    assert list(notes(late)) == ["t:0,1: no record is that late; the end is taken"]
    assert list(notes(late[:1])) == ["t:0: no record is that late; the end is taken"]


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
        ("t,0," + "9" * 200_000, "no CSV"),
        ("t,0,1\nt,0,2", "line 2: t-0 has an offset already"),
    ],
)
def test_what_is_no_plan_is_told_with_its_line(text: str, words: str) -> None:
    with pytest.raises(BadPlan) as raised:
        read_plan(text, "g")
    assert words in str(raised.value)
