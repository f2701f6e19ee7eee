"""Parked requests: completed once, expired, abandoned by their client, or left to a shutdown."""

import pytest

from sawlog.broker.purgatory import Purgatory
from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sawlog.simulation.schedule import Schedule
from sawlog.simulation.simulated_broker import SimulatedClient
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

A_DAY_MS = 24 * 3600 * 1000
LATEST = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, -1, -1)])])


class Parked:
    """A delayed request that records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def expire(self) -> None:
        self.calls.append("expire")

    def abandon(self) -> None:
        self.calls.append("abandon")

    def shut_down(self) -> None:
        self.calls.append("shut down")


@pytest.fixture
def schedule() -> Schedule:
    return Schedule(1)


@pytest.fixture
def purgatory(schedule: Schedule) -> Purgatory:
    return Purgatory(schedule)


def test_request_expires_at_its_timeout(purgatory: Purgatory, schedule: Schedule) -> None:
    client, parked = SimulatedClient(), Parked()
    purgatory.park(client, parked, 100)
    schedule.run_for(99)
    assert parked.calls == []
    schedule.run_for(1)
    assert parked.calls == ["expire"]
    assert purgatory.complete(client, parked)
    assert len(purgatory) == 0


def test_completed_request_does_not_expire(purgatory: Purgatory, schedule: Schedule) -> None:
    client, parked = SimulatedClient(), Parked()
    purgatory.park(client, parked, 100)
    assert purgatory.complete(client, parked)
    assert not purgatory.complete(client, parked)
    schedule.run_for(1_000)
    assert parked.calls == []


def test_request_without_timeout_waits(purgatory: Purgatory, schedule: Schedule) -> None:
    client, parked = SimulatedClient(), Parked()
    purgatory.park(client, parked, None)
    schedule.run_for(A_DAY_MS)
    assert parked.calls == []
    assert purgatory.complete(client, parked)


def test_client_that_disconnects_abandons_its_requests_only(
    purgatory: Purgatory, schedule: Schedule
) -> None:
    leaving, staying = SimulatedClient(), SimulatedClient()
    first, second, other = Parked(), Parked(), Parked()
    purgatory.park(leaving, first, 100)
    purgatory.park(leaving, second, None)
    purgatory.park(staying, other, 100)
    purgatory.abandon(leaving)
    schedule.run_for(1_000)
    assert (first.calls, second.calls, other.calls) == (["abandon"], ["abandon"], ["expire"])


def test_shutdown_reaches_every_parked_request(purgatory: Purgatory) -> None:
    client, parked = SimulatedClient(), Parked()
    purgatory.park(client, parked, 100)
    purgatory.shut_down()
    assert parked.calls == ["shut down"]
    assert len(purgatory) == 1


def test_parked_fetches_of_a_disconnected_client_stop_watching_partitions() -> None:
    machine = machine_with_topic(partitions=3)
    for _ in range(5):
        machine.send(fetch(0, 0, 0, max_wait_ms=A_DAY_MS), NAMED)
    assert len(machine.broker.purgatory) == 5
    call = machine.send(fetch(0, max_wait_ms=A_DAY_MS), NAMED)
    machine.broker.disconnected(call.client)
    assert len(machine.broker.purgatory) == 0
    assert not any(replica._listeners for replica in machine.broker.replicas.by_partition.values())
    machine.ask(produce(batch_of(machine, b"a")), NAMED)
    machine.schedule.run_for(2 * A_DAY_MS)
    assert not call.is_done


def test_parked_produce_and_list_offsets_of_a_disconnected_client_are_not_answered() -> None:
    machine = machine_with_topic()
    written = machine.send(produce(batch_of(machine, b"a")), NAMED)
    listed = machine.send(LATEST)
    assert len(machine.broker.purgatory) == 2
    machine.broker.disconnected(written.client)
    assert len(machine.broker.purgatory) == 0
    machine.schedule.run_for(A_DAY_MS)
    assert not written.is_done
    assert not listed.is_done
    assert values(machine.ask(fetch(0), NAMED)) == [[b"a"]]


def test_committed_produce_leaves_the_purgatory() -> None:
    machine = machine_with_topic(partitions=2)
    batch = batch_of(machine, b"a")
    call = machine.send(produce(batch, batch), NAMED)
    assert len(machine.broker.purgatory) == 1
    assert machine.schedule.run(lambda: call.is_done)
    assert answers(call.answered) == [(0, 0), (0, 0)]
    assert len(machine.broker.purgatory) == 0


def test_expired_produce_is_answered_once_with_a_timeout() -> None:
    machine = machine_with_topic()
    machine.disk.hold()
    call = machine.send(produce(batch_of(machine, b"a"), timeout_ms=5_000), NAMED)
    machine.schedule.run_for(5_000)
    assert answers(call.answered) == [(int(ErrorCode.REQUEST_TIMED_OUT), -1)]
    assert len(machine.broker.purgatory) == 0
    machine.disk.resume()
    machine.schedule.run_for(1_000)  # the commit comes too late; a second answer would fail


def test_stopping_broker_answers_parked_requests() -> None:
    machine = machine_with_topic()
    reader = machine.send(fetch(0, max_wait_ms=A_DAY_MS), NAMED)
    writer = machine.send(produce(batch_of(machine, b"a")), NAMED)
    stopped: list[bool] = []
    machine.broker.stop(lambda: stopped.append(True))
    assert machine.schedule.run(lambda: bool(stopped))
    assert reader.is_done
    assert answers(writer.answered) == [(0, 0)]
    assert len(machine.broker.purgatory) == 0
    machine.kill()
    machine.boot()
    assert values(machine.ask(fetch(0), NAMED)) == [[b"a"]]


def test_watermarks_that_move_in_one_turn_cause_one_read() -> None:
    machine = machine_with_topic(partitions=20)
    call = machine.send(fetch(*[0] * 20, max_wait_ms=A_DAY_MS, min_bytes=1 << 19), NAMED)
    (parked,) = next(iter(machine.broker.purgatory._by_client.values()))
    machine.ask(produce(*[batch_of(machine, b"a")] * 20), NAMED)
    parked.offset_moved()
    planned = parked._next_read
    parked.offset_moved()
    assert parked._next_read is planned
    machine.schedule.run_for(1)
    assert not call.is_done
