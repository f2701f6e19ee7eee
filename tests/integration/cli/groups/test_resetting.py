"""`sawlog groups reset` against a running broker: what is told, what is set, what is refused."""

import csv
import io
from pathlib import Path

import pytest

from support.cli.command_line import Sawlog, offsets, rows


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (("--to-earliest",), [0, 0, 0]),
        (("--to-latest",), [10, 4, 0]),
        (("--to-offset", "3"), [3, 3, 0]),
        (("--to-time", "1970-01-01T00:00:03.500Z"), [3, 3, 0]),
        (("--to-time", "1970-01-01T00:00:06Z"), [5, 4, 0]),
        (("--to-time", "1970-01-01T00:00:06"), [5, 4, 0]),
        (("--to-time", "5m ago"), [10, 4, 0]),
        (("--to-current",), [2, 2, 0]),
    ],
)
def test_offsets_are_reset_to_a_place(
    sawlog: Sawlog, topic: str, idle: str, target: tuple[str, ...], expected: list[int]
) -> None:
    table = rows(sawlog("groups", "reset", idle, "--topic", topic, *target))
    ends = [10, 4, 0]
    assert table == [
        ["topic", "partition", "old", "new", "lag", "then"],
        *(
            [topic, str(index), old, "->", str(new), str(ends[index] - new)]
            for index, (old, new) in enumerate(zip("22-", expected, strict=True))
        ),
    ]
    assert "nothing was changed; give --execute to do it" in sawlog.told
    assert offsets(sawlog, idle) == {0: 2, 1: 2}
    sawlog("groups", "reset", idle, "--topic", topic, *target, "--execute")
    assert f"{idle}: 3 offsets set" in sawlog.told
    assert offsets(sawlog, idle) == dict(enumerate(expected))


@pytest.mark.parametrize(
    ("by", "expected", "words"),
    [
        ("1", {0: 3, 1: 3}, ""),
        ("-1", {0: 1, 1: 1}, ""),
        ("5", {0: 7, 1: 4}, ":1: 7 lies beyond the end; 4 is taken"),
        ("-5", {0: 0, 1: 0}, ":0,1: -3 lies before the first offset; the first offset is taken"),
    ],
)
def test_offsets_are_shifted_within_the_log(
    sawlog: Sawlog, idle: str, by: str, expected: dict[int, int], words: str
) -> None:
    sawlog("groups", "reset", idle, "--all-topics", "--shift-by", by, "--execute")
    assert words in sawlog.told
    assert offsets(sawlog, idle) == expected


def test_a_plan_is_exported_and_carried_out_later(
    sawlog: Sawlog, topic: str, idle: str, tmp_path: Path
) -> None:
    plan = sawlog("groups", "reset", idle, "--topic", topic, "--to-latest", "--export")
    exported = list(csv.reader(io.StringIO(plan)))
    assert exported == [[topic, "0", "10"], [topic, "1", "4"], [topic, "2", "0"]]
    path = tmp_path / "plan.csv"
    path.write_text(plan)
    sawlog("groups", "reset", idle, "--to-earliest", "--all-topics", "--execute")
    found = sawlog.json("groups", "reset", idle, "--from-file", str(path), "--execute")
    assert found["execute"]
    moved = {"topic": topic, "partition": 0, "old": 0, "new": 10, "lag": 0, "note": None}
    assert found["offsets"][0] == moved
    assert offsets(sawlog, idle) == {0: 10, 1: 4, 2: 0}


def test_a_plan_is_read_from_stdin(
    sawlog: Sawlog, topic: str, idle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = f"topic,partition,offset\n{topic},1,3\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(plan.encode())))
    sawlog("groups", "reset", idle, "--from-file", "-", "--execute")
    assert offsets(sawlog, idle) == {0: 2, 1: 3}


def test_a_reset_by_time_says_which_time_that_is(sawlog: Sawlog, idle: str) -> None:
    wanted = ("--all-topics", "--to-time", "1970-01-01 02:00:03.5+02:00")
    sawlog("groups", "reset", idle, *wanted)
    assert "to the first records of 1970-01-01T00:00:03.500Z or later\n" in sawlog.told
    assert sawlog.json("groups", "reset", idle, *wanted)["time"] == "1970-01-01T00:00:03.500Z"


def test_a_reset_to_what_is_committed_keeps_it_and_takes_the_end_elsewhere(
    sawlog: Sawlog, topic: str, idle: str
) -> None:
    found = sawlog.json("groups", "reset", idle, "--topic", topic, "--to-current")
    assert [(each["old"], each["new"]) for each in found["offsets"]] == [(2, 2), (2, 2), (None, 0)]
    assert f"{topic}:2: no offset is committed; the end is taken" in sawlog.told


def test_a_reset_makes_a_group_that_was_not_there(sawlog: Sawlog, topic: str, group: str) -> None:
    sawlog("groups", "reset", group, "--topic", f"{topic}:0", "--to-latest", "--execute")
    assert "there is no such group yet" in sawlog.told
    assert offsets(sawlog, group) == {0: 10}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--topic", "nope", "--to-latest"), "there is no topic 'nope'"),
        (("--topic", "{topic}:0,3", "--to-latest"), "has the partitions 0 to 2, not 3"),
        (("--topic", "{topic}", "--shift-by", "1"), "-2 has no committed offset to shift"),
    ],
)
def test_a_reset_that_cannot_be_is_refused_as_a_whole(
    sawlog: Sawlog, topic: str, idle: str, arguments: tuple[str, ...], words: str
) -> None:
    filled = [argument.format(topic=topic) for argument in arguments]
    sawlog("groups", "reset", idle, *filled, "--execute", code=1)
    assert words in sawlog.told
    assert sawlog.told.count("\n") == 1
    assert offsets(sawlog, idle) == {0: 2, 1: 2}


def test_to_reset_all_topics_of_a_group_without_offsets_is_refused(
    sawlog: Sawlog, group: str
) -> None:
    sawlog("groups", "reset", group, "--all-topics", "--to-latest", code=1)
    assert "has no committed offsets; name topics with --topic" in sawlog.told
