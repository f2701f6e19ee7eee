"""Members who leave by themselves."""

from sawlog.core.errors import ErrorCode
from support.groups.classic_group import COMMIT_MS, GROUP, ClassicWorld


def test_who_leaves_is_out_at_once_and_the_others_join_again() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    assert world.leave(first).response.members[0].error_code == 0
    assert world.heartbeat(first, 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(second, 1).code is ErrorCode.REBALANCE_IN_PROGRESS
    again = world.join(second)
    assert again.response.generation_id == 2
    assert again.response.leader == second


def test_several_leave_with_one_rebalance_and_each_has_its_answer() -> None:
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


def test_the_last_who_leaves_is_answered_when_that_is_committed() -> None:
    world = ClassicWorld()
    (only,) = world.stable()
    asked = world.leave(only)
    assert not asked.is_answered
    world.pass_ms(COMMIT_MS)
    assert asked.response.members[0].error_code == 0
    assert world.group().state_name == "Empty"
    assert world.rebuilt().groups[GROUP].is_empty


def test_who_leaves_while_it_waits_is_told_twice() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    waiting = world.join(first)
    world.leave(first)
    assert waiting.code is ErrorCode.UNKNOWN_MEMBER_ID
    joins = [world.join(second)]
    waiting_sync = world.sync(second, joins[0].response.generation_id + 1)
    assert waiting_sync.code is ErrorCode.ILLEGAL_GENERATION


def test_who_leaves_while_it_waits_for_its_assignment_is_told_so() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    world.join(first)
    world.join(second)
    waiting = world.sync(second, 2)
    world.leave(second)
    assert waiting.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(first, 2).code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_is_complete_when_the_last_who_was_waited_for_leaves() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    waiting = world.join(first)
    world.leave(second)
    assert waiting.response.generation_id == 2


def test_a_rebalance_is_complete_when_a_pending_member_leaves() -> None:
    world = ClassicWorld()
    (first,) = world.stable()
    pending = world.new_id()
    waiting = world.join(first)
    assert not waiting.is_answered
    assert world.leave(pending).response.members[0].error_code == 0
    assert waiting.response.generation_id == 2


def test_the_first_rebalance_keeps_its_time_though_all_left() -> None:
    world = ClassicWorld(group_initial_rebalance_delay_ms="3000")
    member = world.new_id()
    world.join(member)
    world.leave(member)
    assert world.group().state_name == "PreparingRebalance"
    world.pass_ms(3_000)
    assert (world.group().state_name, world.group().generation) == ("Empty", 1)


def test_nobody_leaves_a_group_that_is_not_there() -> None:
    world = ClassicWorld()
    assert world.leave("nobody").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat("nobody", 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.sync("nobody", 1).code is ErrorCode.UNKNOWN_MEMBER_ID
