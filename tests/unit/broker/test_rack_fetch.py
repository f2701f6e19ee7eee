"""Consumers that read from a replica in their own rack (KIP-392)."""

from typing import Any

from sawlog.broker.api.fetch import DEBUGGING_CONSUMER
from sawlog.broker.replicas import RACK_AWARE_SELECTOR
from sawlog.core.errors import ErrorCode
from sawlog.core.ids import LeaderEpoch, NodeId
from sawlog.simulation.simulated_broker import SimulatedMachine
from support.broker.images import OTHER, THIRD, change_partition, replicate
from support.broker.replica_fetches import FollowerSession
from support.broker.requests import (
    NAMED,
    TOPIC,
    batch_of,
    fetch,
    machine_with_topic,
    produce,
    values,
)


def led(*isr: NodeId, selector: str = RACK_AWARE_SELECTOR) -> SimulatedMachine:
    """A machine that leads a partition with one committed record, which its followers have."""
    machine = machine_with_topic(replica_selector_class=selector)
    replicate(machine, *isr)
    machine.ask(produce(batch_of(machine, b"a"), acks=1), NAMED)
    machine.schedule.run_for(1_000)
    for node in (OTHER, THIRD):
        FollowerSession(machine, node).ask(1, 1)
    return machine


def read(machine: SimulatedMachine, offset: int, rack: str) -> Any:
    answer = machine.ask(fetch(offset, rack_id=rack), NAMED)
    [topic] = answer.responses
    return topic.partitions[0]


def test_a_consumer_is_sent_to_the_in_sync_replica_in_its_rack() -> None:
    machine = led(OTHER, THIRD)
    for node in (OTHER, THIRD):
        data = read(machine, 0, f"rack-{node}")
        assert (data.error_code, data.preferred_read_replica) == (0, node)
        assert bytes(data.records) == b""


def test_a_consumer_stays_at_the_leader_without_a_better_replica() -> None:
    machine = led(OTHER)
    for rack in ("", "rack-9", f"rack-{THIRD}"):
        data = read(machine, 0, rack)
        assert data.preferred_read_replica == -1
        assert bytes(data.records) != b""


def test_a_consumer_stays_at_the_leader_if_the_replica_lacks_its_offset() -> None:
    machine = led(OTHER, THIRD)
    machine.ask(produce(batch_of(machine, b"b"), acks=1), NAMED)
    assert read(machine, 2, f"rack-{OTHER}").preferred_read_replica == -1


def test_with_the_leader_selector_consumers_read_from_the_leader() -> None:
    machine = led(OTHER, THIRD, selector="org.apache.kafka.common.replica.LeaderSelector")
    assert read(machine, 0, f"rack-{OTHER}").preferred_read_replica == -1


def test_a_follower_serves_consumers_with_a_rack_up_to_its_watermark() -> None:
    machine = led(OTHER)
    change_partition(machine, leader=OTHER, leader_epoch=LeaderEpoch(50))
    assert values(machine.ask(fetch(0, rack_id="r"), NAMED)) == [[b"a"]]
    assert read(machine, 0, "").error_code == int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert read(machine, 1, "r").error_code == 0
    assert read(machine, 2, "r").error_code == int(ErrorCode.OFFSET_NOT_AVAILABLE)
    assert machine.broker.replicas.by_partition[TOPIC, 0].high_watermark == 1


def test_a_follower_serves_the_debugging_consumer_that_compares_replicas() -> None:
    machine = led(OTHER)
    change_partition(machine, leader=OTHER, leader_epoch=LeaderEpoch(50))
    assert values(machine.ask(fetch(0, replica_id=DEBUGGING_CONSUMER), NAMED)) == [[b"a"]]
