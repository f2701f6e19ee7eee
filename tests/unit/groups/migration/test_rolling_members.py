"""Groups whose members are rolled from one protocol to the other, as the clients see it."""

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from support.groups.consumer_group import REBALANCE_MS
from support.groups.rolling_members import (
    SESSION_MS,
    AnyClient,
    ClassicClient,
    ConsumerClient,
    group_type,
    leave,
    mixed,
    read_by,
    settle,
    subscription,
    world,
)

# Upgrade


def test_the_first_consumer_member_upgrades_a_classic_group() -> None:
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


def test_the_group_epoch_continues_from_the_generation() -> None:
    groups = world()
    old = ClassicClient(groups, "t")
    settle(groups, [old])
    generation = old.generation
    new = ConsumerClient(groups, "new", "t")
    assert new.join() == 0
    assert new.epoch == generation + 1
    group = groups.group()
    assert (group.members[old.id].epoch, group.target_epoch) == (generation, generation + 1)


def test_a_classic_member_never_stops_reading_partitions_that_it_keeps() -> None:
    groups = world()
    old = ClassicClient(groups, "t")
    settle(groups, [old])
    kept = set(old.reads)
    new = ConsumerClient(groups, "new", "t")
    for _ in range(20):
        settle(groups, [old, new], rounds=1)
        kept &= old.reads
    assert kept == old.reads
    assert len(kept) == 2


def test_an_eager_member_revokes_all_and_gets_its_share_at_once() -> None:
    groups = world()
    old, new = mixed(groups, is_eager=True)
    assert read_by(old, new) == [0, 1, 2, 3]
    assert old.joins == 3, "for an id, to join, and once more when the new one came"


def test_parked_requests_of_the_classic_group_are_answered_with_a_rejoin() -> None:
    groups = world()
    old = ClassicClient(groups, "t")
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
    assert ConsumerClient(groups, "new", "t").join() == 0
    assert waiting.answered.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.answered.member_id in groups.group().members


def test_an_upgrade_during_a_rebalance_loses_no_partition() -> None:
    groups = world()
    members: list[AnyClient] = [ClassicClient(groups, "t"), ClassicClient(groups, "t")]
    for _ in range(3):
        for member in members:
            member.step()
    members.append(ConsumerClient(groups, "new", "t"))
    members[-1].step()
    assert group_type(groups) == "Consumer"
    settle(groups, members)
    assert read_by(*members) == [0, 1, 2, 3]


def test_a_static_member_may_be_replaced_during_the_first_rebalance() -> None:
    groups = world()
    old = ClassicClient(groups, "t", instance="desk")
    old.step()
    new = ConsumerClient(groups, "new", "t", instance_id="desk")
    settle(groups, [new])
    assert read_by(new) == [0, 1, 2, 3]


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_consumer_member_is_refused_if_the_policy_forbids_upgrades(policy: str) -> None:
    groups = world(group_consumer_migration_policy=policy)
    old = ClassicClient(groups, "t")
    settle(groups, [old])
    assert ConsumerClient(groups, "new", "t").join() == ErrorCode.GROUP_ID_NOT_FOUND
    settle(groups, [old])
    assert (group_type(groups), read_by(old)) == ("Classic", [0, 1, 2, 3])


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_an_empty_group_changes_its_protocol_under_any_policy(policy: str) -> None:
    groups = world(group_consumer_migration_policy=policy)
    old = ClassicClient(groups, "t")
    settle(groups, [old])
    assert old.leave() == 0
    new = ConsumerClient(groups, "new", "t")
    settle(groups, [new])
    assert (group_type(groups), read_by(new)) == ("Consumer", [0, 1, 2, 3])


# Downgrade


def test_the_group_is_downgraded_when_the_last_consumer_member_leaves() -> None:
    groups = world()
    old, new = mixed(groups)
    other = ClassicClient(groups, "t")
    settle(groups, [old, other, new])
    epoch = groups.group().epoch
    kept = set(old.reads)
    assert new.leave() == 0
    group = groups.group_machine.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.generation, group.state_name) == (epoch, "PreparingRebalance")
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    settle(groups, [old, other])
    assert read_by(old, other) == [0, 1, 2, 3]
    assert kept <= old.reads


def test_the_group_is_downgraded_when_the_last_consumer_member_times_out() -> None:
    groups = world()
    old, _ = mixed(groups)
    for _ in range(20):
        settle(groups, [old], rounds=1)
        groups.pass_time(3_000)
    assert (group_type(groups), read_by(old)) == ("Classic", [0, 1, 2, 3])


@pytest.mark.parametrize("policy", ["upgrade", "UPGRADE"])
def test_classic_members_stay_in_a_consumer_group_if_the_policy_forbids_downgrades(
    policy: str,
) -> None:
    groups = world(group_consumer_migration_policy=policy)
    old, new = mixed(groups)
    assert new.leave() == 0
    settle(groups, [old])
    assert group_type(groups) == "Consumer"
    assert old.heartbeat() is ErrorCode.NONE


def test_a_group_whose_members_all_leave_stays_a_consumer_group() -> None:
    groups = world()
    old, _ = mixed(groups)
    assert leave(groups, (old.id, None), ("new", None)) == [0, 0]
    assert (group_type(groups), groups.state()) == ("Consumer", "Empty")


def test_replacing_the_last_consumer_member_downgrades_without_a_rebalance() -> None:
    groups = world()
    old = ClassicClient(groups, "t")
    settle(groups, [old])
    new = ConsumerClient(groups, "new", "t", instance_id="desk")
    settle(groups, [old, new])
    reads, joins = set(new.reads), old.joins
    assert new.leave(-2) == 0
    back = ClassicClient(groups, "t", instance="desk")
    settle(groups, [old, back])
    assert group_type(groups) == "Classic"
    assert back.reads == reads
    assert old.joins == joins, "no member had to rejoin"


def test_replacing_the_last_consumer_member_during_reconciliation_rebalances() -> None:
    groups = world()
    old = ClassicClient(groups, "t")
    settle(groups, [old])
    new = ConsumerClient(groups, "new", "t", instance_id="desk")
    new.step()
    assert read_by(old) == [0, 1, 2, 3], "it has not given anything up yet"
    back = ClassicClient(groups, "t", instance="desk")
    settle(groups, [old, back])
    assert group_type(groups) == "Classic"
    assert read_by(old, back) == [0, 1, 2, 3]
    assert len(back.reads) == 2


# Restarts


def test_a_mixed_group_survives_a_restart() -> None:
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


def test_a_restart_during_the_rebalance_of_a_downgrade_causes_another() -> None:
    groups = world()
    old, new = mixed(groups)
    assert new.leave() == 0
    groups.restart()
    settle(groups, [old])
    assert (group_type(groups), read_by(old)) == ("Classic", [0, 1, 2, 3])
