"""Static members (KIP-345): an instance that goes and comes back finds its place kept."""

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


def test_a_static_member_that_returns_under_a_new_id_has_what_it_had() -> None:
    groups = Groups()
    a, b = two_members(groups)
    had, epoch = shares(a, b), groups.group().epoch
    assert a.leave(STATIC_LEAVE) == 0
    b.beat()
    assert shares(b) == had[1:], "its partition waits for it"
    heir = Consumer(groups, "heir", "t", instance_id="i")
    assert heir.join() == 0
    assert shares(heir, b) == had
    assert groups.group().epoch == epoch, "nobody had to move"
    assert [member.member_id for member in groups.describe().members].count("a") == 0


def test_a_static_member_may_return_under_the_same_id() -> None:
    groups = Groups()
    a, b = two_members(groups)
    had = shares(a, b)
    a.leave(STATIC_LEAVE)
    assert a.join() == 0
    assert shares(a, b) == had
    groups.pass_time(SESSION_MS - 1)
    assert a.beat() == 0


def test_a_static_member_that_does_not_return_in_time_is_out() -> None:
    groups = Groups()
    a, b = two_members(groups)
    a.leave(STATIC_LEAVE)
    groups.pass_time(SESSION_MS - 1_000)
    b.beat()
    groups.pass_time(1_000)
    b.beat()
    assert len(b.reads) == 2
    assert [member.member_id for member in groups.describe().members] == ["b"]


def test_a_static_member_that_leaves_for_good_frees_its_partitions() -> None:
    groups = Groups()
    a, b = two_members(groups)
    assert a.leave(-1) == 0
    b.beat()
    assert len(b.reads) == 2


def test_a_second_member_of_the_same_instance_must_wait_until_the_first_has_left() -> None:
    groups = Groups()
    two_members(groups)
    for name in ("thief", "a"):
        answer = groups.join(name, "t", instance_id="i")
        assert answer.error_code == ErrorCode.UNRELEASED_INSTANCE_ID, name


def test_who_was_replaced_is_fenced() -> None:
    groups = Groups()
    a, _ = two_members(groups)
    epoch = a.epoch
    a.leave(STATIC_LEAVE)
    assert Consumer(groups, "heir", "t", instance_id="i").join() == 0
    for sent in (epoch, -1, STATIC_LEAVE):
        answer = groups.heartbeat(member_id="a", instance_id="i", member_epoch=sent)
        assert answer.error_code == ErrorCode.FENCED_INSTANCE_ID, sent
    unknown = groups.heartbeat(member_id="a", member_epoch=epoch)
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_that_nobody_knows_is_told_so() -> None:
    groups = Groups()
    two_members(groups)
    for sent in (1, -1, STATIC_LEAVE):
        answer = groups.heartbeat(member_id="a", instance_id="j", member_epoch=sent)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_left_for_a_while_cannot_go_on_as_if_it_had_not() -> None:
    groups = Groups()
    a, _ = two_members(groups)
    epoch = a.epoch
    a.leave(STATIC_LEAVE)
    answer = groups.heartbeat(member_id="a", instance_id="i", member_epoch=epoch)
    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_static_member_that_returns_with_another_subscription_is_given_other_partitions() -> None:
    groups = Groups()
    a, b = two_members(groups)
    groups.make(u=1)
    a.leave(STATIC_LEAVE)
    heir = Consumer(groups, "heir", "u", instance_id="i")
    heir.join()
    settle([heir, b])
    assert shares(heir, b) == [[("u", 0)], [("t", 0), ("t", 1)]]


def test_what_a_static_member_had_to_give_up_is_free_when_it_leaves() -> None:
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
    heir = Consumer(groups, "heir", "t", instance_id="i")
    heir.join()
    settle([heir, b])
    assert sorted(map(len, shares(heir, b))) == [1, 1]


def test_a_static_member_that_is_away_is_still_away_after_a_restart() -> None:
    groups = Groups()
    a, b = two_members(groups)
    had = shares(a, b)
    a.leave(STATIC_LEAVE)
    groups.restart()
    heir = Consumer(groups, "heir", "t", instance_id="i")
    assert heir.join() == 0
    assert shares(heir, b) == had
