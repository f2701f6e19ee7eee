"""`sawlog groups reset` against a running broker: plans, new offsets, refusals."""

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
def test_offsets_are_reset_to_an_offset_or_a_time(
    sawlog: Sawlog, topic: str, idle: str, target: tuple[str, ...], expected: list[int]
) -> None:
    table = rows(sawlog("groups", "reset", idle, "--topic", topic, *target))
    ends = [10, 4, 0]
    assert table == [
        ["topic", "partition", "old", "new", "new", "lag"],
        *(
            [topic, str(index), old, "->", str(new), str(ends[index] - new)]
            for index, (old, new) in enumerate(zip("22-", expected, strict=True))
        ),
    ]
    assert "dry run, nothing was changed; use --execute" in sawlog.stderr
    assert offsets(sawlog, idle) == {0: 2, 1: 2}
    sawlog("groups", "reset", idle, "--topic", topic, *target, "--execute")
    assert f"{idle}: 3 offsets set" in sawlog.stderr
    assert offsets(sawlog, idle) == dict(enumerate(expected))


@pytest.mark.parametrize(
    ("by", "expected", "words"),
    [
        ("1", {0: 3, 1: 3}, ""),
        ("-1", {0: 1, 1: 1}, ""),
        ("5", {0: 7, 1: 4}, ":1: 7 is beyond the end; using 4"),
        (
            "-5",
            {0: 0, 1: 0},
            ":0,1: -3 is before the log start offset; using the log start offset",
        ),
    ],
)
def test_offsets_are_shifted_within_the_log(
    sawlog: Sawlog, idle: str, by: str, expected: dict[int, int], words: str
) -> None:
    sawlog("groups", "reset", idle, "--all-topics", "--shift-by", by, "--execute")
    assert words in sawlog.stderr
    assert offsets(sawlog, idle) == expected


def test_exported_plan_is_executed_later(
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
    expected = {"topic": topic, "partition": 0, "old": 0, "new": 10, "lag": 0, "note": None}
    assert found["offsets"][0] == expected
    assert offsets(sawlog, idle) == {0: 10, 1: 4, 2: 0}


def test_plan_is_read_from_stdin(
    sawlog: Sawlog, topic: str, idle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = f"topic,partition,offset\n{topic},1,3\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(plan.encode())))
    sawlog("groups", "reset", idle, "--from-file", "-", "--execute")
    assert offsets(sawlog, idle) == {0: 2, 1: 3}


def test_reset_by_time_prints_the_time_in_utc(sawlog: Sawlog, idle: str) -> None:
    options = ("--all-topics", "--to-time", "1970-01-01 02:00:03.5+02:00")
    sawlog("groups", "reset", idle, *options)
    assert (
        "to the first records with timestamp 1970-01-01T00:00:03.500Z or later\n" in sawlog.stderr
    )
    assert sawlog.json("groups", "reset", idle, *options)["time"] == "1970-01-01T00:00:03.500Z"


def test_to_current_keeps_committed_offsets_and_uses_the_end_elsewhere(
    sawlog: Sawlog, topic: str, idle: str
) -> None:
    found = sawlog.json("groups", "reset", idle, "--topic", topic, "--to-current")
    assert [(each["old"], each["new"]) for each in found["offsets"]] == [(2, 2), (2, 2), (None, 0)]
    assert f"{topic}:2: no offset is committed; using the end" in sawlog.stderr


def test_reset_creates_a_missing_group(sawlog: Sawlog, topic: str, group: str) -> None:
    sawlog("groups", "reset", group, "--topic", f"{topic}:0", "--to-latest", "--execute")
    assert "the group does not exist yet" in sawlog.stderr
    assert offsets(sawlog, group) == {0: 10}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--topic", "nope", "--to-latest"), "there is no topic 'nope'"),
        (("--topic", "{topic}:0,3", "--to-latest"), "has the partitions 0 to 2, not 3"),
        (("--topic", "{topic}", "--shift-by", "1"), "-2 has no committed offset to shift"),
    ],
)
def test_impossible_reset_changes_no_offset(
    sawlog: Sawlog, topic: str, idle: str, arguments: tuple[str, ...], words: str
) -> None:
    filled = [argument.format(topic=topic) for argument in arguments]
    sawlog("groups", "reset", idle, *filled, "--execute", code=1)
    assert words in sawlog.stderr
    assert sawlog.stderr.count("\n") == 1
    assert offsets(sawlog, idle) == {0: 2, 1: 2}


def test_reset_of_all_topics_without_committed_offsets_is_refused(
    sawlog: Sawlog, group: str
) -> None:
    sawlog("groups", "reset", group, "--all-topics", "--to-latest", code=1)
    assert "has no committed offsets; choose topics with --topic" in sawlog.stderr
