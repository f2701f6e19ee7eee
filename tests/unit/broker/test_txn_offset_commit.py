"""TxnOffsetCommit on a broker, to the marker and to stable offsets."""

import pytest

from sawlog.cluster.internal_topics import CONSUMER_OFFSETS
from sawlog.coordinator.partition_for import partition_for
from sawlog.core.errors import ErrorCode
from sawlog.core.ids import LeaderEpoch
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.protocol.messages.offset_fetch_request import OffsetFetchRequest
from sawlog.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from sawlog.simulation.simulated_broker import Call, SimulatedMachine
from support.broker.groups import (
    PARTITIONS,
    committed,
    fetch_group,
    fetched,
    id_of,
    is_ready,
    machine_with_groups,
    reboot,
)
from support.broker.images import OTHER, change_partition, replicate
from support.broker.transactions import TRANSACTION_KEYS, TransactionalProducer

E = ErrorCode
GROUP = next(name for name in map(str, range(99)) if partition_for(name, PARTITIONS) == 0)
"""A group of the first partition."""

OFFSETS = CONSUMER_OFFSETS.name
NEWEST, OLD = 6, 3
UNSTABLE = (-1, "", int(E.UNSTABLE_OFFSET_COMMIT))
NOTHING = (-1, "", 0)


class Producer(TransactionalProducer):
    """A producer that commits offsets for partition 0 of `t`."""

    def message(self, offset: int, topic: str | bytes = "t") -> TxnOffsetCommitRequest:
        named = TxnOffsetCommitRequestTopic(
            partitions=[TxnOffsetCommitRequestPartition(0, offset, -1, "")]
        )
        setattr(named, "name" if isinstance(topic, str) else "topic_id", topic)
        return TxnOffsetCommitRequest(self.id, GROUP, self.producer_id, self.epoch, topics=[named])

    def send_offset(self, offset: int, version: int = 5) -> Call:
        return self.machine.send(self.message(offset), version)

    def commit_offset(self, offset: int, version: int = 5) -> ErrorCode:
        return code(self.machine.ask(self.message(offset), version))


def code(response: object) -> ErrorCode:
    (found,) = committed(response).values()
    return E(found)


def producer_on(machine: SimulatedMachine, name: str = "x", *, is_old: bool = False) -> Producer:
    machine.ask(FindCoordinatorRequest(key_type=TRANSACTION_KEYS, coordinator_keys=[name]))
    machine.schedule.run_for(500)
    producer = Producer(machine, name, is_old=is_old)
    assert producer.init() is E.NONE
    return producer


def machine_with_both(**settings: str) -> SimulatedMachine:
    return machine_with_groups(transaction_state_log_num_partitions="1", **settings)


def stable(machine: SimulatedMachine) -> tuple[int, str, int]:
    asked = OffsetFetchRequest(groups=[fetch_group(GROUP, {"t": [0]})], require_stable=True)
    [group] = machine.ask(asked, 9).groups
    return fetched(group)["t", 0]


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_are_pending_until_the_transaction_ends(is_old: bool, is_commit: bool) -> None:
    machine = machine_with_both()
    producer = producer_on(machine, is_old=is_old)
    if is_old:
        assert producer.add_offsets(GROUP) is E.NONE
    for offset in (5, 6):
        assert producer.commit_offset(offset, OLD if is_old else 5) is E.NONE
        assert stable(machine) == UNSTABLE
    reboot(machine)
    assert stable(machine) == UNSTABLE
    machine.schedule.run_for(500)
    assert producer.end(is_commit=is_commit) is E.NONE
    machine.schedule.run_for(500)
    expected = (6, "", 0) if is_commit else NOTHING
    assert stable(machine) == expected
    reboot(machine)
    assert stable(machine) == expected


def test_an_older_client_must_have_added_the_partition() -> None:
    machine = machine_with_both()
    producer = producer_on(machine, is_old=True)
    assert producer.commit_offset(5, OLD) is E.INVALID_TXN_STATE
    assert producer.commit_offset(5, 4) is E.TRANSACTION_ABORTABLE
    assert stable(machine) == NOTHING


def test_without_verification_an_older_client_is_trusted() -> None:
    machine = machine_with_both(transaction_partition_verification_enable="false")
    producer = producer_on(machine, is_old=True)
    assert producer.commit_offset(5, OLD) is E.NONE
    assert stable(machine) == UNSTABLE


def test_the_newest_version_names_topics_by_id() -> None:
    machine = machine_with_both()
    producer = producer_on(machine)
    topic_id = id_of(machine, "t")
    answer = machine.ask(producer.message(5, topic_id), NEWEST)
    assert committed(answer) == {(topic_id, 0): 0}
    unknown = machine.ask(producer.message(5, bytes(range(16))), NEWEST)
    assert code(unknown) is E.UNKNOWN_TOPIC_ID
    producer.end()
    machine.schedule.run_for(500)
    assert stable(machine) == (5, "", 0)


def test_a_transaction_that_times_out_drops_its_offsets() -> None:
    machine = machine_with_both(transaction_abort_timed_out_transaction_cleanup_interval_ms="100")
    producer = producer_on(machine)
    assert producer.init(timeout_ms=1_000) is E.NONE
    assert producer.commit_offset(5) is E.NONE
    machine.schedule.run_for(3_000)
    assert stable(machine) == NOTHING
    assert producer.commit_offset(6) is E.INVALID_PRODUCER_EPOCH


def test_a_fenced_producer_cannot_commit() -> None:
    machine = machine_with_both()
    producer = producer_on(machine)
    assert producer.commit_offset(5) is E.NONE
    later = Producer(machine, "x")
    assert later.init() is E.CONCURRENT_TRANSACTIONS
    machine.schedule.run_for(500)
    assert later.init() is E.NONE
    assert producer.commit_offset(6) is E.INVALID_PRODUCER_EPOCH
    assert stable(machine) == NOTHING


def test_a_coordinator_that_moved_during_the_verification_refuses() -> None:
    machine = machine_with_both()
    producer = producer_on(machine)
    replicate(machine, topic=OFFSETS)
    call = producer.send_offset(5)
    assert not call.is_done
    state = machine.broker.metadata.image.partition(OFFSETS, 0)
    assert state is not None
    epoch = LeaderEpoch(state.leader_epoch + 1)
    change_partition(machine, OFFSETS, leader=OTHER, leader_epoch=epoch)
    assert machine.schedule.run(lambda: call.is_done)
    assert code(call.answered) is E.NOT_COORDINATOR


def test_a_loading_coordinator_is_retried() -> None:
    machine = machine_with_both()
    producer = producer_on(machine)
    machine.kill()
    machine.boot()
    assert not is_ready(machine)
    assert producer.commit_offset(5) is E.COORDINATOR_LOAD_IN_PROGRESS
    machine.kill()
    machine.boot()
    assert producer.commit_offset(5, 1) is E.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("index", [0, 99])
def test_a_marker_for_a_partition_that_is_not_led_is_refused(index: int) -> None:
    machine = machine_with_both()
    groups = machine.broker.groups
    groups.resign(0)
    found = []
    groups.complete_transaction(
        index, 1, 1, 0, is_commit=True, transaction_version=2, done=found.append
    )
    assert [error.code for error in found if error is not None] == [E.NOT_COORDINATOR]
