"""Static members (KIP-345): they rejoin with their assignments, and their old ids are fenced."""

from typing import Any

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.protocol.codec import encode
from sawlog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from support.groups.classic_group import COMMIT_MS, REBALANCE_MS, SESSION_MS, Asked, ClassicWorld


def static_pair(world: ClassicWorld, **join: Any) -> tuple[str, str]:
    """Create a stable group of the instances `a`, the leader, and `b`."""
    joins = [world.join(instance=name, **join) for name in "ab"]
    world.pass_ms(COMMIT_MS)
    world.synchronise(joins)
    first, second = (join.response.member_id for join in joins)
    assert (world.group().leader, world.group().state_name) == (first, "Stable")
    return first, second


def rejoin(world: ClassicWorld, instance: str, **join: Any) -> Asked:
    asked = world.join(instance=instance, **join)
    world.pass_ms(COMMIT_MS)
    return asked


def test_a_static_member_joins_with_one_request_and_an_id_from_its_instance() -> None:
    world = ClassicWorld()
    asked = rejoin(world, "a")
    assert asked.code is ErrorCode.NONE
    assert asked.response.member_id.startswith("a-")
    assert world.group().static_ids == {"a": asked.response.member_id}


def test_a_static_follower_rejoins_without_a_rebalance() -> None:
    world = ClassicWorld()
    first, second = static_pair(world)
    asked = rejoin(world, "b")
    answer = asked.response
    assert (answer.generation_id, answer.leader, answer.members) == (1, first, [])
    assert not answer.skip_assignment
    assert answer.member_id != second
    assert world.sync(answer.member_id, 1, instance="b").response.assignment == second.encode()
    assert world.heartbeat(first, 1, instance="a").code is ErrorCode.NONE


def test_a_static_leader_rejoins_as_leader_and_skips_the_assignment() -> None:
    world = ClassicWorld()
    first, second = static_pair(world)
    answer = rejoin(world, "a").response
    assert answer.skip_assignment
    assert answer.leader == answer.member_id != first
    assert {member.member_id for member in answer.members} == {answer.member_id, second}
    assert {member.group_instance_id for member in answer.members} == {"a", "b"}
    assert world.group().leader == answer.member_id


def test_before_version_9_a_static_leader_that_rejoins_is_not_named_as_leader() -> None:
    world = ClassicWorld()
    first, _ = static_pair(world, version=8)
    answer = rejoin(world, "a", version=8).response
    assert (answer.leader, answer.members, answer.skip_assignment) == (first, [], False)
    assert answer.generation_id == 1
    assert world.group().leader == answer.member_id


def test_requests_with_the_old_member_id_are_fenced() -> None:
    world = ClassicWorld()
    _, second = static_pair(world)
    rejoin(world, "b")
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


def test_an_unknown_instance_id_is_refused() -> None:
    world = ClassicWorld()
    first, _ = static_pair(world)
    assert world.heartbeat(first, 1, instance="c").code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_rejoins_starts_a_new_session() -> None:
    world = ClassicWorld()
    first, _ = static_pair(world)
    world.pass_ms(SESSION_MS // 2)
    answer = rejoin(world, "b", session_ms=6_000).response
    world.heartbeat(first, 1)
    world.pass_ms(6_000 - COMMIT_MS - 1)
    assert world.group().state_name == "Stable"
    world.pass_ms(1)
    assert world.group().state_name == "PreparingRebalance"
    assert answer.member_id not in world.group().members


def test_a_rejoin_that_changes_the_protocol_causes_a_rebalance() -> None:
    world = ClassicWorld()
    both = (("range", b"r"), ("sticky", b"s"))
    first, _ = static_pair(world, protocols=both)
    asked = rejoin(world, "b", protocols=(("sticky", b"s"),))
    assert not asked.is_answered
    world.join(first, protocols=both, instance="a")
    assert asked.response.protocol_name == "sticky"
    assert asked.response.generation_id == 2


def test_a_static_member_may_rejoin_during_a_rebalance() -> None:
    world = ClassicWorld()
    first, second = static_pair(world)
    world.join(version=3)
    waiting = world.join(second, instance="b")
    asked = rejoin(world, "b")
    assert waiting.code is ErrorCode.FENCED_INSTANCE_ID
    assert waiting.response.member_id == second
    world.join(first, instance="a")
    assert asked.response.generation_id == 2
    assert second not in world.group().members


def test_a_static_rejoin_before_the_assignment_causes_a_rebalance() -> None:
    """The leader would assign to an id that no longer exists."""
    world = ClassicWorld()
    first, second = static_pair(world)
    world.join(first, instance="a")
    world.join(second, instance="b", protocols=(("range", b"new"),))
    waiting = world.sync(second, 2, instance="b")
    asked = rejoin(world, "b")
    assert waiting.code is ErrorCode.FENCED_INSTANCE_ID
    assert not asked.is_answered
    assert world.group().state_name == "PreparingRebalance"
    world.join(first, instance="a")
    assert asked.response.generation_id == 3


def test_a_static_member_that_rejoins_is_still_unsynced() -> None:
    world = ClassicWorld()
    joins = [world.join(instance=name) for name in "ab"]
    world.pass_ms(COMMIT_MS)
    leader = joins[0].response
    world.sync(leader.member_id, 1, {})
    world.pass_ms(COMMIT_MS)
    back = rejoin(world, "b").response.member_id
    assert world.sync(back, 1, instance="b").code is ErrorCode.NONE
    for _ in range(2 * REBALANCE_MS // SESSION_MS):
        world.pass_ms(SESSION_MS // 2)
        world.heartbeat(leader.member_id, 1)
        world.heartbeat(back, 1)
    assert world.group().state_name == "Stable"


def test_a_rebalance_completes_without_a_late_static_member() -> None:
    world = ClassicWorld()
    long = {"session_ms": 10 * REBALANCE_MS}
    first, second = static_pair(world, **long)
    again = world.join(first, instance="a", **long)
    world.pass_ms(REBALANCE_MS)
    assert again.response.generation_id == 2
    assert {member.member_id for member in again.response.members} == {first, second}


def test_a_rebalance_waits_for_static_members_until_their_sessions_end() -> None:
    world = ClassicWorld()
    first, second = static_pair(world, session_ms=4 * REBALANCE_MS)
    world.join(version=3)
    world.leave(*world.group().new_members)
    world.pass_ms(2 * REBALANCE_MS)
    assert world.group().state_name == "PreparingRebalance"
    assert set(world.group().members) == {first, second}
    world.pass_ms(2 * REBALANCE_MS)
    assert world.group().state_name == "Empty"


def test_an_admin_removes_a_member_by_its_instance_id() -> None:
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


def test_the_new_member_id_survives_a_restart() -> None:
    world = ClassicWorld()
    _, second = static_pair(world)
    back = rejoin(world, "b").response.member_id
    world.restart()
    assert world.heartbeat(back, 1, instance="b").code is ErrorCode.NONE
    assert world.heartbeat(second, 1, instance="b").code is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_rejoins_and_does_not_sync_is_removed() -> None:
    world = ClassicWorld()
    joins = [world.join(instance=name) for name in "ab"]
    world.pass_ms(COMMIT_MS)
    leader = joins[0].response
    world.sync(leader.member_id, 1, {})
    world.pass_ms(COMMIT_MS)
    back = rejoin(world, "b").response.member_id
    for _ in range(2 * REBALANCE_MS // SESSION_MS):
        world.heartbeat(leader.member_id, 1)
        world.heartbeat(back, 1)
        world.pass_ms(SESSION_MS // 2)
    assert set(world.group().members) == {leader.member_id}


def test_a_static_member_may_rejoin_with_another_subscription() -> None:
    def reads(topic: str) -> tuple[tuple[str, bytes], ...]:
        said = b"\0\0" + encode(ConsumerProtocolSubscription([topic]), 0)
        return (("range", said),)

    world = ClassicWorld()
    static_pair(world, protocols=reads("old"))
    rejoin(world, "b", protocols=reads("new"))
    assert world.group().state_name == "Stable"
    assert [world.group().is_subscribed_to(topic) for topic in ("old", "new")] == [True, True]
    assert not world.group().is_subscribed_to("other")


def test_static_members_with_a_zero_rebalance_timeout_cause_no_busy_loop() -> None:
    """The coordinator waits at least MIN_JOIN_TIMEOUT_MS between two checks."""
    world = ClassicWorld()
    static_pair(world)
    for instance in "ab":
        rejoin(world, instance, rebalance_ms=0)
    world.leave(("", "a"))
    assert world.group().state_name == "PreparingRebalance"
    assert world.schedule.run(lambda: world.group().state_name == "Empty", max_steps=100)
