"""Groups whose members roll from one protocol to the other, from what members ask and hear."""

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from support.groups.consumer_group import REBALANCE_MS
from support.groups.rolling_members import (
    SESSION_MS,
    AnyMember,
    NewMember,
    OldMember,
    group_type,
    leave,
    mixed,
    read_by,
    settle,
    subscription,
    world,
)

# Up


def test_a_first_new_member_makes_a_consumer_group_of_a_classic_one() -> None:
    groups = world()
    old, new = mixed(groups)
    described = groups.describe()
    assert described.group_state == "Stable"
    assert {member.member_id: member.member_type for member in described.members} == {
        old.id: 0,
        "new": 1,
    }
    assert read_by(old, new) == [0, 1, 2, 3]
    assert len(old.reads) == len(new.reads) == 2


def test_the_groups_epochs_go_on_from_its_generation() -> None:
    groups = world()
    old = OldMember(groups, "t")
    settle(groups, [old])
    generation = old.generation
    new = NewMember(groups, "new", "t")
    assert new.join() == 0
    assert new.epoch == generation + 1
    group = groups.group()
    assert (group.members[old.id].epoch, group.target_epoch) == (generation, generation + 1)


def test_what_a_classic_member_keeps_it_never_stops_reading() -> None:
    groups = world()
    old = OldMember(groups, "t")
    settle(groups, [old])
    kept = set(old.reads)
    new = NewMember(groups, "new", "t")
    for _ in range(20):
        settle(groups, [old, new], rounds=1)
        kept &= old.reads
    assert kept == old.reads
    assert len(kept) == 2


def test_an_eager_member_gives_all_up_and_gets_its_share_at_once() -> None:
    groups = world()
    old, new = mixed(groups, is_eager=True)
    assert read_by(old, new) == [0, 1, 2, 3]
    assert old.joins == 3, "for an id, to join, and once more when the new one came"


def test_whoever_waits_in_the_classic_group_is_told_to_come_again() -> None:
    groups = world()
    old = OldMember(groups, "t")
    settle(groups, [old])
    message = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("mine", subscription("t", ()))],
    )
    waiting = groups.machine.send(message, 3)
    groups.pass_time(100)
    assert not waiting.is_done
    assert NewMember(groups, "new", "t").join() == 0
    assert waiting.answered.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.answered.member_id in groups.group().members


def test_a_group_in_the_middle_of_a_rebalance_loses_nothing() -> None:
    groups = world()
    members: list[AnyMember] = [OldMember(groups, "t"), OldMember(groups, "t")]
    for _ in range(3):
        for member in members:
            member.step()
    members.append(NewMember(groups, "new", "t"))
    members[-1].step()
    assert group_type(groups) == "Consumer"
    settle(groups, members)
    assert read_by(*members) == [0, 1, 2, 3]


def test_a_static_member_takes_its_place_in_the_middle_of_the_first_rebalance() -> None:
    groups = world()
    old = OldMember(groups, "t", instance="desk")
    old.step()
    new = NewMember(groups, "new", "t", instance_id="desk")
    settle(groups, [new])
    assert read_by(new) == [0, 1, 2, 3]


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_without_leave_to_upgrade_a_new_member_is_sent_away(policy: str) -> None:
    groups = world(group_consumer_migration_policy=policy)
    old = OldMember(groups, "t")
    settle(groups, [old])
    assert NewMember(groups, "new", "t").join() == ErrorCode.GROUP_ID_NOT_FOUND
    settle(groups, [old])
    assert (group_type(groups), read_by(old)) == ("Classic", [0, 1, 2, 3])


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_an_empty_group_changes_its_protocol_under_any_policy(policy: str) -> None:
    groups = world(group_consumer_migration_policy=policy)
    old = OldMember(groups, "t")
    settle(groups, [old])
    assert old.leave() == 0
    new = NewMember(groups, "new", "t")
    settle(groups, [new])
    assert (group_type(groups), read_by(new)) == ("Consumer", [0, 1, 2, 3])


# Down


def test_when_the_last_new_member_leaves_the_group_is_a_classic_one() -> None:
    groups = world()
    old, new = mixed(groups)
    other = OldMember(groups, "t")
    settle(groups, [old, other, new])
    epoch = groups.group().epoch
    kept = set(old.reads)
    assert new.leave() == 0
    group = groups.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.generation, group.state_name) == (epoch, "PreparingRebalance")
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    settle(groups, [old, other])
    assert read_by(old, other) == [0, 1, 2, 3]
    assert kept <= old.reads


def test_a_new_member_that_dies_makes_the_group_a_classic_one() -> None:
    groups = world()
    old, _ = mixed(groups)
    for _ in range(20):
        settle(groups, [old], rounds=1)
        groups.pass_time(3_000)
    assert (group_type(groups), read_by(old)) == ("Classic", [0, 1, 2, 3])


@pytest.mark.parametrize("policy", ["upgrade", "UPGRADE"])
def test_without_leave_to_downgrade_the_guests_go_on_in_a_consumer_group(policy: str) -> None:
    groups = world(group_consumer_migration_policy=policy)
    old, new = mixed(groups)
    assert new.leave() == 0
    settle(groups, [old])
    assert group_type(groups) == "Consumer"
    assert old.heartbeat() is ErrorCode.NONE


def test_when_all_leave_at_once_the_group_stays_a_consumer_group() -> None:
    groups = world()
    old, _ = mixed(groups)
    assert leave(groups, (old.id, None), ("new", None)) == [0, 0]
    assert (group_type(groups), groups.state()) == ("Consumer", "Empty")


def test_a_static_guest_in_the_last_new_members_place_ends_the_consumer_group_in_peace() -> None:
    groups = world()
    old = OldMember(groups, "t")
    settle(groups, [old])
    new = NewMember(groups, "new", "t", instance_id="desk")
    settle(groups, [old, new])
    reads, joins = set(new.reads), old.joins
    assert new.leave(-2) == 0
    back = OldMember(groups, "t", instance="desk")
    settle(groups, [old, back])
    assert group_type(groups) == "Classic"
    assert back.reads == reads
    assert old.joins == joins, "nobody had to join again"


def test_a_static_guest_that_comes_while_others_move_waits_for_a_rebalance() -> None:
    groups = world()
    old = OldMember(groups, "t")
    settle(groups, [old])
    new = NewMember(groups, "new", "t", instance_id="desk")
    new.step()
    assert read_by(old) == [0, 1, 2, 3], "it has not given anything up yet"
    back = OldMember(groups, "t", instance="desk")
    settle(groups, [old, back])
    assert group_type(groups) == "Classic"
    assert read_by(old, back) == [0, 1, 2, 3]
    assert len(back.reads) == 2


# Restarts


def test_a_mixed_group_is_the_same_after_a_restart() -> None:
    groups = world()
    old, new = mixed(groups)
    before = groups.group()
    groups.restart()
    after = groups.group()
    for name in ("epoch", "target_epoch", "metadata_hash", "members", "targets", "owners"):
        assert getattr(after, name) == getattr(before, name), name
    assert old.heartbeat() is ErrorCode.NONE
    settle(groups, [old, new])
    assert read_by(old, new) == [0, 1, 2, 3]


def test_a_downgrade_whose_rebalance_was_lost_in_a_restart_still_has_one() -> None:
    groups = world()
    old, new = mixed(groups)
    assert new.leave() == 0
    groups.restart()
    settle(groups, [old])
    assert (group_type(groups), read_by(old)) == ("Classic", [0, 1, 2, 3])
