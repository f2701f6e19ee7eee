"""JoinGroup: member ids, protocols, the first rebalance, and the maximum size."""

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.groups.classic.rebalance import NEW_MEMBER_TIMEOUT_MS
from support.groups.classic_group import COMMIT_MS, GROUP, REBALANCE_MS, SESSION_MS, ClassicWorld


def test_a_new_member_gets_an_id_and_must_rejoin_with_it() -> None:
    world = ClassicWorld()
    asked = world.join(client="reader")
    world.pass_ms(COMMIT_MS)
    assert asked.code is ErrorCode.MEMBER_ID_REQUIRED
    member_id = asked.response.member_id
    assert member_id.startswith("reader-")
    assert len(member_id) == len("reader-") + 36
    assert world.group().members == {}
    again = world.join(member_id)
    world.pass_ms(COMMIT_MS)
    assert again.code is ErrorCode.NONE
    assert again.response.member_id == member_id


def test_before_version_4_a_new_member_joins_with_one_request() -> None:
    world = ClassicWorld()
    asked = world.join(version=3)
    world.pass_ms(COMMIT_MS)
    assert asked.code is ErrorCode.NONE
    assert asked.response.generation_id == 1


def test_an_unknown_member_id_creates_no_group() -> None:
    world = ClassicWorld()
    assert world.join("nobody").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.runtime.machine.groups == {}
    assert world.partition.log.end_offset == 0


def test_a_new_group_is_written_before_its_first_member_is_answered() -> None:
    world = ClassicWorld()
    asked = world.join()
    assert not asked.is_answered
    assert world.rebuilt().groups[GROUP].is_empty
    world.pass_ms(COMMIT_MS)
    assert asked.is_answered


@pytest.mark.parametrize(
    ("protocol_type", "protocols"), [("", (("range", b""),)), ("consumer", ())]
)
def test_a_join_without_a_protocol_is_refused(
    protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    world = ClassicWorld()
    asked = world.join(protocol_type=protocol_type, protocols=protocols)
    world.pass_ms(COMMIT_MS)
    assert asked.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.group().is_empty


def test_the_protocol_is_supported_by_all_and_preferred_by_most_members() -> None:
    world = ClassicWorld()
    offers = [
        [("sticky", b"1"), ("range", b"2"), ("only-mine", b"3")],
        [("range", b"4"), ("sticky", b"5")],
        [("range", b"6"), ("sticky", b"7")],
    ]
    ids = [world.new_id(protocols=offer) for offer in offers]
    joins = [world.join(member, protocols=offer) for member, offer in zip(ids, offers, strict=True)]
    world.pass_ms(COMMIT_MS)
    leader, *followers = [join.response for join in joins]
    assert {join.protocol_name for join in (leader, *followers)} == {"range"}
    assert [(member.member_id, member.metadata) for member in leader.members] == list(
        zip(ids, [b"2", b"4", b"6"], strict=True)
    )
    assert all(join.leader == ids[0] and join.members == [] for join in followers)


def test_a_rebalance_waits_for_a_pending_member_until_its_session_ends() -> None:
    world = ClassicWorld()
    (first,) = world.stable()
    pending = world.new_id()
    again = world.join(first)
    world.pass_ms(SESSION_MS - COMMIT_MS - 1)
    assert not again.is_answered
    world.pass_ms(1)
    assert again.code is ErrorCode.NONE
    assert world.join(pending).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_id_cannot_join_as_a_static_member() -> None:
    world = ClassicWorld()
    pending = world.new_id()
    assert world.join(pending, instance="i").code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.group().pending == {pending}


def test_a_long_client_id_gives_a_member_id_that_can_be_written() -> None:
    world = ClassicWorld()
    asked = world.join(version=3, client="\u20ac" * 10_000)
    world.pass_ms(COMMIT_MS)
    assert len(asked.response.member_id.encode()) <= 0x7FFF


def test_a_repeated_join_answers_the_earlier_one() -> None:
    world = ClassicWorld()
    first, second = world.stable(2)
    before = world.join(first)
    after = world.join(first)
    assert before.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert not after.is_answered
    world.join(second)
    assert after.code is ErrorCode.NONE


# The first rebalance

DELAY_MS = 3_000


def test_the_first_rebalance_waits_for_more_members() -> None:
    world = ClassicWorld(group_initial_rebalance_delay_ms=str(DELAY_MS))
    member = world.new_id()
    asked = world.join(member)
    world.pass_ms(DELAY_MS - 1)
    assert not asked.is_answered
    world.pass_ms(1)
    assert asked.code is ErrorCode.NONE


def test_a_member_that_joins_meanwhile_extends_the_first_rebalance() -> None:
    world = ClassicWorld(group_initial_rebalance_delay_ms=str(DELAY_MS))
    asked = world.join(version=3)
    world.pass_ms(DELAY_MS - 1)
    late = world.join(version=3)
    world.pass_ms(DELAY_MS)
    assert not asked.is_answered
    world.pass_ms(1)
    assert (asked.code, late.code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert asked.response.generation_id == late.response.generation_id == 1


def test_the_first_rebalance_is_no_longer_than_the_rebalance_timeout() -> None:
    world = ClassicWorld(group_initial_rebalance_delay_ms=str(DELAY_MS))
    asked = [world.join(version=3, rebalance_ms=7_000)]
    for _ in range(6):
        world.pass_ms(1_000)
        asked.append(world.join(version=3, rebalance_ms=7_000))
    world.pass_ms(999)
    assert not any(one.is_answered for one in asked)
    world.pass_ms(1)
    assert all(one.code is ErrorCode.NONE for one in asked)


def test_a_second_rebalance_does_not_wait_for_more_members() -> None:
    world = ClassicWorld(group_initial_rebalance_delay_ms=str(DELAY_MS))
    first = world.join(version=3)
    world.pass_ms(DELAY_MS + COMMIT_MS)
    world.synchronise([first])
    second = world.join(version=3)
    again = world.join(first.response.member_id)
    assert (second.code, again.code) == (ErrorCode.NONE, ErrorCode.NONE)


def test_a_new_member_times_out_during_its_first_join() -> None:
    world = ClassicWorld()
    (first,) = world.stable()
    newcomer = world.join(version=3, rebalance_ms=2 * NEW_MEMBER_TIMEOUT_MS)
    for _ in range(2 * NEW_MEMBER_TIMEOUT_MS // SESSION_MS):
        assert not newcomer.is_answered
        assert world.heartbeat(first, 1).code is ErrorCode.REBALANCE_IN_PROGRESS
        world.pass_ms(SESSION_MS // 2)
    assert newcomer.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert newcomer.response.member_id == ""


# Maximum size


def test_a_full_group_refuses_new_members() -> None:
    world = ClassicWorld(group_max_size="2")
    first, second = world.stable(2)
    assert world.join().code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join(instance="i").code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.group().state_name == "Stable"
    world.leave(second)
    assert world.join(first).code is ErrorCode.NONE
    assert world.join(version=3).is_answered is False


def test_pending_members_do_not_count_towards_the_maximum_size() -> None:
    world = ClassicWorld(group_max_size="1", group_initial_rebalance_delay_ms="3000")
    one, two = world.new_id(), world.new_id()
    first = world.join(one)
    assert world.join(two).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.pass_ms(3_000)
    assert first.code is ErrorCode.NONE
    assert two not in world.group().pending


def test_a_lowered_maximum_size_refuses_the_last_members_to_rejoin() -> None:
    world = ClassicWorld()
    first, second, third = world.stable(3)
    world.restart(group_max_size="2")
    assert world.heartbeat(first, 1).code is ErrorCode.REBALANCE_IN_PROGRESS
    joins = [world.join(third), world.join(first)]
    assert not any(join.is_answered for join in joins)
    turned_away = world.join(second)
    assert turned_away.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert turned_away.response.member_id == ""
    assert [join.code for join in joins] == [ErrorCode.NONE, ErrorCode.NONE]
    assert set(world.group().members) == {first, third}


def test_the_rebalance_timeout_is_the_longest_of_all_members() -> None:
    world = ClassicWorld()
    slow = world.join(version=3, rebalance_ms=2 * REBALANCE_MS, session_ms=3 * REBALANCE_MS)
    world.pass_ms(COMMIT_MS)
    world.synchronise([slow])
    late = world.join(version=3, rebalance_ms=REBALANCE_MS)
    world.pass_ms(2 * REBALANCE_MS - 1)
    assert not late.is_answered
    world.pass_ms(1)
    assert late.code is ErrorCode.NONE
    assert late.response.leader == late.response.member_id
