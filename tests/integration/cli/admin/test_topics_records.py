"""`sawlog topics records delete` against a running broker: plans, deletions, refusals."""

import pytest

from support.cli.command_line import Sawlog, rows
from support.kafka.shared_brokers import unique

ENDS = [10, 4, 0]


def start_offsets(sawlog: Sawlog, topic: str) -> list[int]:
    (described,) = sawlog.json("topics", "describe", topic)
    return [each["start_offset"] for each in described["partition_list"]]


def delete(sawlog: Sawlog, topic: str, *options: str, code: int = 0) -> str:
    return sawlog("topics", "records", "delete", topic, *options, code=code)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (("--all",), [10, 4, 0]),
        (("--before", "0"), [0, 0, 0]),
        (("--before-time", "1970-01-01T00:00:03.500Z"), [3, 3, 0]),
        (("--before-time", "1970-01-01T00:00:06Z"), [5, 4, 0]),
        (("--before-time", "5m ago"), [10, 4, 0]),
    ],
)
def test_records_before_an_offset_or_a_time_are_deleted(
    sawlog: Sawlog, topic: str, target: tuple[str, ...], expected: list[int]
) -> None:
    table = rows(delete(sawlog, topic, *target))
    assert table == [
        ["topic", "partition", "start", "new", "start", "end", "deleted", "kept"],
        *(
            [topic, str(index), "0", "->", str(new), str(end), str(new), str(end - new)]
            for index, (new, end) in enumerate(zip(expected, ENDS, strict=True))
        ),
    ]
    assert start_offsets(sawlog, topic) == [0, 0, 0]
    delete(sawlog, topic, *target, "--execute")
    assert start_offsets(sawlog, topic) == expected


def test_dry_run_says_how_to_delete(sawlog: Sawlog, topic: str) -> None:
    delete(sawlog, topic, "--all")
    assert "dry run, nothing was deleted; use --execute to delete 14 records" in sawlog.stderr
    delete(sawlog, topic, "--all", "--execute")
    assert f"{topic}: 14 records deleted" in sawlog.stderr
    delete(sawlog, topic, "--all", "--execute")
    assert f"{topic}: there are no records to delete" in sawlog.stderr


def test_partitions_have_offsets_of_their_own(sawlog: Sawlog, topic: str) -> None:
    delete(sawlog, topic, "-p", "0:7", "-p", "1:2", "--execute")
    assert start_offsets(sawlog, topic) == [7, 2, 0]
    delete(sawlog, topic, "--before", "3", "-p", "0", "-p", "1", "--execute")
    assert f"{topic}:0: the records before 3 are deleted already" in sawlog.stderr
    assert start_offsets(sawlog, topic) == [7, 3, 0]


def test_plan_is_printed_as_json(sawlog: Sawlog, topic: str) -> None:
    delete(sawlog, topic, "-p", "0:1", "--execute")
    time = "1970-01-01T00:00:06Z"
    plan = sawlog.json("topics", "records", "delete", topic, "--before-time", time, "-p", "0")
    assert plan == {
        "topic": topic,
        "execute": False,
        "time": "1970-01-01T00:00:06.000Z",
        "deleted": 4,
        "kept": 5,
        "unread_by_group": {},
        "partitions": [
            {
                "partition": 0,
                "start_offset": 1,
                "new_start_offset": 5,
                "end_offset": 10,
                "deleted": 4,
                "kept": 5,
                "note": None,
            }
        ],
    }


def test_groups_that_have_not_read_the_records_are_named(sawlog: Sawlog, topic: str) -> None:
    behind, ahead = unique("behind-"), unique("ahead-")
    sawlog("groups", "reset", behind, "--topic", f"{topic}:0", "--to-offset", "3", "--execute")
    sawlog("groups", "reset", ahead, "--topic", f"{topic}:0", "--to-offset", "8", "--execute")
    delete(sawlog, topic, "-p", "0:8")
    assert f"the group {behind!r} has not read 5 of these records" in sawlog.stderr
    assert ahead not in sawlog.stderr


def test_offset_beyond_the_end_deletes_nothing(sawlog: Sawlog, topic: str) -> None:
    delete(sawlog, topic, "--before", "5", "-p", "0", "-p", "1", "--execute", code=1)
    assert f"{topic}-1 ends at offset 4, before the offset 5" in sawlog.stderr
    assert "nothing was deleted" in sawlog.stderr
    assert start_offsets(sawlog, topic) == [0, 0, 0]


def test_compacted_topic_is_refused(sawlog: Sawlog) -> None:
    name = unique("compacted-")
    sawlog("topics", "create", name, "--config", "cleanup.policy=compact")
    delete(sawlog, name, "--all", "--execute", code=1)
    assert f"{name!r} has cleanup.policy=compact" in sawlog.stderr
    assert "POLICY_VIOLATION" in sawlog.stderr
    sawlog("topics", "alter", name, "--append", "cleanup.policy=delete")
    delete(sawlog, name, "--all", "--execute")
    assert "fewer may be left" in sawlog.stderr


def test_internal_and_unknown_topics_are_refused(sawlog: Sawlog, topic: str) -> None:
    group = unique("group-")
    sawlog("groups", "reset", group, "--topic", topic, "--to-offset", "0", "--execute")
    delete(sawlog, "__consumer_offsets", "--all", code=1)
    assert "is an internal topic" in sawlog.stderr
    delete(sawlog, "nope", "--all", code=1)
    assert "there is no topic 'nope'" in sawlog.stderr
    delete(sawlog, topic, "--all", "-p", "7", code=1)
    assert f"the topic {topic!r} has the partitions 0 to 2, not 7" in sawlog.stderr
