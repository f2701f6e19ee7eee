"""Bugs to plant in the broker, each by replacing one piece of its code for the time of a test.

A bug names the guarantees in whose terms a simulation reports it, and the faults that provoke it;
without any, those that the seed plans. `seed` finds it, and passes without it. `profile` is the
kind of cluster that has it. `words` are of the report, where only one assertion of a guarantee can
find the bug.
"""

import json
from typing import Any

import pytest

from sawlog.broker.api import fetch
from sawlog.broker.coordinator_partition import CoordinatorPartition
from sawlog.broker.group_coordinator import GroupCoordinator
from sawlog.cluster import controller, controller_steps, isr_changes, leader_election, znodes
from sawlog.cluster.isr_changes import IsrChanges
from sawlog.cluster.metadata_image import InSyncMember
from sawlog.coordinator.runtime import CoordinatorRuntime
from sawlog.core.ids import NodeId
from sawlog.core.store import SetData
from sawlog.protocol.record_batch import BatchHeader
from sawlog.replication.follower import Follower
from sawlog.replication.follower_progress import FollowerFetch, FollowerProgress
from sawlog.replication.in_sync_set import InSyncSet
from sawlog.replication.leader import Leader
from sawlog.replication.replica import Replica
from sawlog.simulation.cluster_profile import Cleanup, ClusterProfile
from sawlog.simulation.simulated_disk import SimulatedDisk
from sawlog.simulation.simulated_store import SimulatedStore
from sawlog.simulation.world.faults import Fault, FaultKind
from sawlog.storage.cleaner.log_cleaner import LogCleaner
from sawlog.storage.cleaner.offset_map import OffsetMap
from sawlog.storage.leader_epochs import LeaderEpochs
from sawlog.storage.log_directory import LogDirectory
from sawlog.storage.producer_state import ProducerStates
from sawlog.storage.producer_state_store import ProducerStateStore
from sawlog.storage.retention_policy import RetentionPolicy
from support.simulation.planted_bug import FLUSHED_BY_SYSTEM, bug
from support.simulation.planted_faults import (
    DEAF_FOLLOWERS,
    DIVERGENCE,
    EMPTY_AT_THE_EXPIRY,
    LONE_EPOCH,
    LOST_ANSWERS,
    OLD_WATERMARKS,
    ONE,
    SLEEPING_LEADERS,
    THREE,
    TWO,
    repeated,
)

# Commits and acknowledgements


@bug("14b")
def leader_counts_unflushed_records_of_followers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FollowerProgress, "reached", lambda self, *, by_flush: self.end_offset)


@bug("14b")
def follower_reports_its_log_end_as_flushed(patch: pytest.MonkeyPatch) -> None:
    position = Follower.position.fget
    assert position is not None

    def boast(self: Follower) -> Any:
        found = position(self)
        return found._replace(flushed_offset=found.fetch_offset)

    patch.setattr(Follower, "position", property(boast))


@bug("6", "14b")
def watermark_over_the_leader_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "committed_offset", lambda _, own_offset, __: own_offset)


@bug("6", "14b", faults=repeated(FaultKind.PAUSE, duration_ms=2_000))
def watermark_over_the_pending_set(patch: pytest.MonkeyPatch) -> None:
    def pending_only(self: InSyncSet) -> frozenset[NodeId]:
        members = self.stored if self.pending is None else self.pending
        return frozenset(member.node for member in members)

    patch.setattr(InSyncSet, "maximal_isr", pending_only)


@bug("6", "14b", faults=LOST_ANSWERS)
def watermark_over_the_stored_set_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InSyncSet, "maximal_isr", lambda self: frozenset(self.nodes()))
    patch.setattr(Leader, "_is_joining", lambda *_: False)


@bug("14b")
def acknowledgement_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "when_committed", lambda _, __, action: action(None))


@bug("3", faults=repeated(FaultKind.EXPIRED_SESSION, every_ms=700), seed=5)
def waiter_survives_its_epoch(patch: pytest.MonkeyPatch) -> None:
    enter = Replica._enter

    def enter_with_waiters(self: Replica, *args: Any) -> bool:
        waiting, self._waiting = self._waiting, type(self._waiting)()
        entered = enter(self, *args)
        self._waiting = waiting
        return entered

    patch.setattr(Replica, "_enter", enter_with_waiters)


@bug(
    "15",
    faults=[Fault(1_000, FaultKind.KILL, ONE, 12_000), Fault(1_100, FaultKind.KILL, TWO, 12_000)],
)
def acknowledgement_below_min_insync_replicas(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "check_min_in_sync", lambda _: None)
    patch.setattr(Replica, "is_under_min_isr", False)


@bug("19", faults=[])
def last_stable_offset_is_the_log_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "last_stable_offset", property(lambda self: self.log.end_offset))


@bug("2", "3", faults=repeated(FaultKind.POWER_LOSS_OF_ALL, every_ms=4_000))
def disk_that_forgets_syncs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedDisk, "sync", lambda *_: None)


@bug("5", faults=DIVERGENCE)
def consumer_reads_above_the_watermark(patch: pytest.MonkeyPatch) -> None:
    def read_all(self: Any, partition: Any, budget: int, is_first: bool) -> Any:
        replica = self._replica(partition)
        data, log = fetch._empty_data(partition, replica), replica.log
        piece = log.read(
            partition.fetch_offset, budget, limit_offset=log.end_offset, whole_first_batch=is_first
        )
        data.records = b"" if piece is None else piece
        size = 0 if piece is None else piece.length
        return data, size, size

    patch.setattr(fetch._Fetch, "_read_one", read_all)


# Truncation


@bug("2", "11", faults=repeated(FaultKind.EXPIRED_SESSION, every_ms=700))
def truncation_to_the_watermark(patch: pytest.MonkeyPatch) -> None:
    follow = Replica.follow

    def follow_from_watermark(self: Replica, epoch: Any, leader: Any, **options: Any) -> None:
        is_new = epoch > self.leader_epoch
        follow(self, epoch, leader, **options)
        if is_new and self.log.end_offset > self.high_watermark:
            self.log.truncate(self.high_watermark)

    patch.setattr(Replica, "follow", follow_from_watermark)


@bug("8", "4", faults=DIVERGENCE)
def no_truncation_at_a_divergence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fetch, "_diverges", lambda *_: False)


@bug("10", faults=repeated(FaultKind.EXPIRED_SESSION))
def epoch_entry_is_missing(patch: pytest.MonkeyPatch) -> None:
    assign = LeaderEpochs.assign

    def assign_first(self: LeaderEpochs, epoch: int, start_offset: int) -> bool:
        return not self.entries and assign(self, epoch, start_offset)

    patch.setattr(LeaderEpochs, "assign", assign_first)


@bug("10", faults=LONE_EPOCH, seed=1)
def epoch_cache_is_not_truncated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderEpochs, "truncate_end", lambda *_: False)


@bug("10", profile=ClusterProfile(cleanup=Cleanup.DELETE_RECORDS), faults=[], words="its batches")
def epoch_cache_keeps_deleted_epochs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderEpochs, "truncate_start", lambda *_: False)


@bug("11", faults=DIVERGENCE, words="truncated to")
def truncation_of_records_that_the_leader_has(patch: pytest.MonkeyPatch) -> None:
    """A deposed leader, out of the in-sync set, removes more than what it appended alone."""
    truncate = Follower.truncate

    def truncate_too_far(self: Follower, diverging: Any) -> None:
        truncate(self, diverging)
        self.log.truncate(max(self.log.start_offset, self.log.end_offset - 3))

    patch.setattr(Follower, "truncate", truncate_too_far)


@bug("18", faults=DIVERGENCE)
def producer_state_survives_truncation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerStateStore, "truncate", lambda *_: None)


@bug("18")
def sequence_numbers_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerStates, "check", lambda *_: None)


@bug("18")
def a_batch_without_sequence_number_is_appended_twice(patch: pytest.MonkeyPatch) -> None:
    append = Replica.append

    def append_twice(self: Replica, batch: memoryview, header: BatchHeader, **more: Any) -> Any:
        if header.producer_id < 0 and "origin" not in more:  # not of a coordinator
            append(self, batch, header, **more)
        return append(self, batch, header, **more)

    patch.setattr(Replica, "append", append_twice)


# The in-sync set


@bug("12", faults=repeated(FaultKind.KILL, duration_ms=4_000))
def in_sync_set_is_written_without_a_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(isr_changes, "SetData", lambda path, data, _: SetData(path, data))


@bug("12", faults=SLEEPING_LEADERS, seed=1, words="it had seen")
def in_sync_set_is_written_over_a_state_that_was_not_read(patch: pytest.MonkeyPatch) -> None:
    """The version is that of the stored state, the rest comes from the view."""
    trees: list[Any] = []
    begin = IsrChanges.__init__

    def begin_with_tree(self: IsrChanges, member: Any) -> None:
        begin(self, member)
        trees.append(member.store._service.tree)

    def with_stored_version(path: str, data: bytes, version: int) -> SetData:
        stat = trees[-1].exists(path)
        return SetData(path, data, version if stat is None else stat.version)

    patch.setattr(IsrChanges, "__init__", begin_with_tree)
    patch.setattr(isr_changes, "SetData", with_stored_version)


@bug(
    "7",
    faults=repeated(FaultKind.EXPIRED_SESSION, every_ms=700),
    words="before it fetched in epoch",
)
def follower_joins_without_a_fetch_in_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """A new leader takes all live replicas into the set."""
    begin = Leader.__init__

    def begin_with_all(self: Leader, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        for node, broker in self._context.live_brokers().items():
            if node in self.followers and self.in_sync.member(node) is None and self._may_change():
                member = InSyncMember(node, broker.epoch, broker.directory_id)
                self._begin(self.in_sync.adding(member), joined=node)

    patch.setattr(Leader, "__init__", begin_with_all)
    patch.setattr(Leader, "_may_join", lambda *_: True)


@bug("7", faults=repeated(FaultKind.POWER_LOSS, duration_ms=5_000))
def follower_joins_before_it_caught_up(patch: pytest.MonkeyPatch) -> None:
    expand, reached = Leader.expand, FollowerProgress.reached

    def expand_early(self: Leader, node: Any, high_watermark: int) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(FollowerProgress, "reached", lambda *_, **__: 1 << 62)
            expand(self, node, high_watermark)
        assert FollowerProgress.reached is reached

    patch.setattr(Leader, "expand", expand_early)


@bug("7", faults=OLD_WATERMARKS, seed=1, words="the epoch begins at")
def follower_joins_below_the_start_of_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-7128."""
    expand = Leader.expand

    def expand_at_watermark(self: Leader, node: Any, high_watermark: int) -> None:
        start_offset, self.start_offset = self.start_offset, 0
        expand(self, node, high_watermark)
        self.start_offset = start_offset

    patch.setattr(Leader, "expand", expand_at_watermark)


@bug("8", faults=repeated(FaultKind.EXPIRED_SESSION, every_ms=700))
def progress_is_kept_over_a_leader_epoch(patch: pytest.MonkeyPatch) -> None:
    """A follower counts without having fetched in this epoch."""
    begin = Leader.__init__
    known: dict[Any, dict[NodeId, FollowerProgress]] = {}

    def begin_with_old_progress(self: Leader, name: Any, *args: Any, **options: Any) -> None:
        begin(self, name, *args, **options)
        key = (id(self._context), name)
        self.followers.update(known.get(key, {}))
        known[key] = self.followers

    patch.setattr(Leader, "__init__", begin_with_old_progress)


@bug("14a", faults=repeated(FaultKind.EXPIRED_SESSION, every_ms=600))
def member_joins_under_an_earlier_broker_epoch(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-14617."""
    patch.setattr(Leader, "_is_alive", lambda self, node, _: node in self._context.live_brokers())
    patch.setattr(Leader, "_may_join", lambda *_: True)
    patch.setattr(IsrChanges, "_may_join", lambda *_: True)
    patch.setattr(IsrChanges, "_registration_checks", lambda *_: [])
    adding = InSyncSet.adding
    first: dict[NodeId, int] = {}

    def adding_first_epoch(self: InSyncSet, member: InSyncMember) -> InSyncSet:
        epoch = first.setdefault(member.node, member.broker_epoch)
        return adding(self, member._replace(broker_epoch=epoch))

    patch.setattr(InSyncSet, "adding", adding_first_epoch)


@bug("8", "7", "2", faults=DIVERGENCE, seed=2)
def diverging_fetch_updates_progress(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-13141."""
    read = fetch._Fetch._read_for_replica

    def read_and_report(self: Any, partition: Any, *args: Any) -> Any:
        replica = self._replica(partition)
        if replica.leader is not None and partition.leader_epoch == replica.leader_epoch:
            replica.fetched(
                FollowerFetch(
                    NodeId(self._replica_id),
                    self._broker_epoch,
                    partition.fetch_offset,
                    partition.flushed_offset,
                    partition.log_start_offset,
                )
            )
        return read(self, partition, *args)

    patch.setattr(fetch._Fetch, "_read_for_replica", read_and_report)


@bug("8", faults=DEAF_FOLLOWERS)
def fetch_of_another_epoch_updates_progress(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "check_epoch", lambda *_: None)


@bug(
    "14",
    faults=[
        Fault(900, FaultKind.SLOW_NETWORK, ONE, 13_000),
        *repeated(FaultKind.KILL, every_ms=400, duration_ms=50),
    ],
    seed=1,
    words="counts a fetch",
)
def fetch_of_an_earlier_broker_epoch_counts(patch: pytest.MonkeyPatch) -> None:
    """KIP-903."""

    def count(self: Leader, fetch: FollowerFetch, *, leader_end_offset: int) -> None:
        progress, now_ms = self.followers[fetch.node], self._context.clock.monotonic_ms()
        if progress.broker_epoch >= 0 and fetch.broker_epoch != progress.broker_epoch:
            progress.restarted(fetch.broker_epoch, is_member=fetch.node in self._maximal)
        progress.fetched(
            fetch, leader_end_offset=leader_end_offset, by_flush=self._by_flush, now_ms=now_ms
        )

    patch.setattr(Leader, "fetched", count)


# Elections


@bug("14", faults=repeated(FaultKind.EXPIRED_SESSION), words="controller epoch")
def state_of_an_earlier_controller_epoch_replaces_a_newer_one(patch: pytest.MonkeyPatch) -> None:
    next_state = controller_steps.next_state

    def next_of_earlier_epoch(electorate: Any, replicas: Any, old: Any) -> Any:
        new = next_state(electorate, replicas, old)
        return None if new is None else new._replace(controller_epoch=old.controller_epoch - 1)

    patch.setattr(controller_steps, "next_state", next_of_earlier_epoch)


@bug("13", faults=[], words="in one multi")
def controller_is_elected_in_two_writes(patch: pytest.MonkeyPatch) -> None:
    multi = SimulatedStore.multi

    def multi_one_by_one(self: SimulatedStore, operations: Any, done: Any, **more: Any) -> None:
        if any(each.path == znodes.CONTROLLER for each in operations):
            multi(self, operations[:1], lambda _: multi(self, operations[1:], done, **more))
        else:
            multi(self, operations, done, **more)

    patch.setattr(SimulatedStore, "multi", multi_one_by_one)


@bug("13", faults=repeated(FaultKind.KILL, duration_ms=8_000), words="without the controller's")
def controller_shrinks_without_its_epoch(patch: pytest.MonkeyPatch) -> None:
    """Only elections check it."""
    multi = SimulatedStore.multi

    def multi_without_check(self: SimulatedStore, operations: Any, done: Any, **more: Any) -> None:
        shrinks = [each for each in operations if is_shrink(self, each)]
        others = [each for each in operations if each not in shrinks]
        if shrinks and others and others[0].path == znodes.CONTROLLER_EPOCH:
            multi(self, shrinks, lambda _: None)
            operations = others
        multi(self, operations, done, **more)

    def is_shrink(store: SimulatedStore, operation: Any) -> bool:
        if not isinstance(operation, SetData) or not operation.path.endswith("/state"):
            return False
        epoch = json.loads(operation.data)["leader_epoch"]
        stored = znodes.decode_state(store._service.tree.get(operation.path))
        return bool(epoch == stored.leader_epoch)

    patch.setattr(SimulatedStore, "multi", multi_without_check)


@bug("13", faults=repeated(FaultKind.KILL, duration_ms=4_000))
def controller_does_not_check_its_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(controller, "Check", lambda *_: SetData("/config", b""))


@bug("9", faults=repeated(FaultKind.KILL, duration_ms=4_000))
def leader_epoch_is_not_raised(patch: pytest.MonkeyPatch) -> None:
    led_by = leader_election._led_by
    patch.setattr(
        leader_election,
        "_led_by",
        lambda electorate, leader, state: led_by(electorate, leader, state)._replace(
            leader_epoch=state.leader_epoch
        ),
    )


@bug(
    "16",
    faults=[  # broker 1 falls behind, then the others lose their sessions
        Fault(1_000, FaultKind.KILL, ONE, 8_000),
        Fault(9_200, FaultKind.PAUSE, TWO, 8_000),
        Fault(9_200, FaultKind.PAUSE, THREE, 8_000),
        *repeated(FaultKind.KILL, duration_ms=4_000),
    ],
    seed=2,
)
def election_outside_of_the_in_sync_set(patch: pytest.MonkeyPatch) -> None:
    elected = leader_election._elected

    def elect_first(electorate: Any, replicas: Any, old: Any) -> Any:
        node = next((node for node in replicas if electorate.may_lead(node)), None)
        if node is None:
            return elected(electorate, replicas, old)
        led = old._replace(members=(electorate.current(node),), leader=node)
        return led._replace(leader_epoch=old.leader_epoch + 1)

    patch.setattr(leader_election, "_elected", elect_first)


@bug("16", faults=EMPTY_AT_THE_EXPIRY, seed=3)
def election_without_a_look_at_the_directory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InSyncMember, "has_directory_of", lambda *_: True)


# Coordinators


@bug("17", faults=repeated(FaultKind.EXPIRED_SESSION))
def coordinator_keeps_its_state_without_its_partition(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-20634."""
    patch.setattr(GroupCoordinator, "resign", lambda *_: None)
    patch.setattr(CoordinatorRuntime, "_fail", lambda *_: None)
    patch.setattr(CoordinatorPartition, "_check_epoch", lambda _: None)


@bug("17", faults=repeated(FaultKind.EXPIRED_SESSION), words="the coordinator of epoch")
def coordinator_stays_loaded_in_a_new_epoch(patch: pytest.MonkeyPatch) -> None:
    """Its writes are refused, and so it does not answer wrongly; but it must not be there."""
    patch.setattr(GroupCoordinator, "resign", lambda *_: None)


@bug("17", faults=[Fault(1_000, FaultKind.ISOLATION, node, 12_000) for node in (ONE, TWO)])
def coordinator_answers_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CoordinatorPartition, "when_committed", lambda _, __, action: action(None))


# Reassignments


@bug(
    "2",
    "7",
    faults=[
        Fault(1_000 + 500 * place, FaultKind.REASSIGNMENT, ONE, 0, place * 37)
        for place in range(24)
    ],
)
def reassignment_ends_before_the_new_replicas_are_in_sync(patch: pytest.MonkeyPatch) -> None:
    def complete_at_once(electorate: Any, replicas: Any, removing: Any, old: Any) -> Any:
        live = [n for n in replicas if n not in removing and electorate.may_lead(n)]
        if not live:
            return None
        state = old._replace(members=tuple(map(electorate.current, live)))
        return leader_election._led_by(electorate, live[0], state)

    patch.setattr(controller_steps, "completed_state", complete_at_once)


# flush.policy=os


@bug("2", "3", "16", faults=repeated(FaultKind.POWER_LOSS), profile=FLUSHED_BY_SYSTEM)
def unclean_stop_is_taken_for_a_clean_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogDirectory, "has_clean_marker", lambda _: True)


# Cleanup


@bug("5", faults=[], profile=ClusterProfile(cleanup=Cleanup.RETENTION))
def retention_removes_young_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RetentionPolicy, "_outdated", lambda _, newest_ms, __: len(list(newest_ms)))


@bug("5", faults=[], profile=ClusterProfile(cleanup=Cleanup.DELETE_RECORDS))
def delete_records_goes_up_to_the_watermark(patch: pytest.MonkeyPatch) -> None:
    delete_before = Replica.delete_before
    patch.setattr(Replica, "delete_before", lambda self, _: delete_before(self, -1))


@bug("5", faults=[], profile=ClusterProfile(cleanup=Cleanup.COMPACTION))
def compaction_drops_a_last_value(patch: pytest.MonkeyPatch) -> None:
    live_offsets = OffsetMap.live_offsets
    patch.setattr(
        OffsetMap, "live_offsets", lambda self, first, last: live_offsets(self, first, last)[1:]
    )


@bug(
    "3",
    "5",
    faults=DIVERGENCE,
    seed=1,
    profile=ClusterProfile(cleanup=Cleanup.COMPACTION),
)
def compaction_of_uncommitted_records(patch: pytest.MonkeyPatch) -> None:
    """A record is removed for one that a new leader never had."""

    def up_to_the_end(self: LogCleaner, log: Any) -> int:
        return int(log.end_offset)

    patch.setattr(LogCleaner, "_limit_offset", up_to_the_end)


# Liveness


@bug("liveness", faults=[], words="no response")
def consumer_without_new_records_is_never_answered(patch: pytest.MonkeyPatch) -> None:
    expire = fetch._Fetch.expire

    def expire_of_followers(self: Any) -> None:
        if self._replica_id >= 0:
            expire(self)

    patch.setattr(fetch._Fetch, "expire", expire_of_followers)


@bug(
    "liveness",
    faults=repeated(FaultKind.EXPIRED_SESSION),
    seed=2,
    profile=ClusterProfile(classic_members=1),
    words="has committed",
)
def group_does_not_move_to_another_coordinator(patch: pytest.MonkeyPatch) -> None:
    """The coordinator of a later leader epoch refuses every commit."""
    lead = GroupCoordinator.lead

    def lead_first(self: GroupCoordinator, partition: Replica) -> None:
        if partition.leader_epoch == 0:
            lead(self, partition)

    patch.setattr(GroupCoordinator, "lead", lead_first)
