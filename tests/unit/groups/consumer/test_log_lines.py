"""The log lines of consumer groups: members that join, leave or are removed, and new targets."""

import logging

import pytest

from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from support.groups.consumer_group import SESSION_MS, Consumer, Groups, settle
from support.groups.rolling_members import join, mixed, world

NAMES = ("sawlog.groups.consumer", "sawlog.groups.migration")


class Lines:
    """The captured events of groups, each with one of its fields."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        for name in NAMES:
            caplog.set_level(logging.INFO, name)

    def take(self, field: str) -> list[tuple[str, object]]:
        found = [
            (record.message, record.__dict__["fields"].get(field))
            for record in self._caplog.records
            if record.name.startswith(NAMES)
        ]
        self._caplog.clear()
        return found


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    return Lines(caplog)


def test_a_join_and_its_target_are_logged_and_heartbeats_are_not(lines: Lines) -> None:
    groups = Groups()
    groups.make(t=4)
    first, second = Consumer(groups, "first", "t"), Consumer(groups, "second", "t")
    assert first.join() == 0
    assert lines.take("member") == [("member joins", "first"), ("target assignment computed", None)]
    assert second.join() == 0
    assert lines.take("members") == [("member joins", None), ("target assignment computed", 2)]
    settle([first, second])
    assert lines.take("member") == []
    assert first.join() == 0  # the member restarts with its old id
    assert ("member joins", "first") not in lines.take("member")


def test_a_member_that_leaves_is_logged_with_the_reason(lines: Lines) -> None:
    groups = Groups()
    groups.make(t=4)
    stays = Consumer(groups, "stays", "t")
    leaves = Consumer(groups, "leaves", "t")
    static = Consumer(groups, "static", "t", instance_id="one")
    for each in (stays, leaves, static):
        assert each.join() == 0
    settle([stays, leaves, static])
    lines.take("member")
    assert leaves.leave() == 0
    assert lines.take("member") == [("member leaves", "leaves")]
    assert static.leave(epoch=-2) == 0
    assert lines.take("reason") == [("member leaves", "static member left temporarily")]
    assert stays.beat() == 0
    assert lines.take("members") == [("target assignment computed", 2)]
    groups.pass_time(SESSION_MS + 1_000)
    removed = lines.take("member")
    assert sorted(removed) == [("member removed", "static"), ("member removed", "stays")]


def test_a_member_that_an_admin_removes_is_logged_with_the_reason(lines: Lines) -> None:
    groups = Groups()
    groups.make(t=4)
    assert Consumer(groups, "m", "t").join() == 0
    lines.take("member")
    groups.ask(LeaveGroupRequest("g", members=[MemberIdentity("m", reason="it hangs")]))
    assert lines.take("reason") == [("member leaves", "it hangs")]


def test_a_classic_member_that_joins_a_consumer_group_is_logged(lines: Lines) -> None:
    groups = world()
    mixed(groups)
    lines.take("member")
    member_id = join(groups).member_id
    assert lines.take("member") == []
    assert join(groups, member_id=member_id).error_code == 0
    assert ("member joins", member_id) in lines.take("member")
