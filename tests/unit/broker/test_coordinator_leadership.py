"""A group coordinator answers only in the leader epoch in which it wrote (guarantee 17)."""

import pytest

from sawlog.cluster.internal_topics import CONSUMER_OFFSETS
from sawlog.coordinator.partition_for import partition_for
from sawlog.core.errors import ErrorCode
from sawlog.core.ids import LeaderEpoch
from sawlog.simulation.simulated_broker import NODE, SimulatedMachine
from support.broker.groups import (
    PARTITIONS,
    commit,
    commit_request,
    committed,
    fetch,
    is_ready,
    machine_with_groups,
)
from support.broker.images import OTHER, change_partition, replicate

TOPIC = CONSUMER_OFFSETS.name
GROUP = next(name for name in map(str, range(99)) if partition_for(name, PARTITIONS) == 0)
"""A group of the first partition."""

T0 = ("t", 0)
NOT_COORDINATOR = int(ErrorCode.NOT_COORDINATOR)
NOT_AVAILABLE = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def next_epoch(machine: SimulatedMachine, steps: int = 1) -> LeaderEpoch:
    state = machine.broker.metadata.image.partition(TOPIC, 0)
    assert state is not None
    return LeaderEpoch(state.leader_epoch + steps)


def test_a_coordinator_resigns_when_its_broker_loses_the_partition() -> None:
    machine = machine_with_groups()
    replicate(machine, topic=TOPIC)
    change_partition(machine, TOPIC, leader=OTHER, leader_epoch=next_epoch(machine))
    assert 0 not in machine.broker.groups.runtimes
    assert commit(machine, GROUP, {T0: 5}) == {T0: NOT_COORDINATOR}


@pytest.mark.parametrize("leader", [OTHER, NODE])
def test_a_commit_of_an_ended_epoch_is_not_confirmed(leader: int) -> None:
    machine = machine_with_groups()
    replicate(machine, OTHER, topic=TOPIC)
    call = machine.send(commit_request(GROUP, {T0: 5}), 9)
    machine.schedule.run_for(100)
    assert not call.is_done
    change_partition(machine, TOPIC, leader=leader, leader_epoch=next_epoch(machine))
    assert committed(call.answered) == {T0: NOT_COORDINATOR}


def test_a_coordinator_that_regains_its_partition_loads_it_again() -> None:
    """Even if the image skips the epoch in between, in which its records were replaced."""
    machine = machine_with_groups()
    replica = replicate(machine, topic=TOPIC)
    assert commit(machine, GROUP, {T0: 5}) == {T0: 0}
    assert fetch(machine, GROUP, {"t": [0]}) == {T0: (5, "", 0)}
    replica.log.truncate(0)
    change_partition(machine, TOPIC, leader=NODE, leader_epoch=next_epoch(machine, 2))
    assert machine.schedule.run(lambda: is_ready(machine))
    assert fetch(machine, GROUP, {"t": [0]}) == {T0: (-1, "", 0)}


def test_a_coordinator_keeps_its_state_while_the_epoch_goes_on() -> None:
    machine = machine_with_groups()
    replicate(machine, topic=TOPIC)
    runtime = machine.broker.groups.runtimes[0]
    change_partition(machine, TOPIC, isr=(NODE,), partition_epoch=100)
    assert machine.broker.groups.runtimes[0] is runtime


def test_commits_need_the_minimum_of_in_sync_replicas() -> None:
    machine = machine_with_groups(min_insync_replicas="2")
    replicate(machine, topic=TOPIC)
    end_offset = machine.broker.replicas.leader(TOPIC, 0).log.end_offset
    assert commit(machine, GROUP, {T0: 5}) == {T0: NOT_AVAILABLE}
    assert machine.broker.replicas.leader(TOPIC, 0).log.end_offset == end_offset


def test_a_waiting_commit_fails_when_the_in_sync_set_becomes_too_small() -> None:
    machine = machine_with_groups(min_insync_replicas="2")
    replicate(machine, OTHER, topic=TOPIC)
    call = machine.send(commit_request(GROUP, {T0: 5}), 9)
    machine.schedule.run_for(100)
    assert not call.is_done
    change_partition(machine, TOPIC, isr=(NODE,), partition_epoch=100)
    assert committed(call.answered) == {T0: NOT_AVAILABLE}


def test_a_sole_replica_is_enough_where_the_topic_has_no_other() -> None:
    machine = machine_with_groups(min_insync_replicas="2")
    assert commit(machine, GROUP, {T0: 5}) == {T0: 0}
