"""Replicas follow the image: promoted, demoted, removed; only the leader of an epoch appends."""

from dataclasses import replace

import pytest

from sawlog.cluster.metadata_image import NO_NODE
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import LeaderEpoch, TopicName
from sawlog.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sawlog.replication.roles import Role
from sawlog.simulation.simulated_broker import NODE, SimulatedMachine
from sawlog.storage.checkpointer import INTERVAL_MS
from support.broker.images import OTHER, THIRD, change_partition, replicate
from support.broker.requests import (
    NAMED,
    TOPIC,
    answers,
    batch_of,
    fetch,
    machine_with_topic,
    produce,
    values,
)

NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def epoch_of(machine: SimulatedMachine) -> LeaderEpoch:
    state = machine.broker.metadata.image.partition(TOPIC, 0)
    assert state is not None
    return state.leader_epoch


def next_epoch(machine: SimulatedMachine) -> LeaderEpoch:
    return LeaderEpoch(epoch_of(machine) + 1)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("leader", [OTHER, NO_NODE])
def test_a_deposed_leader_appends_nothing(acks: int, leader: int) -> None:
    machine = machine_with_topic()
    replica = replicate(machine)
    change_partition(machine, leader=leader, leader_epoch=next_epoch(machine))
    answer = machine.ask(produce(batch_of(machine, b"late"), acks=acks), NAMED)
    assert answers(answer) == [(NOT_LEADER, -1)]
    assert replica.log.end_offset == 0
    [topic] = machine.ask(fetch(0), NAMED).responses
    assert topic.partitions[0].error_code == NOT_LEADER


def test_a_demoted_replica_can_lead_again_in_a_later_epoch() -> None:
    machine = machine_with_topic()
    replica = replicate(machine)
    change_partition(machine, leader=OTHER, leader_epoch=next_epoch(machine))
    assert (replica.role, replica.leader_id, replica.leader) == (Role.FOLLOWER, OTHER, None)
    change_partition(machine, leader=NODE, leader_epoch=next_epoch(machine))
    assert replica.role is Role.LEADER
    assert answers(machine.ask(produce(batch_of(machine, b"a")), NAMED)) == [(0, 0)]
    assert replica.log.epochs.latest == epoch_of(machine)


def test_an_older_image_changes_no_role() -> None:
    machine = machine_with_topic()
    replica = replicate(machine)
    epoch = epoch_of(machine)
    replica.lead(LeaderEpoch(epoch + 2), machine.broker.metadata.image.topics[TOPIC].partitions[0])  # type: ignore[index]
    replica.follow(LeaderEpoch(epoch + 1), OTHER)
    assert (replica.role, replica.leader_epoch) == (Role.LEADER, epoch + 2)


def test_a_removed_replica_serves_nothing_and_its_log_is_deleted() -> None:
    machine = machine_with_topic()
    replicate(machine)
    machine.ask(produce(batch_of(machine, b"a")), NAMED)
    change_partition(
        machine, replicas=(OTHER, THIRD), leader=OTHER, leader_epoch=next_epoch(machine)
    )
    answer = machine.ask(produce(batch_of(machine, b"late")), NAMED)
    assert answers(answer) == [(NOT_LEADER, -1)]
    assert len(machine.broker.replicas) == 0
    machine.schedule.run_for(1_000)
    assert not [name for name in machine.disk.list("") if name.startswith(f"{TOPIC}-0")]


def test_a_removed_replica_that_was_not_led_here_is_deleted_too() -> None:
    machine = machine_with_topic()
    replicate(machine)
    change_partition(machine, leader=OTHER, leader_epoch=next_epoch(machine))
    change_partition(machine, replicas=(OTHER, THIRD))
    assert len(machine.broker.replicas) == 0


@pytest.mark.parametrize("leader", [OTHER, NO_NODE, NODE])
def test_waiting_producers_fail_when_the_epoch_ends(leader: int) -> None:
    """A record of the old epoch may be truncated, and another one may be committed in its place."""
    machine = machine_with_topic()
    replica = replicate(machine, OTHER)
    call = machine.send(produce(batch_of(machine, b"lost")), NAMED)
    machine.schedule.run_for(100)
    assert not call.is_done
    change_partition(machine, leader=leader, leader_epoch=next_epoch(machine))
    assert answers(call.answered) == [(NOT_LEADER, -1)]
    assert replica.high_watermark == 0


def test_a_follower_does_not_advance_its_watermark_by_itself() -> None:
    machine = machine_with_topic()
    replica = replicate(machine, OTHER)
    machine.send(produce(batch_of(machine, b"a"), acks=1), NAMED)
    change_partition(machine, leader=OTHER, leader_epoch=next_epoch(machine))
    machine.schedule.run_for(1_000)
    assert replica.log.flushed_offset == 1
    assert replica.high_watermark == 0


def test_the_watermark_starts_from_its_checkpoint_on_a_replica_that_does_not_lead_alone() -> None:
    machine = machine_with_topic()
    replicate(machine, OTHER)
    machine.send(produce(batch_of(machine, b"a"), acks=1), NAMED)
    machine.schedule.run_for(INTERVAL_MS * 2)
    log = machine.broker.replicas.leader(TOPIC, 0).log
    assert (log.flushed_offset, log.high_watermark) == (1, 0)
    change_partition(machine, isr=(NODE,), partition_epoch=100)
    assert log.high_watermark == 1
    machine.schedule.run_for(INTERVAL_MS * 2)
    machine.kill()
    checkpoint = machine.disk.read_file("replication-offset-checkpoint").decode()
    assert f"{TOPIC} 0 1\n" in checkpoint


def test_truncation_lowers_the_only_watermark() -> None:
    machine = machine_with_topic()
    machine.ask(produce(batch_of(machine, b"a")), NAMED)
    machine.ask(produce(batch_of(machine, b"b")), NAMED)
    replica = machine.broker.replicas.leader(TOPIC, 0)
    assert replica.high_watermark == 2
    replica.log.truncate(1)
    assert replica.high_watermark == replica.log.high_watermark == 1


def test_acks_all_needs_the_minimum_of_in_sync_replicas() -> None:
    machine = machine_with_topic(configs={"min.insync.replicas": "2"})
    replica = replicate(machine)
    answer = machine.ask(produce(batch_of(machine, b"a")), NAMED)
    assert answers(answer) == [(int(ErrorCode.NOT_ENOUGH_REPLICAS), -1)]
    assert replica.log.end_offset == 0
    assert answers(machine.ask(produce(batch_of(machine, b"a"), acks=1), NAMED)) == [(0, 0)]
    machine.schedule.run_for(1_000)
    assert replica.high_watermark == 0, "too few replicas have the record"


def test_waiting_producers_fail_when_the_in_sync_set_becomes_too_small() -> None:
    machine = machine_with_topic(configs={"min.insync.replicas": "2"})
    replicate(machine, OTHER)
    call = machine.send(produce(batch_of(machine, b"a")), NAMED)
    machine.schedule.run_for(100)
    assert not call.is_done
    change_partition(machine, isr=(NODE,), partition_epoch=100)
    assert answers(call.answered) == [(int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND), -1)]


def test_producers_succeed_when_the_last_slow_follower_has_left() -> None:
    """KAFKA-13091: the watermark is computed again after the in-sync set has shrunk."""
    machine = machine_with_topic()
    replicate(machine, OTHER)
    call = machine.send(produce(batch_of(machine, b"a")), NAMED)
    machine.schedule.run_for(100)
    assert not call.is_done
    change_partition(machine, isr=(NODE,), partition_epoch=100)
    assert answers(call.answered) == [(0, 0)]
    assert values(machine.ask(fetch(0), NAMED)) == [[b"a"]]


def latest(version: int, machine: SimulatedMachine) -> tuple[int, int]:
    topic = ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, timestamp=-1)])
    [answer] = machine.ask(ListOffsetsRequest(-1, 0, [topic]), version).topics[0].partitions
    return answer.error_code, answer.offset


def test_the_latest_offset_is_not_available_until_the_watermark_reaches_the_epoch() -> None:
    """KIP-207: a former leader may have told a consumer a higher one."""
    machine = machine_with_topic()
    replicate(machine, OTHER)
    machine.ask(produce(batch_of(machine, b"a"), acks=1), NAMED)
    assert latest(9, machine) == (0, 0)
    change_partition(machine, leader_epoch=next_epoch(machine))
    assert latest(9, machine) == (int(ErrorCode.OFFSET_NOT_AVAILABLE), -1)
    assert latest(4, machine) == (int(ErrorCode.LEADER_NOT_AVAILABLE), -1)
    machine.schedule.run_for(1_000)
    change_partition(machine, isr=(NODE,), partition_epoch=100)
    assert latest(9, machine) == (0, 1)


def test_a_consumer_between_watermark_and_log_end_gets_nothing() -> None:
    machine = machine_with_topic()
    replica = replicate(machine, OTHER)
    for value in (b"a", b"b"):
        machine.ask(produce(batch_of(machine, value), acks=1), NAMED)
    machine.schedule.run_for(1_000)
    assert (replica.high_watermark, replica.log.end_offset) == (0, 2)
    for offset in (0, 1, 2):
        assert values(machine.ask(fetch(offset), NAMED)) == [[]]


def test_a_replica_in_no_role_is_refused_by_its_error() -> None:
    machine = machine_with_topic()
    replicate(machine)
    change_partition(machine, leader=NO_NODE)
    assert machine.broker.replicas.by_partition[TOPIC, 0].role is Role.IDLE
    with pytest.raises(KafkaError) as refused:
        machine.broker.replicas.leader(TOPIC, 0)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_partition_that_cannot_be_applied_does_not_keep_the_others_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = machine_with_topic(3)
    broker, old = machine.broker, machine.broker.metadata.image
    before = old.topics[TopicName(TOPIC)]
    epoch = before.partitions[0].leader_epoch
    illegal, *others = (state._replace(leader=OTHER) for state in before.partitions)
    later = (state._replace(leader_epoch=LeaderEpoch(epoch + 1)) for state in others)
    after = replace(before, partitions=(illegal, *later))
    assert broker.try_apply(old, replace(old, topics={before.name: after})) is None
    roles = [broker.replicas.by_partition[TOPIC, index].role for index in range(3)]
    assert roles == [Role.LEADER, Role.FOLLOWER, Role.FOLLOWER]
    assert "partition not applied" in caplog.text


def test_nothing_is_committed_while_a_member_is_not_in_the_assignment() -> None:
    """Guarantee 6: the image may show a removed replica in the in-sync set for a moment."""
    machine = machine_with_topic()
    replica = replicate(machine, OTHER)
    change_partition(machine, replicas=(NODE,), partition_epoch=50)
    machine.send(produce(batch_of(machine, b"a"), acks=1), NAMED)
    machine.schedule.run_for(1_000)
    assert (replica.log.flushed_offset, replica.high_watermark) == (1, 0)
    change_partition(machine, isr=(NODE,), partition_epoch=51)
    assert replica.high_watermark == 1
