"""What an operator reads of a group of the consumer protocol: who comes, who goes, new targets."""

import logging

import pytest

from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from support.groups.consumer_group import SESSION_MS, Consumer, Groups, settle
from support.groups.rolling_members import join, mixed, world

NAMES = ("sawlog.groups.consumer", "sawlog.groups.migration")


class Lines:
    """The events of groups, with one of their fields; emptied when told."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        for name in NAMES:
            caplog.set_level(logging.INFO, name)

    def taken(self, field: str) -> list[tuple[str, object]]:
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


def test_a_join_and_its_target_are_a_line_each_and_heartbeats_none(lines: Lines) -> None:
    groups = Groups()
    groups.make(t=4)
    first, second = Consumer(groups, "first", "t"), Consumer(groups, "second", "t")
    assert first.join() == 0
    assert lines.taken("member") == [("member joins", "first"), ("target begins", None)]
    assert second.join() == 0
    assert lines.taken("members") == [("member joins", None), ("target begins", 2)]
    settle([first, second])
    assert lines.taken("member") == []
    assert first.join() == 0  # it begins anew, and is known
    assert ("member joins", "first") not in lines.taken("member")


def test_who_leaves_is_told_with_the_reason(lines: Lines) -> None:
    groups = Groups()
    groups.make(t=4)
    stays = Consumer(groups, "stays", "t")
    leaves = Consumer(groups, "leaves", "t")
    static = Consumer(groups, "static", "t", instance_id="one")
    for each in (stays, leaves, static):
        assert each.join() == 0
    settle([stays, leaves, static])
    lines.taken("member")
    assert leaves.leave() == 0
    assert lines.taken("member") == [("member leaves", "leaves")]
    assert static.leave(epoch=-2) == 0
    assert lines.taken("reason") == [("member leaves", "its instance will be back")]
    assert stays.beat() == 0
    assert lines.taken("members") == [("target begins", 2)]
    groups.pass_time(SESSION_MS + 1_000)
    put_out = lines.taken("member")
    assert sorted(put_out) == [("member put out", "static"), ("member put out", "stays")]


def test_whom_an_admin_puts_out_is_told_with_his_reason(lines: Lines) -> None:
    groups = Groups()
    groups.make(t=4)
    assert Consumer(groups, "m", "t").join() == 0
    lines.taken("member")
    groups.ask(LeaveGroupRequest("g", members=[MemberIdentity("m", reason="it hangs")]))
    assert lines.taken("reason") == [("member leaves", "it hangs")]


def test_a_guest_of_the_classic_protocol_is_told_too(lines: Lines) -> None:
    groups = world()
    mixed(groups)
    lines.taken("member")
    member_id = join(groups).member_id
    assert lines.taken("member") == []
    assert join(groups, member_id=member_id).error_code == 0
    assert ("member joins", member_id) in lines.taken("member")
