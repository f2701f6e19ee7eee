"""`sawlog groups delete`, `delete-offsets` and `remove-member` against a running broker."""

import pytest

from support.cli.command_line import Sawlog, members, offsets
from support.client.group_members import ClassicMember, ConsumerMember


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_with_members_is_not_changed_and_its_members_are_named(
    sawlog: Sawlog, bootstrap: str, topic: str, idle: str, protocol: str
) -> None:
    member = (
        ClassicMember(bootstrap, idle, {topic: [0]}, client_id="a-reader")
        if protocol == "classic"
        else ConsumerMember(bootstrap, idle, [topic], client_id="a-reader")
    )
    with member:
        for execute in ((), ("--execute",)):
            sawlog("groups", "reset", idle, "--all-topics", "--to-earliest", *execute, code=1)
            assert f"has 1 member: a-reader at 127.0.0.1 ({member.id})" in sawlog.stderr
            assert "their commits would undo the reset, so stop it first" in sawlog.stderr
            assert "(NON_EMPTY_GROUP)" in sawlog.stderr
        sawlog("groups", "delete", idle, code=1)
        assert f"has 1 member: a-reader at 127.0.0.1 ({member.id}); stop it" in sawlog.stderr
        assert sawlog.stderr.count("\n") == 1
        sawlog("groups", "delete-offsets", idle, "--topic", topic, code=1)
        assert f"sawlog: {topic}:0,1: members of the group read the topic" in sawlog.stderr
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in sawlog.stderr
        exported = sawlog("groups", "reset", idle, "--all-topics", "--to-earliest", "--export")
        assert (exported, sawlog.stderr) == (f"{topic},0,0\n{topic},1,0\n", "")
        sawlog(
            "groups", "reset", idle, "--all-topics", "--to-latest", "--export", "--execute", code=1
        )
    assert offsets(sawlog, idle) == {0: 2, 1: 2}


def test_groups_are_deleted(sawlog: Sawlog, idle: str) -> None:
    sawlog("groups", "delete", idle, "nope", code=1)
    assert f"{idle}: deleted" in sawlog.stderr
    assert "there is no group 'nope'" in sawlog.stderr
    assert idle not in sawlog("groups", "list")
    sawlog("groups", "delete", idle, "--if-exists")


def test_offsets_are_deleted(sawlog: Sawlog, topic: str, idle: str) -> None:
    sawlog("groups", "delete-offsets", idle, "--topic", f"{topic}:1")
    assert f"{idle}: 1 offset deleted" in sawlog.stderr
    assert offsets(sawlog, idle) == {0: 2}
    sawlog("groups", "delete-offsets", idle, "--topic", f"{topic}:1", code=1)
    assert f"has no committed offsets for {topic}:1; nothing was deleted" in sawlog.stderr
    sawlog("groups", "reset", idle, "--topic", f"{topic}:2", "--to-latest", "--execute")
    sawlog("groups", "delete-offsets", idle, "--topic", f"{topic}:0,1,99", "--topic", "nope")
    assert f"{idle}: 1 offset deleted\n" in sawlog.stderr
    assert f"{idle}: no committed offsets for nope;{topic}:1,99\n" in sawlog.stderr
    assert offsets(sawlog, idle) == {2: 0}
    sawlog("groups", "delete-offsets", idle, "--topic", topic)
    assert sawlog.stderr == f"{idle}: 1 offset deleted\n"


@pytest.mark.parametrize(
    ("name", "scope", "words"),
    [
        ("nope", "{topic}", "there is no group 'nope'"),
        ("{idle}", "nope", "there is no topic 'nope'"),
        ("{idle}", "no way", "no way"),
        ("{idle}", "{topic}:99", "has the partitions 0 to 2, not 99"),
        ("{idle}", "{topic}:2", "has no committed offsets for {topic}:2"),
    ],
)
def test_deleting_missing_offsets_is_refused(
    sawlog: Sawlog, topic: str, idle: str, name: str, scope: str, words: str
) -> None:
    names = {"topic": topic, "idle": idle}
    arguments = (name.format(**names), "--topic", scope.format(**names))
    sawlog("groups", "delete-offsets", *arguments, code=1)
    assert words.format(**names) in sawlog.stderr
    assert sawlog.stderr.count("\n") == 1
    assert offsets(sawlog, idle) == {0: 2, 1: 2}


@pytest.mark.parametrize("instance", [None, "one"])
@pytest.mark.parametrize("by", ["id", "instance", "all"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_removed(
    sawlog: Sawlog,
    bootstrap: str,
    topic: str,
    idle: str,
    protocol: str,
    by: str,
    instance: str | None,
) -> None:
    member = (
        ClassicMember(bootstrap, idle, {topic: [0]}, instance_id=instance)
        if protocol == "classic"
        else ConsumerMember(bootstrap, idle, [topic], instance_id=instance)
    )
    with member.cluster:
        if by == "instance":
            sawlog("groups", "remove-member", idle, "--instance", "other", code=1)
            assert "0 members removed" in sawlog.stderr
            assert "the group has no instance 'other'" in sawlog.stderr
            assert "UNKNOWN_MEMBER_ID" in sawlog.stderr
            assert members(sawlog, idle) == [member.id]
            if instance is None:
                return
        options = {"id": (member.id,), "instance": ("--instance", "one"), "all": ("--all",)}[by]
        sawlog("groups", "remove-member", idle, *options, "--reason", "it hangs")
        assert sawlog.stderr == f"{idle}: 1 member removed\n"
        assert members(sawlog, idle) == []
        sawlog("groups", "delete", idle)


def test_unknown_members_are_reported_after_the_others_are_removed(
    sawlog: Sawlog, bootstrap: str, topic: str, idle: str
) -> None:
    with ConsumerMember(bootstrap, idle, [topic]).cluster:
        (member,) = members(sawlog, idle)
        sawlog("groups", "remove-member", idle, "unknown", member, code=1)
        assert (
            f"{idle}: 1 member removed\nsawlog: the group has no member 'unknown'" in sawlog.stderr
        )
        assert members(sawlog, idle) == []
    sawlog("groups", "remove-member", idle, "--all")
    assert sawlog.stderr == f"{idle}: 0 members removed\n"
    sawlog("groups", "remove-member", "nope", "--all", code=1)
    assert "there is no group 'nope'" in sawlog.stderr
