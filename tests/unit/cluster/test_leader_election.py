"""Who may lead a partition, rule by rule; the numbers of guarantees are in the docstrings."""

from sawlog.cluster.leader_election import (
    Electorate,
    completed_state,
    first_state,
    next_state,
    preferred_state,
    unclean_state,
    without_damaged_replica,
)
from sawlog.cluster.metadata_image import (
    DAMAGED_DIRECTORY,
    NO_NODE,
    BrokerImage,
    DroppedMember,
    InSyncMember,
)
from sawlog.cluster.znodes import PartitionState
from sawlog.core.ids import LeaderEpoch, NodeId

UNKNOWN_EPOCH = 1 << 31
REPLICAS = (NodeId(1), NodeId(2), NodeId(3))


def broker(
    node: int,
    epoch: int = 10,
    directory: str | None = None,
    *,
    policy: str = "commit",
    clean: bool = True,
    process_epoch: int | None = None,
    leaving: bool = False,
) -> BrokerImage:
    directory = f"dir{node}" if directory is None else directory
    process = epoch if process_epoch is None else process_epoch
    return BrokerImage(
        NodeId(node), "h", 9092, None, epoch, directory, policy, clean, process, leaving
    )


def electorate(*brokers: BrokerImage, unclean: bool = False) -> Electorate:
    return Electorate({each.id: each for each in brokers}, 5, unclean)


def member(node: int, epoch: int = 10, directory: str | None = None) -> InSyncMember:
    return InSyncMember(NodeId(node), epoch, f"dir{node}" if directory is None else directory)


def state(leader: int, *members: InSyncMember) -> PartitionState:
    return PartitionState(NodeId(leader), LeaderEpoch(7), members, 4, version=9, created=3)


def outcome(new: PartitionState | None) -> tuple[int, int, tuple[int, ...]] | None:
    return None if new is None else (new.leader, new.leader_epoch, new.isr)


ALL = (member(1), member(2), member(3))


def test_a_new_partition_is_led_by_its_first_live_replica() -> None:
    new = first_state(electorate(broker(2), broker(3)), REPLICAS)
    assert outcome(new) == (2, 0, (2, 3))
    assert new.members == (member(2), member(3))


def test_a_new_partition_without_live_replicas_is_offline_with_all_in_sync() -> None:
    assert outcome(first_state(electorate(), REPLICAS)) == (NO_NODE, 0, (1, 2, 3))


def test_a_healthy_partition_is_left_alone() -> None:
    live = electorate(broker(1), broker(2), broker(3))
    assert next_state(live, REPLICAS, state(1, *ALL)) is None


def test_the_first_in_sync_replica_in_the_order_of_the_assignment_succeeds() -> None:
    live = electorate(broker(2), broker(3))
    assert outcome(next_state(live, REPLICAS, state(1, *ALL[::-1]))) == (2, 8, (2, 3))
    assert outcome(next_state(live, REPLICAS, state(1, member(1), member(3)))) == (3, 8, (3,))


def test_a_lost_follower_leaves_the_set_without_a_new_leader_epoch() -> None:
    new = next_state(electorate(broker(1), broker(3)), REPLICAS, state(1, *ALL))
    assert outcome(new) == (1, 7, (1, 3))
    assert new is not None
    assert new.controller_epoch == 5


def test_a_follower_that_restarted_with_its_directory_stays_under_its_new_broker_epoch() -> None:
    """By guarantee 14b it has flushed everything that was acknowledged."""
    live = electorate(broker(1), broker(2, 11, clean=False), broker(3))
    new = next_state(live, REPLICAS, state(1, *ALL))
    assert outcome(new) == (1, 7, (1, 2, 3))
    assert new is not None
    assert new.members == (member(1), member(2, 11), member(3))
    assert next_state(live, REPLICAS, new) is None


def test_a_follower_that_restarted_with_another_directory_leaves_the_set() -> None:
    live = electorate(broker(1), broker(2, 11, "empty"), broker(3))
    assert outcome(next_state(live, REPLICAS, state(1, *ALL))) == (1, 7, (1, 3))


def test_a_follower_that_restarted_leaves_if_its_directory_was_not_recorded() -> None:
    """The entry is one that a tool of Kafka wrote: nothing tells what its replica has."""
    live = electorate(broker(1), broker(2, 11))
    members = (member(1), member(2, 0, ""))
    assert outcome(next_state(live, REPLICAS, state(1, *members))) == (1, 7, (1,))


def test_a_damaged_member_does_not_stay_when_it_restarts() -> None:
    live = electorate(broker(1), broker(2, 11))
    members = (member(1), member(2, 0, DAMAGED_DIRECTORY))
    assert outcome(next_state(live, REPLICAS, state(1, *members))) == (1, 7, (1,))


def test_with_policy_os_a_crashed_follower_of_a_live_leader_leaves_the_set() -> None:
    live = electorate(
        broker(1, policy="os"),
        broker(2, 11, policy="os", clean=False),
        broker(3, 12, policy="os", clean=False, process_epoch=9),
    )
    new = next_state(live, REPLICAS, state(1, *ALL))
    assert new is not None
    assert new.members == (member(1), member(3, 12)), "broker 3 only lost its session"


def test_a_leader_is_never_removed_from_its_own_set() -> None:
    assert outcome(next_state(electorate(broker(1)), REPLICAS, state(1, *ALL))) == (1, 7, (1,))
    assert next_state(electorate(broker(1)), REPLICAS, state(1, member(1))) is None


def test_a_restarted_leader_is_elected_again_with_its_new_broker_epoch() -> None:
    """Guarantees 9 and 16: one appender per leader epoch; the new epoch is in the same write."""
    new = next_state(electorate(broker(1, 11)), REPLICAS, state(1, *ALL))
    assert outcome(new) == (1, 8, (1,))
    assert new is not None
    assert new.members == (member(1, 11),)


def test_all_members_that_come_back_with_their_directories_stay_in_sync() -> None:
    """Guarantee 16: by 14b each has everything acknowledged, also after all stopped at once."""
    live = electorate(broker(1, 21), broker(2, 22), broker(3, 23))
    new = next_state(live, REPLICAS, state(NO_NODE, *ALL))
    assert new is not None
    assert (new.leader, new.members) == (1, (member(1, 21), member(2, 22), member(3, 23)))


def test_a_replica_with_another_directory_may_not_lead() -> None:
    """Guarantee 16."""
    live = electorate(broker(1, 11, "empty"), broker(2))
    assert outcome(next_state(live, REPLICAS, state(1, *ALL))) == (2, 8, (2,))


def test_without_a_qualified_member_the_partition_is_offline() -> None:
    """Guarantee 16: until the directory is back or an unclean election is allowed."""
    alone = state(1, member(1))
    emptied = electorate(broker(1, 11, "empty"), broker(2))
    assert outcome(next_state(emptied, REPLICAS, alone)) == (NO_NODE, 8, (1,))
    offline = alone._replace(leader=NO_NODE)
    assert next_state(emptied, REPLICAS, offline) is None
    assert outcome(next_state(electorate(broker(1, 12)), REPLICAS, offline)) == (1, 8, (1,))


def test_a_returning_member_with_another_directory_leaves_an_offline_set() -> None:
    """Guarantee 16: it is out of the set until it has caught up, but the set is never empty."""
    offline = state(NO_NODE, member(1), member(2))
    new = next_state(electorate(broker(1, 11, "empty")), REPLICAS, offline)
    assert outcome(new) == (NO_NODE, 7, (2,))
    both = electorate(broker(1, 11, "empty"), broker(2, 12, "empty"))
    assert next_state(both, REPLICAS, offline) is None


def test_a_member_without_a_recorded_directory_qualifies() -> None:
    """States written before directories were recorded, and stores that are in the directory."""
    new = next_state(electorate(broker(1, 11)), REPLICAS, state(1, member(1, 10, "")))
    assert outcome(new) == (1, 8, (1,))
    assert new is not None
    assert new.members == (member(1, 11),)


def test_an_unclean_leader_is_alone_in_sync() -> None:
    live = electorate(broker(2), broker(3), unclean=True)
    assert outcome(next_state(live, REPLICAS, state(1, member(1)))) == (2, 8, (2,))


def dropped(leader_epoch: int, *members: InSyncMember) -> tuple[DroppedMember, ...]:
    return tuple(DroppedMember(each, leader_epoch) for each in members)


def elected_alone() -> PartitionState:
    """Broker 1 came back first and was elected in epoch 8, without the others."""
    elected = next_state(electorate(broker(1, 11)), REPLICAS, state(1, *ALL))
    assert outcome(elected) == (1, 8, (1,))
    assert elected is not None
    assert elected.dropped == dropped(8, *ALL[1:])
    return elected


ALONE = (InSyncMember(NodeId(1), 0, DAMAGED_DIRECTORY),)


def test_a_damaged_replica_that_came_back_first_does_not_cost_the_other_members() -> None:
    left = without_damaged_replica(
        elected_alone(), NodeId(1), is_elected=True, last_epoch=UNKNOWN_EPOCH
    )
    assert outcome(left) == (NO_NODE, 9, (2, 3))
    later = next_state(electorate(broker(1, 11), broker(3, 12)), REPLICAS, left)
    assert outcome(later) == (3, 10, (3,))


def test_a_second_election_of_a_damaged_replica_does_not_cost_the_other_members() -> None:
    """It restarted before it had stepped down. Its log, which had no record of epoch 8 or later,
    shows that nothing was committed since the others were left out."""
    again = next_state(electorate(broker(1, 12)), REPLICAS, elected_alone())
    assert again is not None
    left = without_damaged_replica(again, NodeId(1), is_elected=True, last_epoch=7)
    assert outcome(left) == (NO_NODE, 10, (2, 3))


def test_an_absence_of_a_damaged_replica_does_not_cost_the_other_members() -> None:
    """Its session ended before it had stepped down: the partition was offline in between."""
    offline = next_state(electorate(), REPLICAS, elected_alone())
    assert outcome(offline) == (NO_NODE, 9, (1,))
    assert offline is not None
    again = next_state(electorate(broker(1, 12)), REPLICAS, offline)
    assert outcome(again) == (1, 10, (1,))
    assert again is not None
    left = without_damaged_replica(again, NodeId(1), is_elected=True, last_epoch=7)
    assert outcome(left) == (NO_NODE, 11, (2, 3))


def test_members_that_are_left_out_later_come_back_without_the_earlier_ones() -> None:
    """Broker 3 was left out in epoch 8, in which brokers 1 and 2 led; then 1 came back first."""
    without_3 = next_state(electorate(broker(1, 11), broker(2)), REPLICAS, state(1, *ALL))
    assert without_3 is not None
    assert without_3.dropped == dropped(8, member(3))
    elected = next_state(electorate(broker(1, 12)), REPLICAS, without_3)
    assert elected is not None
    assert elected.dropped == dropped(8, member(3)) + dropped(9, member(2))
    left = without_damaged_replica(elected, NodeId(1), is_elected=True, last_epoch=8)
    assert outcome(left) == (NO_NODE, 10, (2,))


def test_members_without_which_an_earlier_process_led_do_not_come_back() -> None:
    """The leader in between may have acknowledged records that they do not have."""
    elected = elected_alone()
    left = without_damaged_replica(elected, NodeId(1), is_elected=False, last_epoch=8)
    assert left.members == ALONE
    again = next_state(electorate(broker(1, 12)), REPLICAS, elected)
    assert again is not None
    for last_epoch in (8, UNKNOWN_EPOCH):
        left = without_damaged_replica(again, NodeId(1), is_elected=True, last_epoch=last_epoch)
        assert left.members == ALONE


def test_an_unclean_election_forgets_the_members_that_were_left_out() -> None:
    live = electorate(broker(2, 11, "empty"), unclean=True)
    elected = next_state(live, REPLICAS, elected_alone())
    assert outcome(elected) == (2, 9, (2,))
    assert elected is not None
    assert elected.dropped == ()


def test_members_that_are_lost_after_the_election_of_a_damaged_replica_are_restored() -> None:
    elected = next_state(electorate(broker(1, 11), broker(2), broker(3)), REPLICAS, state(1, *ALL))
    assert outcome(elected) == (1, 8, (1, 2, 3))
    assert elected is not None
    alone = next_state(electorate(broker(1, 11)), REPLICAS, elected)
    assert outcome(alone) == (1, 8, (1,))
    assert alone is not None
    assert alone.dropped == dropped(8, *ALL[1:])
    left = without_damaged_replica(alone, NodeId(1), is_elected=True, last_epoch=UNKNOWN_EPOCH)
    assert outcome(left) == (NO_NODE, 9, (2, 3))


def test_a_replica_with_another_directory_is_not_kept_for_a_damaged_leader() -> None:
    live = electorate(broker(1, 11), broker(2, 12, "empty"))
    elected = next_state(live, REPLICAS, state(1, *ALL))
    assert elected is not None
    assert elected.dropped == dropped(8, member(3))


def test_an_unclean_election_prefers_a_replica_without_damage() -> None:
    live = electorate(broker(1), broker(2), unclean=True)
    damaged = state(NO_NODE, member(1, 10, DAMAGED_DIRECTORY))
    assert outcome(next_state(live, REPLICAS, damaged)) == (2, 8, (2,))
    alone = electorate(broker(1), unclean=True)
    assert outcome(next_state(alone, REPLICAS, damaged)) == (1, 8, (1,))


def test_a_clean_member_is_preferred_to_an_unclean_election() -> None:
    live = electorate(broker(1, 11, "empty"), broker(3), unclean=True)
    new = next_state(live, REPLICAS, state(1, *ALL))
    assert outcome(new) == (3, 8, (3,))
    assert new is not None
    assert new.unclean_epoch == -1


def test_the_epoch_of_an_unclean_election_is_kept_by_later_clean_ones() -> None:
    unclean = next_state(electorate(broker(2), unclean=True), REPLICAS, state(1, member(1)))
    assert unclean is not None
    assert unclean.unclean_epoch == unclean.leader_epoch == 8
    clean = next_state(electorate(broker(2, 11)), REPLICAS, unclean)
    assert clean is not None
    assert (clean.leader_epoch, clean.unclean_epoch) == (9, 8)


# flush.policy=os


def crashed(node: int, epoch: int) -> BrokerImage:
    return broker(node, epoch, policy="os", clean=False)


def test_with_policy_os_a_crashed_leader_loses_to_an_intact_follower() -> None:
    """Guarantee 16: an unclean stop counts as a damaged directory."""
    live = electorate(crashed(1, 11), broker(2, policy="os"))
    assert outcome(next_state(live, REPLICAS, state(1, *ALL))) == (2, 8, (2,))


def test_with_policy_os_a_cleanly_restarted_member_leads() -> None:
    live = electorate(broker(1, 11, policy="os"))
    assert outcome(next_state(live, REPLICAS, state(1, *ALL))) == (1, 8, (1,))


def test_with_policy_os_crashed_members_leave_one_by_one_and_the_last_leads() -> None:
    """Guarantee 16."""
    offline = state(NO_NODE, *ALL)
    first = next_state(electorate(crashed(2, 21)), REPLICAS, offline)
    assert outcome(first) == (NO_NODE, 7, (1, 3))
    assert first is not None
    second = next_state(electorate(crashed(2, 21), crashed(1, 22)), REPLICAS, first)
    assert outcome(second) == (NO_NODE, 7, (3,))
    assert second is not None
    everyone = electorate(crashed(2, 21), crashed(1, 22), crashed(3, 23))
    assert outcome(next_state(everyone, REPLICAS, second)) == (3, 8, (3,))


def test_with_policy_os_the_last_of_several_that_register_at_once_leads() -> None:
    everyone = electorate(crashed(2, 21), crashed(1, 23), crashed(3, 22))
    assert outcome(next_state(everyone, REPLICAS, state(NO_NODE, *ALL))) == (1, 8, (1,))


def test_with_policy_os_a_member_that_caught_up_since_its_crash_is_intact() -> None:
    """Its process started uncleanly at epoch 10, caught up, and only lost its session since."""
    again = broker(1, 15, policy="os", clean=False, process_epoch=10)
    live = electorate(again, broker(2, 16, policy="os", clean=False, process_epoch=16))
    new = next_state(live, REPLICAS, state(1, member(1), member(2)))
    assert outcome(new) == (1, 8, (1,))


def test_a_sole_replica_leads_after_every_kind_of_stop() -> None:
    for policy in ("commit", "os"):
        for clean in (True, False):
            live = electorate(broker(1, 11, "", policy=policy, clean=clean))
            new = next_state(live, REPLICAS[:1], state(1, member(1, 10, "")))
            assert outcome(new) == (1, 8, (1,))


# Controlled shutdown, preferred leaders, orders


def test_a_leader_that_shuts_down_hands_over_and_leaves_the_set() -> None:
    live = electorate(broker(1, leaving=True), broker(2), broker(3))
    assert outcome(next_state(live, REPLICAS, state(1, *ALL))) == (2, 8, (2, 3))


def test_a_leader_that_shuts_down_stays_without_another_member() -> None:
    live = electorate(broker(1, leaving=True), broker(2))
    assert next_state(live, REPLICAS, state(1, member(1))) is None


def test_a_broker_that_shuts_down_is_not_elected() -> None:
    live = electorate(broker(2, leaving=True), broker(3))
    assert outcome(next_state(live, REPLICAS, state(1, *ALL))) == (3, 8, (3,))
    alone = electorate(broker(2, leaving=True))
    assert outcome(next_state(alone, REPLICAS, state(1, *ALL))) == (NO_NODE, 8, (1, 2, 3))


def test_the_preferred_leader_is_elected_only_if_it_is_in_sync_now() -> None:
    live = electorate(broker(1), broker(2))
    assert outcome(preferred_state(live, REPLICAS, state(2, *ALL[:2]))) == (1, 8, (1, 2))
    assert preferred_state(live, REPLICAS, state(2, member(2))) is None
    assert preferred_state(live, REPLICAS, state(1, *ALL[:2])) is None
    restarted = electorate(broker(1, 11), broker(2))
    assert preferred_state(restarted, REPLICAS, state(2, *ALL[:2])) is None
    leaving = electorate(broker(1, leaving=True), broker(2))
    assert preferred_state(leaving, REPLICAS, state(2, *ALL[:2])) is None


def test_an_ordered_unclean_election_needs_a_partition_without_a_leader() -> None:
    live = electorate(broker(2), broker(3))
    assert unclean_state(live, REPLICAS, state(2, member(2))) is None
    assert outcome(unclean_state(live, REPLICAS, state(1, member(1)))) == (2, 8, (2,))
    assert unclean_state(electorate(), REPLICAS, state(1, member(1))) is None


def test_a_reassignment_is_complete_when_all_that_stay_are_in_sync() -> None:
    """KIP-455."""
    live = electorate(broker(1), broker(2), broker(3))
    removing = (NodeId(3),)
    assert completed_state(live, REPLICAS, removing, state(1, member(1), member(3))) is None
    assert outcome(completed_state(live, REPLICAS, removing, state(1, *ALL))) == (1, 7, (1, 2))
    assert outcome(completed_state(live, REPLICAS, removing, state(3, *ALL))) == (1, 8, (1, 2))


def test_a_member_that_is_not_assigned_any_more_leaves_the_set() -> None:
    """A reassignment was cancelled; its leader was one of the added replicas."""
    live = electorate(broker(1), broker(2), broker(3))
    assert outcome(next_state(live, REPLICAS[:2], state(1, *ALL))) == (1, 7, (1, 2))
    assert outcome(next_state(live, REPLICAS[:2], state(3, *ALL))) == (1, 8, (1, 2))
