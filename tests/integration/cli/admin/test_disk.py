"""`sawlog disk` against a running broker, as text, as JSON and on a terminal."""

from pathlib import Path
from typing import Any

from support.cli.command_line import Sawlog, rows
from support.cli.terminal import terminal


def directory(found: dict[str, Any]) -> dict[str, Any]:
    (only,) = found["directories"]
    return dict(only)


def file_sizes(path: str, topic: str) -> dict[int, int]:
    return {
        index: sum(file.stat().st_size for file in Path(path, f"{topic}-{index}").glob("*.log"))
        for index in range(3)
    }


def test_sizes_are_those_of_the_segment_files(sawlog: Sawlog, topic: str) -> None:
    found = sawlog.json("disk", "--topic", topic, "--partitions")
    where = directory(found)
    expected = file_sizes(where["path"], topic)
    assert expected[0] > expected[1] > expected[2] == 0
    assert [(each["partition"], each["size_bytes"]) for each in found["replicas"]] == [
        *expected.items()
    ]
    assert found["size_bytes"] == sum(expected.values())
    assert 0 < where["free_bytes"] < where["total_bytes"]
    assert where["used_bytes"] == where["total_bytes"] - where["free_bytes"]


def test_topics_are_sorted_by_size_with_a_total(sawlog: Sawlog, topic: str) -> None:
    heading, where, _, columns, *topics, total = rows(sawlog("disk"))
    assert heading == ["broker", "directory", "total", "used", "free", "logs"]
    assert columns == ["topic", "partitions", "size", "share", "of", "disk"]
    sizes = [int(row[2]) for row in topics]
    assert sizes == sorted(sizes, reverse=True)
    assert topic in [row[0] for row in topics]
    assert total[:4] == ["total", str(sum(int(row[1]) for row in topics)), where[-1], "100.0%"]
    assert int(where[-1]) == sum(sizes)


def test_one_topic_and_some_of_its_partitions(sawlog: Sawlog, topic: str) -> None:
    *_, first, total = rows(sawlog("disk", "--topic", f"{topic}:1", "-p"))
    assert first[:2] == [topic, "1"]
    assert total[2] == first[2]
    sawlog("disk", "--topic", f"{topic}:3", code=1)
    assert f"the topic {topic!r} has the partitions 0 to 2, not 3" in sawlog.stderr
    sawlog("disk", "--topic", "nope", code=1)
    assert "there is no topic 'nope'" in sawlog.stderr


def test_terminal_shows_bars(sawlog: Sawlog, bootstrap: str, topic: str) -> None:
    sizes = sawlog.json("disk", "--topic", topic, "-p")["replicas"]
    with terminal("disk", "--topic", topic, "-p", bootstrap=bootstrap) as screen:
        assert screen.end() == 0
    shown = screen.shown.decode()
    assert "% of " in shown
    assert " free, logs " in shown
    bars = [line.count("\u2588") for line in shown.splitlines() if topic in line]
    assert bars[0] > bars[1] > bars[2] == 0
    assert abs(bars[1] / bars[0] - sizes[1]["size_bytes"] / sizes[0]["size_bytes"]) < 0.2
