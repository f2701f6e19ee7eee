"""Static members (KIP-345) of consumer groups keep their partitions while they are away."""

from sawlog.core.errors import ErrorCode
from support.groups.consumer_group import SESSION_MS, Consumer, Groups, settle, shares

STATIC_LEAVE = -2


def two_members(groups: Groups) -> tuple[Consumer, Consumer]:
    groups.make(t=2)
    a, b = Consumer(groups, "a", "t", instance_id="i"), Consumer(groups, "b", "t")
    a.join()
    b.join()
    settle([a, b])
    return a, b


def test_a_static_member_that_rejoins_with_a_new_id_keeps_its_partitions() -> None:
    groups = Groups()
    a, b = two_members(groups)
    had, epoch = shares(a, b), groups.group().epoch
    assert a.leave(STATIC_LEAVE) == 0
    b.beat()
    assert shares(b) == had[1:], "its partition waits for it"
    replacement = Consumer(groups, "replacement", "t", instance_id="i")
    assert replacement.join() == 0
    assert shares(replacement, b) == had
    assert groups.group().epoch == epoch, "no member had to move"
    assert [member.member_id for member in groups.describe().members].count("a") == 0


def test_a_static_member_may_rejoin_with_the_same_id() -> None:
    groups = Groups()
    a, b = two_members(groups)
    had = shares(a, b)
    a.leave(STATIC_LEAVE)
    assert a.join() == 0
    assert shares(a, b) == had
    groups.pass_time(SESSION_MS - 1)
    assert a.beat() == 0


def test_a_static_member_that_does_not_rejoin_in_time_is_removed() -> None:
    groups = Groups()
    a, b = two_members(groups)
    a.leave(STATIC_LEAVE)
    groups.pass_time(SESSION_MS - 1_000)
    b.beat()
    groups.pass_time(1_000)
    b.beat()
    assert len(b.reads) == 2
    assert [member.member_id for member in groups.describe().members] == ["b"]


def test_a_static_member_that_leaves_permanently_frees_its_partitions() -> None:
    groups = Groups()
    a, b = two_members(groups)
    assert a.leave(-1) == 0
    b.beat()
    assert len(b.reads) == 2


def test_an_instance_id_in_use_is_unreleased() -> None:
    groups = Groups()
    two_members(groups)
    for name in ("thief", "a"):
        answer = groups.join(name, "t", instance_id="i")
        assert answer.error_code == ErrorCode.UNRELEASED_INSTANCE_ID, name


def test_a_replaced_static_member_is_fenced() -> None:
    groups = Groups()
    a, _ = two_members(groups)
    epoch = a.epoch
    a.leave(STATIC_LEAVE)
    assert Consumer(groups, "replacement", "t", instance_id="i").join() == 0
    for sent in (epoch, -1, STATIC_LEAVE):
        answer = groups.heartbeat(member_id="a", instance_id="i", member_epoch=sent)
        assert answer.error_code == ErrorCode.FENCED_INSTANCE_ID, sent
    unknown = groups.heartbeat(member_id="a", member_epoch=epoch)
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unknown_instance_id_is_refused() -> None:
    groups = Groups()
    two_members(groups)
    for sent in (1, -1, STATIC_LEAVE):
        answer = groups.heartbeat(member_id="a", instance_id="j", member_epoch=sent)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_left_temporarily_cannot_send_heartbeats() -> None:
    groups = Groups()
    a, _ = two_members(groups)
    epoch = a.epoch
    a.leave(STATIC_LEAVE)
    answer = groups.heartbeat(member_id="a", instance_id="i", member_epoch=epoch)
    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_static_member_may_rejoin_with_another_subscription() -> None:
    groups = Groups()
    a, b = two_members(groups)
    groups.make(u=1)
    a.leave(STATIC_LEAVE)
    replacement = Consumer(groups, "replacement", "u", instance_id="i")
    replacement.join()
    settle([replacement, b])
    assert shares(replacement, b) == [[("u", 0)], [("t", 0), ("t", 1)]]


def test_partitions_to_revoke_are_free_when_a_static_member_leaves_temporarily() -> None:
    groups = Groups()
    groups.make(t=2)
    a, b = Consumer(groups, "a", "t", instance_id="i"), Consumer(groups, "b", "t")
    a.join()
    b.join()
    a.beat()
    assert len(a.reads) == 1
    a.leave(STATIC_LEAVE)
    b.beat()
    assert len(b.reads) == 1
    replacement = Consumer(groups, "replacement", "t", instance_id="i")
    replacement.join()
    settle([replacement, b])
    assert sorted(map(len, shares(replacement, b))) == [1, 1]


def test_a_temporary_leave_survives_a_restart() -> None:
    groups = Groups()
    a, b = two_members(groups)
    had = shares(a, b)
    a.leave(STATIC_LEAVE)
    groups.restart()
    replacement = Consumer(groups, "replacement", "t", instance_id="i")
    assert replacement.join() == 0
    assert shares(replacement, b) == had
