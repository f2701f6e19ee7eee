"""Rebalances: members that join, leave or time out."""

from sawlog.core.errors import ErrorCode
from support.groups.classic_group import COMMIT_MS, REBALANCE_MS, SESSION_MS, Asked, ClassicWorld


def beat(world: ClassicWorld, *members: str) -> set[ErrorCode]:
    return {world.heartbeat(member, world.group().generation).code for member in members}


def keep_alive(world: ClassicWorld, duration_ms: int, *members: str) -> None:
    """Let time pass while these members send heartbeats."""
    step_ms = SESSION_MS // 2
    for _ in range(duration_ms // step_ms):
        for member in members:
            world.heartbeat(member, world.group().generation)
        world.pass_ms(step_ms)


def test_eager_members_all_rejoin_when_one_joins() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    newcomer = world.join(world.new_id())
    assert beat(world, first, second) == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert world.sync(first, 1).code is ErrorCode.REBALANCE_IN_PROGRESS
    joins = [world.join(second), world.join(first), newcomer]
    assert {join.response.generation_id for join in joins} == {2}
    assert {join.response.leader for join in joins} == {first}
    world.synchronise(joins)
    assert world.group().state_name == "Stable"
    assert beat(world, *world.group().members) == {ErrorCode.NONE}


def test_a_cooperative_follower_with_a_new_subscription_causes_a_second_rebalance() -> None:
    """After it revoked partitions, it rejoins and reports the remaining ones."""
    world = ClassicWorld()
    first, second = world.stable(2)
    unchanged = world.join(second)
    assert unchanged.code is ErrorCode.NONE
    assert unchanged.response.generation_id == 1
    owns_less = (("range", b"owns less"),)
    again = world.join(second, protocols=owns_less)
    assert beat(world, first) == {ErrorCode.REBALANCE_IN_PROGRESS}
    leader = world.join(first)
    assert [member.metadata for member in leader.response.members] == [b"r", b"owns less"]
    world.synchronise([again, leader])
    assert beat(world, first, second) == {ErrorCode.NONE}


def test_a_leader_that_rejoins_causes_a_rebalance() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    asked = world.join(leader)
    assert not asked.is_answered
    assert world.join(follower).response.generation_id == 2


def test_a_silent_member_is_removed_after_its_session_timeout() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    world.pass_ms(SESSION_MS // 2)
    assert beat(world, first) == {ErrorCode.NONE}
    world.pass_ms(SESSION_MS // 2)
    assert beat(world, first) == {ErrorCode.REBALANCE_IN_PROGRESS}
    again = world.join(first)
    assert again.response.generation_id == 2
    assert [member.member_id for member in again.response.members] == [first]
    assert world.heartbeat(second, 1).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_another_member_leads_after_the_leader_died() -> None:
    world = ClassicWorld()
    leader, second, third = world.stable(3)
    world.pass_ms(SESSION_MS // 2)
    beat(world, second, third)
    world.pass_ms(SESSION_MS // 2)
    joins = [world.join(third), world.join(second)]
    assert {join.response.leader for join in joins} == {second}
    assert leader not in world.group().members


def test_a_member_that_does_not_rejoin_in_time_is_removed_despite_heartbeats() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    newcomer = world.join(version=3)
    again = world.join(follower)
    keep_alive(world, REBALANCE_MS, leader)
    for asked in (newcomer, again):
        assert asked.code is ErrorCode.NONE
        assert asked.response.leader == follower
    assert world.heartbeat(leader, 1).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_with_a_parked_join_needs_no_heartbeat() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    waiting = world.join(first)
    keep_alive(world, REBALANCE_MS - SESSION_MS, second)
    assert not waiting.is_answered
    assert world.join(second).code is ErrorCode.NONE
    assert waiting.code is ErrorCode.NONE


def joined_twice(world: ClassicWorld) -> tuple[str, str, list[Asked]]:
    """Create a group that waits for the assignment of its second generation."""
    leader, follower = world.stable(2)
    joins = [world.join(leader), world.join(follower)]
    assert world.group().state_name == "CompletingRebalance"
    return leader, follower, joins


def test_followers_wait_until_the_assignment_is_committed() -> None:
    world = ClassicWorld()
    leader, follower, _ = joined_twice(world)
    waiting = world.sync(follower, 2)
    given = world.sync(leader, 2, {follower: b"f", leader: b"l", "nobody": b"n"})
    assert not waiting.is_answered
    assert not given.is_answered
    world.pass_ms(COMMIT_MS)
    assert waiting.response.assignment == b"f"
    assert given.response.assignment == b"l"
    assert (waiting.response.protocol_type, waiting.response.protocol_name) == ("consumer", "range")


def test_a_sync_between_write_and_commit_waits_for_the_commit() -> None:
    world = ClassicWorld()
    leader, follower, _ = joined_twice(world)
    world.sync(leader, 2, {follower: b"f"})
    asked = world.sync(follower, 2)
    assert not asked.is_answered
    world.pass_ms(COMMIT_MS)
    assert asked.response.assignment == b"f"


def test_a_member_that_the_leader_left_out_has_an_empty_assignment() -> None:
    world = ClassicWorld()
    leader, follower, _ = joined_twice(world)
    waiting = world.sync(follower, 2)
    world.sync(leader, 2, {leader: b"l"})
    world.pass_ms(COMMIT_MS)
    assert waiting.response.assignment == b""


def test_a_repeated_sync_answers_the_earlier_one() -> None:
    world = ClassicWorld()
    leader, follower, _ = joined_twice(world)
    before, after = world.sync(follower, 2), world.sync(follower, 2)
    assert before.code is ErrorCode.REBALANCE_IN_PROGRESS
    world.sync(leader, 2, {follower: b"f"})
    world.pass_ms(COMMIT_MS)
    assert after.response.assignment == b"f"


def test_an_old_assignment_is_not_returned_in_a_new_generation() -> None:
    world = ClassicWorld()
    _, follower, _ = joined_twice(world)
    waiting = world.sync(follower, 2)
    world.join(version=3)
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.response.assignment == b""
    assert all(member.assignment == b"" for member in world.group().members.values())


def test_members_that_never_sync_are_removed() -> None:
    world = ClassicWorld()
    leader, follower, _ = joined_twice(world)
    waiting = world.sync(follower, 2)
    keep_alive(world, REBALANCE_MS, leader)
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert beat(world, follower) == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert world.heartbeat(leader, 2).code is ErrorCode.UNKNOWN_MEMBER_ID
    again = world.join(follower)
    assert again.response.leader == follower


def test_a_member_with_a_parked_sync_needs_no_heartbeat_until_it_is_answered() -> None:
    world = ClassicWorld()
    leader, follower, _ = joined_twice(world)
    waiting = world.sync(follower, 2)
    keep_alive(world, 2 * SESSION_MS, leader)
    world.sync(leader, 2, {})
    world.pass_ms(COMMIT_MS)
    assert waiting.code is ErrorCode.NONE
    keep_alive(world, SESSION_MS, leader)
    assert follower not in world.group().members


def test_a_follower_may_sync_until_the_timeout() -> None:
    world = ClassicWorld()
    leader, follower, _ = joined_twice(world)
    world.sync(leader, 2, {follower: b"f"})
    keep_alive(world, REBALANCE_MS - SESSION_MS, leader, follower)
    assert world.sync(follower, 2).response.assignment == b"f"
    keep_alive(world, 2 * SESSION_MS, leader, follower)
    assert world.group().state_name == "Stable"


def test_a_stable_group_with_a_member_that_never_synced_rebalances() -> None:
    world = ClassicWorld()
    leader, follower, _ = joined_twice(world)
    world.sync(leader, 2, {follower: b"f"})
    keep_alive(world, REBALANCE_MS, leader, follower)
    assert world.group().state_name == "PreparingRebalance"
    assert set(world.group().members) == {leader}


def test_a_group_without_members_is_empty_in_the_next_generation() -> None:
    world = ClassicWorld()
    world.stable(2)
    world.pass_ms(2 * REBALANCE_MS)
    group = world.group()
    assert (group.state_name, group.generation, group.members) == ("Empty", 2, {})
    assert (group.protocol_type, group.protocol, group.leader) == ("consumer", None, None)
    next_one = world.join(version=3, protocol_type="connect")
    world.pass_ms(COMMIT_MS)
    assert next_one.response.generation_id == 3
    assert world.group().protocol_type == "connect"


def test_an_empty_group_may_change_its_protocol_type() -> None:
    world = ClassicWorld()
    (only,) = world.stable()
    assert world.join(only, protocol_type="connect").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(only, protocols=(("other", b""),)).code is (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    both = world.join(only, protocols=(("other", b"o"), ("range", b"r")))
    assert both.response.protocol_name == "other"


def test_groups_are_independent_of_each_other() -> None:
    world = ClassicWorld()
    world.stable(2)
    other = world.join(version=3, group="other")
    world.pass_ms(COMMIT_MS)
    assert other.code is ErrorCode.NONE
    assert (world.group().state_name, world.group().generation) == ("Stable", 1)


def test_the_session_restarts_when_a_parked_join_is_answered() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    waiting = world.join(first)
    keep_alive(world, 2 * SESSION_MS, second)
    world.join(second)
    assert waiting.code is ErrorCode.NONE
    keep_alive(world, SESSION_MS, second)
    assert set(world.group().members) == {second}


def test_the_session_restarts_when_a_parked_sync_is_answered() -> None:
    world = ClassicWorld()
    leader, follower, _ = joined_twice(world)
    waiting = world.sync(follower, 2)
    keep_alive(world, 2 * SESSION_MS, leader)
    again = world.join(leader, protocols=(("range", b"new"),))
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_ms(SESSION_MS - 1)
    assert not again.is_answered
    world.pass_ms(1)
    assert again.response.generation_id == 3
    assert set(world.group().members) == {leader}


def test_the_leaders_sync_renews_its_session() -> None:
    world = ClassicWorld()
    leader, follower, _ = joined_twice(world)
    world.pass_ms(SESSION_MS - 1)
    world.heartbeat(follower, 2)
    world.sync(leader, 2, {})
    world.pass_ms(SESSION_MS - 1)
    assert set(world.group().members) == {leader, follower}


def test_a_failing_response_does_not_prevent_the_other_responses() -> None:
    def broken(_: object) -> None:
        raise RuntimeError("the connection is no more")

    world = ClassicWorld()
    first, second, third = world.stable(3)
    world.join(first)
    waiting = world.join(second)
    world.group().waiting_joins[first] = broken
    world.join(third)
    assert waiting.code is ErrorCode.NONE
