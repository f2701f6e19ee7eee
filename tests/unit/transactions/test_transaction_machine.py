"""The operations of the transaction coordinator on one transactional id."""

from dataclasses import replace
from typing import Any

import pytest

from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import ProducerId
from sawlog.transactions.transaction import MAX_EPOCH, Producer, Transaction
from sawlog.transactions.transaction_state import TransactionState
from support.transactions.transactions import TIMEOUT_MS, V1, V2, TransactionsWorld, partition

S = TransactionState
E = ErrorCode


def begun(*indexes: int, version: int = V2) -> tuple[TransactionsWorld, Producer]:
    """A producer with an open transaction on these partitions."""
    world = TransactionsWorld()
    producer = world.init().producer
    if indexes:
        assert world.add(producer, *indexes, version=version) is E.NONE
    return world, producer


# InitProducerId


def test_a_new_transactional_id_gets_a_new_producer_id_and_epoch_0() -> None:
    world = TransactionsWorld()
    assert world.init().producer == Producer(ProducerId(1000), 0)
    assert world.init("y").producer == Producer(ProducerId(1001), 0)
    assert world.transaction.state is S.EMPTY


def test_each_initialization_raises_the_epoch() -> None:
    world, producer = begun()
    assert world.init().producer == producer._replace(epoch=1)
    assert world.init().producer == producer._replace(epoch=2)


def test_an_initialization_during_a_transaction_aborts_it() -> None:
    world, producer = begun(0, 1)
    assert world.init().error is E.CONCURRENT_TRANSACTIONS
    [prepared] = world.sent
    assert prepared.state is S.PREPARE_ABORT
    assert prepared.partitions == {partition(0), partition(1)}
    assert prepared.epoch == producer.epoch + 1
    with pytest.raises(KafkaError) as refused:
        world.init()
    assert refused.value.code is E.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.transaction.state is S.COMPLETE_ABORT
    assert world.init().producer == producer._replace(epoch=2)
    assert world.add(producer, 0) is E.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_outside_the_limits_is_refused(timeout_ms: int) -> None:
    world = TransactionsWorld()
    with pytest.raises(KafkaError) as refused:
        world.init(timeout_ms=timeout_ms)
    assert refused.value.code is E.INVALID_TRANSACTION_TIMEOUT
    assert not world.written


def test_a_producer_goes_on_with_its_own_epoch_and_may_retry() -> None:
    world, producer = begun()
    after = world.init(expected=producer).producer
    assert after.epoch == producer.epoch + 1
    assert world.init(expected=producer).producer == after  # the response was lost
    other = world.init().producer
    for stale in (producer, after, Producer(ProducerId(7), 0)):
        with pytest.raises(KafkaError) as refused:
            world.init(expected=stale)
        assert refused.value.code is E.PRODUCER_FENCED
    assert world.transaction.producer == other


def test_an_exhausted_epoch_leads_to_a_new_producer_id() -> None:
    world, producer = begun()
    world.put(replace(world.transaction, epoch=MAX_EPOCH - 1))
    last = producer._replace(epoch=MAX_EPOCH - 1)
    renewed = world.init(expected=last).producer
    assert renewed == Producer(ProducerId(1001), 0)
    assert world.init(expected=last).producer == renewed  # the response was lost
    assert world.transaction.previous_producer_id == renewed.id


def test_a_fence_at_the_last_epoch_leads_to_a_new_producer_id() -> None:
    world, producer = begun(0)
    world.put(replace(world.transaction, epoch=MAX_EPOCH - 1))
    assert world.init().error is E.CONCURRENT_TRANSACTIONS
    assert world.transaction.epoch == MAX_EPOCH
    world.write_markers()
    assert world.init().producer == Producer(ProducerId(1001), 0)
    assert producer.id == 1000


def test_the_epoch_that_fences_at_the_last_one_is_given_to_no_producer() -> None:
    world, producer = begun(0)
    world.put(replace(world.transaction, epoch=MAX_EPOCH - 1))
    last = producer._replace(epoch=MAX_EPOCH - 1)
    assert world.init(expected=last).error is E.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.end(last, is_commit=False) is E.PRODUCER_FENCED
    renewed = world.init(expected=last).producer
    assert renewed == Producer(ProducerId(1001), 0)
    assert world.init(expected=last).producer == renewed  # the response was lost


# Partitions


def test_partitions_are_added_to_the_open_transaction() -> None:
    world, producer = begun(0)
    started = world.transaction.start_ms
    world.pass_time(5)
    assert world.add(producer, 1) is E.NONE
    assert world.transaction.partitions == {partition(0), partition(1)}
    assert world.transaction.start_ms == started
    before = len(world.written)
    assert world.add(producer, 0, 1) is E.NONE
    assert len(world.written) == before  # nothing new


def test_partitions_of_another_producer_are_refused() -> None:
    world, producer = begun(0)
    assert world.add(producer, 1, transactional_id="y") is E.INVALID_PRODUCER_ID_MAPPING
    assert world.add(producer._replace(id=ProducerId(7)), 1) is E.INVALID_PRODUCER_ID_MAPPING
    assert world.add(producer._replace(epoch=1), 1) is E.PRODUCER_FENCED
    assert world.transaction.partitions == {partition(0)}


def test_partitions_wait_for_the_end_of_the_transaction_before() -> None:
    world, producer = begun(0)
    after = world.end(producer)
    assert isinstance(after, Producer)
    assert world.add(after, 0) is E.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.add(after, 0) is E.NONE
    assert world.transaction.state is S.ONGOING


def test_a_verification_names_the_partitions_that_are_missing() -> None:
    world, producer = begun(0)
    assert world.verify(producer, 0, 1) == [E.NONE, E.TRANSACTION_ABORTABLE]
    assert world.verify(producer._replace(epoch=9), 0) is E.PRODUCER_FENCED
    assert world.verify(producer._replace(id=ProducerId(7)), 0) is E.INVALID_PRODUCER_ID_MAPPING
    assert world.end(producer, version=V1) == Producer(ProducerId(-1), -1)
    assert world.verify(producer, 0) is E.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.verify(producer, 0) == [E.TRANSACTION_ABORTABLE]


# The end of a transaction


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_epoch_goes_up_with_every_transaction(is_commit: bool) -> None:
    world, producer = begun(0)
    after = world.end(producer, is_commit=is_commit)
    assert after == producer._replace(epoch=1)
    [prepared] = world.sent
    assert (prepared.state is S.PREPARE_COMMIT) == is_commit
    assert prepared.producer == after  # KIP-890: the markers carry the next epoch
    world.write_markers()
    assert world.transaction.state is (S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT)
    assert world.transaction.partitions == frozenset()


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_is_repeated_without_effect(is_commit: bool) -> None:
    world, producer = begun(0)
    after = world.end(producer, is_commit=is_commit)
    assert world.end(producer, is_commit=is_commit) is E.CONCURRENT_TRANSACTIONS
    world.write_markers()
    before = len(world.written)
    assert world.end(producer, is_commit=is_commit) == after
    assert world.end(producer, is_commit=not is_commit) is E.INVALID_TXN_STATE
    assert len(world.written) == before


def test_a_delayed_end_does_not_end_the_next_transaction() -> None:
    """KAFKA-17754."""
    world, producer = begun(0)
    after = world.end(producer)
    assert isinstance(after, Producer)
    world.write_markers()
    assert world.add(after, 0) is E.NONE
    assert world.end(producer) is E.PRODUCER_FENCED
    assert world.transaction.state is S.ONGOING


@pytest.mark.parametrize(
    ("state", "is_commit", "expected"),
    [
        (S.EMPTY, True, E.INVALID_TXN_STATE),
        (S.EMPTY, False, None),
        (S.COMPLETE_COMMIT, True, E.INVALID_TXN_STATE),
        (S.COMPLETE_COMMIT, False, None),
        (S.COMPLETE_ABORT, True, E.INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, False, None),
    ],
)
def test_a_transaction_without_partitions_can_only_be_aborted(
    state: S, is_commit: bool, expected: ErrorCode | None
) -> None:
    world, producer = begun()
    world.put(replace(world.transaction, state=state))
    answer = world.end(producer, is_commit=is_commit)
    if expected is not None:
        assert answer is expected
        return
    assert answer == producer._replace(epoch=1)
    [prepared] = world.sent
    assert prepared.start_ms == world.ms
    world.write_markers()
    assert world.transaction.state is S.COMPLETE_ABORT


def test_the_last_epoch_ends_with_a_new_producer_id() -> None:
    world, producer = begun(0)
    world.put(replace(world.transaction, epoch=MAX_EPOCH - 1))
    last = producer._replace(epoch=MAX_EPOCH - 1)
    after = world.end(last)
    assert after == Producer(ProducerId(1001), 0)
    [prepared] = world.sent
    assert prepared.producer == producer._replace(epoch=MAX_EPOCH)
    assert world.add(Producer(ProducerId(1001), 0), 0) is E.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.transaction.producer == after
    assert world.end(last) == after  # the response was lost
    assert world.add(Producer(ProducerId(1001), 0), 0) is E.NONE


def test_an_older_client_keeps_its_epoch() -> None:
    world, producer = begun(0, version=V1)
    assert world.end(producer, version=V1) == Producer(ProducerId(-1), -1)
    assert world.end(producer, version=V1) is E.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.transaction.producer == producer
    assert world.end(producer, version=V1) == Producer(ProducerId(-1), -1)
    assert world.end(producer, is_commit=False, version=V1) is E.INVALID_TXN_STATE
    assert world.end(producer._replace(epoch=5), version=V1) is E.PRODUCER_FENCED
    assert world.add(producer, 3, version=V1) is E.NONE


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_older_client_cannot_end_a_transaction_without_partitions(is_commit: bool) -> None:
    world, producer = begun()
    assert world.end(producer, is_commit=is_commit, version=V1) is E.INVALID_TXN_STATE


def test_the_end_of_an_unknown_producer_is_refused() -> None:
    world, producer = begun(0)
    foreign = producer._replace(id=ProducerId(7))
    assert world.end(foreign) is E.INVALID_PRODUCER_ID_MAPPING
    assert world.end(foreign, version=V1) is E.INVALID_PRODUCER_ID_MAPPING
    del world.machine.transactions["x"]
    assert world.end(producer) is E.INVALID_PRODUCER_ID_MAPPING


def test_late_markers_of_an_earlier_transaction_complete_nothing() -> None:
    world, producer = begun(0)
    after = world.end(producer)
    assert isinstance(after, Producer)
    [earlier] = world.sent
    world.write_markers()
    assert world.add(after, 0) is E.NONE
    world.end(after)
    world.machine.markers_written("x", earlier.producer)
    world.pass_time(1)
    assert world.transaction.state is S.PREPARE_COMMIT


# Timeouts and expiration


def test_a_transaction_is_aborted_after_its_timeout() -> None:
    world, producer = begun(0)
    world.pass_time(TIMEOUT_MS)
    assert world.state is S.ONGOING
    world.pass_time(10_000)  # the interval of the check
    [prepared] = world.sent
    assert prepared.state is S.PREPARE_ABORT
    world.write_markers()
    assert world.transaction.state is S.COMPLETE_ABORT
    assert world.end(producer) is E.INVALID_TXN_STATE
    assert world.add(producer, 0) is E.PRODUCER_FENCED
    assert world.init(expected=producer).producer == producer._replace(epoch=1)


def test_large_transactions_are_aborted_in_several_batches() -> None:
    world = TransactionsWorld()
    names = [f"x{number}" for number in range(5)]
    for name in names:
        producer = world.init(name).producer
        assert world.add(producer, *range(900), transactional_id=name) is E.NONE
    batches: list[int] = []
    run = world.run

    def count(plan: Plan[Any]) -> Any:
        batches.append(len(plan.entries))
        return run(plan)

    world.run = count  # type: ignore[method-assign]
    world.pass_time(TIMEOUT_MS + 10_000)
    assert [size for size in batches if size] == [2, 2, 1]
    assert [each.transactional_id for each in world.sent] == names


def test_an_unused_transactional_id_is_removed() -> None:
    world = TransactionsWorld(transactional_id_expiration_ms="7200000")
    world.init()
    open_producer = world.init("open", timeout_ms=900_000).producer
    world.put(replace(world.machine.transactions["open"], state=S.PREPARE_COMMIT))
    world.pass_time(3 * 3_600_000)
    assert list(world.machine.transactions) == ["open"]
    assert world.written[-1][1] is None
    assert open_producer.id == 1001


# The load


def test_a_new_coordinator_completes_what_was_prepared() -> None:
    world, producer = begun(0, 1)
    world.end(producer)
    world.sent.clear()
    loaded = world.rebuilt()
    loaded.activate()
    [prepared] = world.sent
    assert prepared.partitions == {partition(0), partition(1)}
    loaded.markers_written("x", prepared.producer)
    world.pass_time(1)
    assert loaded.transactions["x"].state is S.COMPLETE_COMMIT


def test_the_loaded_state_equals_the_live_one() -> None:
    world, producer = begun(0, 1)
    for is_commit in (True, False):
        after = world.end(producer, is_commit=is_commit)
        assert isinstance(after, Producer)
        assert loaded_equals_live(world)
        world.write_markers()
        producer = after
        world.add(producer, 2)
        assert loaded_equals_live(world)
    world.init()
    world.write_markers()
    world.init("y")
    assert loaded_equals_live(world)


def loaded_equals_live(world: TransactionsWorld) -> bool:
    def durable(transaction: Transaction) -> Transaction:
        return replace(transaction, last_epoch=-1)

    live = {name: durable(each) for name, each in world.machine.transactions.items()}
    rebuilt: dict[str, Transaction] = world.rebuilt().transactions
    return rebuilt == live


def test_a_coordinator_that_resigns_writes_no_more_markers() -> None:
    world, _ = begun(0)
    world.machine.deactivate(KafkaError(E.NOT_COORDINATOR))
    assert world.is_cancelled
