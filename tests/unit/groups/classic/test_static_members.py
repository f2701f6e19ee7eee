"""Static members (KIP-345): they come back to what they had, and whoever they were is fenced."""

from typing import Any

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.protocol.codec import encode
from sawlog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from support.groups.classic_group import COMMIT_MS, REBALANCE_MS, SESSION_MS, Asked, ClassicWorld


def static_pair(world: ClassicWorld, **join: Any) -> tuple[str, str]:
    """A stable group of the instances `a`, who leads, and `b`."""
    joins = [world.join(instance=name, **join) for name in "ab"]
    world.pass_ms(COMMIT_MS)
    world.synchronise(joins)
    first, second = (join.response.member_id for join in joins)
    assert (world.group().leader, world.group().state_name) == (first, "Stable")
    return first, second


def come_back(world: ClassicWorld, instance: str, **join: Any) -> Asked:
    asked = world.join(instance=instance, **join)
    world.pass_ms(COMMIT_MS)
    return asked


def test_a_static_member_needs_one_round_and_its_id_tells_its_instance() -> None:
    world = ClassicWorld()
    asked = come_back(world, "a")
    assert asked.code is ErrorCode.NONE
    assert asked.response.member_id.startswith("a-")
    assert world.group().static_ids == {"a": asked.response.member_id}


def test_a_follower_comes_back_without_a_rebalance() -> None:
    world = ClassicWorld()
    first, second = static_pair(world)
    asked = come_back(world, "b")
    answer = asked.response
    assert (answer.generation_id, answer.leader, answer.members) == (1, first, [])
    assert not answer.skip_assignment
    assert answer.member_id != second
    assert world.sync(answer.member_id, 1, instance="b").response.assignment == second.encode()
    assert world.heartbeat(first, 1, instance="a").code is ErrorCode.NONE


def test_a_leader_comes_back_as_leader_and_skips_the_assignment() -> None:
    world = ClassicWorld()
    first, second = static_pair(world)
    answer = come_back(world, "a").response
    assert answer.skip_assignment
    assert answer.leader == answer.member_id != first
    assert {member.member_id for member in answer.members} == {answer.member_id, second}
    assert {member.group_instance_id for member in answer.members} == {"a", "b"}
    assert world.group().leader == answer.member_id


def test_before_version_9_a_leader_is_not_told_that_it_leads() -> None:
    world = ClassicWorld()
    first, _ = static_pair(world, version=8)
    answer = come_back(world, "a", version=8).response
    assert (answer.leader, answer.members, answer.skip_assignment) == (first, [], False)
    assert answer.generation_id == 1
    assert world.group().leader == answer.member_id


def test_whoever_speaks_under_the_old_id_is_fenced() -> None:
    world = ClassicWorld()
    _, second = static_pair(world)
    come_back(world, "b")
    fenced = [
        world.join(second, instance="b"),
        world.sync(second, 1, instance="b"),
        world.heartbeat(second, 1, instance="b"),
    ]
    assert {asked.code for asked in fenced} == {ErrorCode.FENCED_INSTANCE_ID}
    left = world.leave((second, "b")).response.members
    assert [ErrorCode(member.error_code) for member in left] == [ErrorCode.FENCED_INSTANCE_ID]
    assert world.heartbeat(second, 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(Exception, match="FENCED_INSTANCE_ID"):
        world.group().check_commit(second, "b", 1, 9)


def test_an_instance_that_is_not_there_is_unknown() -> None:
    world = ClassicWorld()
    first, _ = static_pair(world)
    assert world.heartbeat(first, 1, instance="c").code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_comes_back_has_time_for_a_session() -> None:
    world = ClassicWorld()
    first, _ = static_pair(world)
    world.pass_ms(SESSION_MS // 2)
    answer = come_back(world, "b", session_ms=6_000).response
    world.heartbeat(first, 1)
    world.pass_ms(6_000 - COMMIT_MS - 1)
    assert world.group().state_name == "Stable"
    world.pass_ms(1)
    assert world.group().state_name == "PreparingRebalance"
    assert answer.member_id not in world.group().members


def test_where_the_protocol_would_change_all_rebalance() -> None:
    world = ClassicWorld()
    both = (("range", b"r"), ("sticky", b"s"))
    first, _ = static_pair(world, protocols=both)
    asked = come_back(world, "b", protocols=(("sticky", b"s"),))
    assert not asked.is_answered
    world.join(first, protocols=both, instance="a")
    assert asked.response.protocol_name == "sticky"
    assert asked.response.generation_id == 2


def test_a_member_that_comes_back_while_all_join_takes_its_place() -> None:
    world = ClassicWorld()
    first, second = static_pair(world)
    world.join(version=3)
    waiting = world.join(second, instance="b")
    asked = come_back(world, "b")
    assert waiting.code is ErrorCode.FENCED_INSTANCE_ID
    assert waiting.response.member_id == second
    world.join(first, instance="a")
    assert asked.response.generation_id == 2
    assert second not in world.group().members


def test_a_member_that_comes_back_while_all_wait_for_assignments_begins_anew() -> None:
    """The leader has assigned to an id that is gone."""
    world = ClassicWorld()
    first, second = static_pair(world)
    world.join(first, instance="a")
    world.join(second, instance="b", protocols=(("range", b"new"),))
    waiting = world.sync(second, 2, instance="b")
    asked = come_back(world, "b")
    assert waiting.code is ErrorCode.FENCED_INSTANCE_ID
    assert not asked.is_answered
    assert world.group().state_name == "PreparingRebalance"
    world.join(first, instance="a")
    assert asked.response.generation_id == 3


def test_a_member_that_comes_back_still_owes_its_sync() -> None:
    world = ClassicWorld()
    joins = [world.join(instance=name) for name in "ab"]
    world.pass_ms(COMMIT_MS)
    leader = joins[0].response
    world.sync(leader.member_id, 1, {})
    world.pass_ms(COMMIT_MS)
    back = come_back(world, "b").response.member_id
    assert world.sync(back, 1, instance="b").code is ErrorCode.NONE
    for _ in range(2 * REBALANCE_MS // SESSION_MS):
        world.pass_ms(SESSION_MS // 2)
        world.heartbeat(leader.member_id, 1)
        world.heartbeat(back, 1)
    assert world.group().state_name == "Stable"


def test_a_static_member_may_be_late_for_a_rebalance() -> None:
    world = ClassicWorld()
    long = {"session_ms": 10 * REBALANCE_MS}
    first, second = static_pair(world, **long)
    again = world.join(first, instance="a", **long)
    world.pass_ms(REBALANCE_MS)
    assert again.response.generation_id == 2
    assert {member.member_id for member in again.response.members} == {first, second}


def test_where_no_static_member_comes_they_are_waited_for_until_their_sessions_end() -> None:
    world = ClassicWorld()
    first, second = static_pair(world, session_ms=4 * REBALANCE_MS)
    world.join(version=3)
    world.leave(*world.group().new_members)
    world.pass_ms(2 * REBALANCE_MS)
    assert world.group().state_name == "PreparingRebalance"
    assert set(world.group().members) == {first, second}
    world.pass_ms(2 * REBALANCE_MS)
    assert world.group().state_name == "Empty"


def test_an_admin_puts_a_member_out_by_its_instance() -> None:
    world = ClassicWorld()
    first, second = static_pair(world)
    answer = world.leave(("", "b"), ("", "c"), ("", None)).response
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in answer.members] == [
        ("", "b", 0),
        ("", "c", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert set(world.group().members) == {first}
    assert world.heartbeat(second, 1, instance="b").code is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_new_id_is_still_known_after_a_restart() -> None:
    world = ClassicWorld()
    _, second = static_pair(world)
    back = come_back(world, "b").response.member_id
    world.restart()
    assert world.heartbeat(back, 1, instance="b").code is ErrorCode.NONE
    assert world.heartbeat(second, 1, instance="b").code is ErrorCode.FENCED_INSTANCE_ID


def test_a_member_that_comes_back_and_does_not_sync_is_out() -> None:
    world = ClassicWorld()
    joins = [world.join(instance=name) for name in "ab"]
    world.pass_ms(COMMIT_MS)
    leader = joins[0].response
    world.sync(leader.member_id, 1, {})
    world.pass_ms(COMMIT_MS)
    back = come_back(world, "b").response.member_id
    for _ in range(2 * REBALANCE_MS // SESSION_MS):
        world.heartbeat(leader.member_id, 1)
        world.heartbeat(back, 1)
        world.pass_ms(SESSION_MS // 2)
    assert set(world.group().members) == {leader.member_id}


def test_a_member_that_comes_back_may_read_other_topics() -> None:
    def reads(topic: str) -> tuple[tuple[str, bytes], ...]:
        said = b"\0\0" + encode(ConsumerProtocolSubscription([topic]), 0)
        return (("range", said),)

    world = ClassicWorld()
    static_pair(world, protocols=reads("old"))
    come_back(world, "b", protocols=reads("new"))
    assert world.group().state_name == "Stable"
    assert [world.group().is_subscribed_to(topic) for topic in ("old", "new")] == [True, True]
    assert not world.group().is_subscribed_to("other")


def test_nobody_is_waited_for_in_a_hurry() -> None:
    """Static members that leave no time to join again, and do not, cost next to nothing."""
    world = ClassicWorld()
    static_pair(world)
    for instance in "ab":
        come_back(world, instance, rebalance_ms=0)
    world.leave(("", "a"))
    assert world.group().state_name == "PreparingRebalance"
    assert world.schedule.run(lambda: world.group().state_name == "Empty", max_steps=100)
