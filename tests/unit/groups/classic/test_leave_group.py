"""LeaveGroup of classic members."""

from sawlog.core.errors import ErrorCode
from support.groups.classic_group import COMMIT_MS, GROUP, ClassicWorld


def test_a_leaving_member_is_removed_at_once_and_the_others_rejoin() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    assert world.leave(first).response.members[0].error_code == 0
    assert world.heartbeat(first, 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(second, 1).code is ErrorCode.REBALANCE_IN_PROGRESS
    again = world.join(second)
    assert again.response.generation_id == 2
    assert again.response.leader == second


def test_several_members_leave_with_one_rebalance_and_a_result_each() -> None:
    world = ClassicWorld()
    first, second, third = world.stable(3)
    answer = world.leave(first, "nobody", second, second).response
    assert [(one.member_id, one.error_code) for one in answer.members] == [
        (first, 0),
        ("nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        (second, 0),
        (second, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert world.join(third).response.generation_id == 2


def test_the_last_member_that_leaves_is_answered_after_the_commit() -> None:
    world = ClassicWorld()
    (only,) = world.stable()
    asked = world.leave(only)
    assert not asked.is_answered
    world.pass_ms(COMMIT_MS)
    assert asked.response.members[0].error_code == 0
    assert world.group().state_name == "Empty"
    assert world.rebuilt().groups[GROUP].is_empty


def test_leaving_answers_the_members_parked_join() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    waiting = world.join(first)
    world.leave(first)
    assert waiting.code is ErrorCode.UNKNOWN_MEMBER_ID
    joins = [world.join(second)]
    waiting_sync = world.sync(second, joins[0].response.generation_id + 1)
    assert waiting_sync.code is ErrorCode.ILLEGAL_GENERATION


def test_leaving_answers_the_members_parked_sync() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    world.join(first)
    world.join(second)
    waiting = world.sync(second, 2)
    world.leave(second)
    assert waiting.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(first, 2).code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_completes_when_the_last_missing_member_leaves() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    waiting = world.join(first)
    world.leave(second)
    assert waiting.response.generation_id == 2


def test_a_rebalance_completes_when_a_pending_member_leaves() -> None:
    world = ClassicWorld()
    (first,) = world.stable()
    pending = world.new_id()
    waiting = world.join(first)
    assert not waiting.is_answered
    assert world.leave(pending).response.members[0].error_code == 0
    assert waiting.response.generation_id == 2


def test_the_first_rebalance_keeps_its_delay_after_all_members_left() -> None:
    world = ClassicWorld(group_initial_rebalance_delay_ms="3000")
    member = world.new_id()
    world.join(member)
    world.leave(member)
    assert world.group().state_name == "PreparingRebalance"
    world.pass_ms(3_000)
    assert (world.group().state_name, world.group().generation) == ("Empty", 1)


def test_leaving_an_unknown_group_is_refused() -> None:
    world = ClassicWorld()
    assert world.leave("nobody").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat("nobody", 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.sync("nobody", 1).code is ErrorCode.UNKNOWN_MEMBER_ID
