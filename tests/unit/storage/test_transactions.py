"""Transactions of one log: verification, markers, and the last stable offset."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.control_records import ControlType
from sawlog.protocol.record_batch import read_header
from sawlog.protocol.records import build_batch
from sawlog.storage.append_origin import AppendOrigin
from sawlog.storage.log import Log
from sawlog.storage.log_config import LogConfig
from sawlog.storage.producer_state import LAST_EPOCH
from sawlog.storage.transaction_verification import VerificationGuard
from support.storage.logs import SimulatedStorage, append, records
from support.storage.transactions import ABORT, COMMIT, TransactionalProducer, append_marker

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def storage() -> SimulatedStorage:
    return SimulatedStorage()


@pytest.fixture
def log(storage: SimulatedStorage) -> Log:
    return storage.log


def commit_all(log: Log) -> None:
    log.set_high_watermark(log.end_offset)


def verify(log: Log, producer: TransactionalProducer, *, bump: bool = False) -> VerificationGuard:
    guard = log.begin_verification(
        producer.producer_id, producer.sequence, producer.epoch, supports_epoch_bump=bump
    )
    assert guard is not None
    return guard


def send_with(log: Log, producer: TransactionalProducer, guard: VerificationGuard | None) -> None:
    batch = producer.batch()
    log.append(memoryview(batch), read_header(batch), 0, guard=guard)


def error_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        call()
    return error.value.code


# Verification


def test_a_transaction_begins_only_with_its_guard(log: Log) -> None:
    producer = TransactionalProducer(log)
    assert error_of(lambda: producer.send(is_verified=False)) is ErrorCode.INVALID_TXN_STATE
    guard = verify(log, producer)
    assert verify(log, producer) is guard
    foreign = VerificationGuard()
    assert error_of(lambda: send_with(log, producer, foreign)) is ErrorCode.INVALID_TXN_STATE
    assert log.end_offset == 0
    send_with(log, producer, guard)
    assert log.first_unstable_offset == 0


def test_an_open_transaction_needs_no_verification(log: Log) -> None:
    producer = TransactionalProducer(log).send(3)
    guard = log.begin_verification(7, producer.sequence, 0, supports_epoch_bump=False)
    assert guard is None
    producer.send(is_verified=False)


@pytest.mark.parametrize("outcome", [ABORT, COMMIT])
def test_a_marker_overtakes_a_verification(log: Log, outcome: ControlType) -> None:
    producer = TransactionalProducer(log)
    guard = verify(log, producer)
    append_marker(log, outcome)
    assert error_of(lambda: send_with(log, producer, guard)) is ErrorCode.INVALID_TXN_STATE
    assert log.first_unstable_offset is None


def test_a_coordinator_needs_a_guard_too(log: Log) -> None:
    batch = build_batch(records(1), producer_id=7, producer_epoch=0, transactional=True)
    header = read_header(batch)

    def write(guard: VerificationGuard | None) -> None:
        log.append(memoryview(batch), header, 0, AppendOrigin.COORDINATOR, guard)

    assert error_of(lambda: write(None)) is ErrorCode.INVALID_TXN_STATE
    write(log.begin_verification(7, -1, 0, supports_epoch_bump=False))
    write(None)
    assert (log.end_offset, log.first_unstable_offset) == (2, 0)


def test_a_fenced_producer_is_not_verified(log: Log) -> None:
    append_marker(log, ABORT, epoch=3)
    stale = TransactionalProducer(log, epoch=2)
    assert error_of(lambda: verify(log, stale)) is ErrorCode.INVALID_PRODUCER_EPOCH
    batch = build_batch(records(1), producer_id=7, producer_epoch=2, transactional=True)
    header = read_header(batch)
    assert (
        error_of(lambda: log.append(memoryview(batch), header, 0, AppendOrigin.COORDINATOR))
        is ErrorCode.INVALID_PRODUCER_EPOCH
    )


def test_a_higher_sequence_waits_for_the_lowest_that_is_verified(log: Log) -> None:
    first = TransactionalProducer(log, sequence=0)
    second = replace(first, sequence=5)
    guard = verify(log, second)
    verify(log, first)
    code = error_of(lambda: send_with(log, second, guard))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send_with(log, first, guard)


def test_a_higher_epoch_resets_the_lowest_sequence(log: Log) -> None:
    verify(log, TransactionalProducer(log, sequence=3))
    guard = verify(log, TransactionalProducer(log, epoch=1, sequence=4))
    send_with(log, TransactionalProducer(log, epoch=1, sequence=4), guard)
    assert log.end_offset == 1


def test_with_bumped_epochs_a_new_producer_begins_with_sequence_0(log: Log) -> None:
    producer = TransactionalProducer(log, sequence=5)
    guard = verify(log, producer, bump=True)
    code = error_of(lambda: send_with(log, producer, guard))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_verification_expires_with_the_producer_id(storage: SimulatedStorage) -> None:
    log = storage.log
    producer = TransactionalProducer(log)
    guard = verify(log, producer)
    storage.schedule.run_for(DAY_MS + 600_001)
    assert error_of(lambda: send_with(log, producer, guard)) is ErrorCode.INVALID_TXN_STATE


def test_verification_can_be_switched_off() -> None:
    log = SimulatedStorage(LogConfig(verifies_transactions=False)).log
    TransactionalProducer(log).send(is_verified=False)
    assert log.first_unstable_offset == 0


def test_a_repeated_batch_is_a_duplicate_without_a_guard(log: Log) -> None:
    producer = TransactionalProducer(log)
    producer.send()
    producer.end(COMMIT)
    producer.send(is_verified=False)
    assert log.end_offset == 2


# Batches and markers


def test_a_producer_with_an_open_transaction_sends_no_plain_batch(log: Log) -> None:
    TransactionalProducer(log).send()

    def send_plain(epoch: int, sequence: int) -> None:
        append(log, records(1), producer_id=7, producer_epoch=epoch, base_sequence=sequence)

    assert error_of(lambda: send_plain(0, 1)) is ErrorCode.INVALID_TXN_STATE
    assert error_of(lambda: send_plain(1, 0)) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("origin", [AppendOrigin.CLIENT, AppendOrigin.REPLICATION])
def test_only_a_coordinator_appends_markers(log: Log, origin: AppendOrigin) -> None:
    assert error_of(lambda: append_marker(log, ABORT, origin=origin)) is ErrorCode.INVALID_RECORD


def test_a_marker_of_an_older_epoch_is_fenced(log: Log) -> None:
    TransactionalProducer(log, epoch=4).send()
    code = error_of(lambda: append_marker(log, COMMIT, epoch=3))
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH
    append_marker(log, COMMIT, epoch=4)


def test_a_marker_of_version_2_ends_a_transaction_only_with_a_higher_epoch(log: Log) -> None:
    TransactionalProducer(log, epoch=4).send()
    code = error_of(lambda: append_marker(log, COMMIT, epoch=4, transaction_version=2))
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH
    append_marker(log, COMMIT, epoch=5, transaction_version=2)
    append_marker(log, COMMIT, epoch=5, transaction_version=2)  # repeated: KAFKA-19999
    commit_all(log)
    assert (log.end_offset, log.last_stable_offset) == (3, 3)


def test_the_highest_epoch_ends_its_own_transaction(log: Log) -> None:
    TransactionalProducer(log, epoch=LAST_EPOCH).send()
    append_marker(log, ABORT, epoch=LAST_EPOCH, transaction_version=2)
    commit_all(log)
    assert log.last_stable_offset == 2


def test_a_deposed_coordinator_is_fenced(log: Log) -> None:
    TransactionalProducer(log).send().end(COMMIT, coordinator_epoch=5)
    code = error_of(lambda: append_marker(log, ABORT, coordinator_epoch=4))
    assert code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    append_marker(log, ABORT, coordinator_epoch=5)


def test_a_marker_with_a_new_epoch_fences_the_producer(log: Log) -> None:
    producer = TransactionalProducer(log).send()
    append_marker(log, ABORT, epoch=1)
    assert error_of(producer.send) is ErrorCode.INVALID_PRODUCER_EPOCH
    TransactionalProducer(log, epoch=1).send()


def test_a_producer_with_an_open_transaction_never_expires(storage: SimulatedStorage) -> None:
    TransactionalProducer(storage.log).send()
    TransactionalProducer(storage.log, producer_id=8).send().end(COMMIT)
    storage.schedule.run_for(2 * DAY_MS)
    assert list(storage.log.producer_states.states) == [7]


# The last stable offset


def test_the_example_of_the_docstring(log: Log) -> None:
    append(log, records(10))
    TransactionalProducer(log, producer_id=1).send(2)
    TransactionalProducer(log, producer_id=2).send(2)
    log.set_high_watermark(13)
    assert (log.first_unstable_offset, log.last_stable_offset) == (10, 10)
    append_marker(log, ABORT, producer_id=1)
    assert (log.first_unstable_offset, log.last_stable_offset) == (10, 10)
    log.set_high_watermark(15)
    assert (log.first_unstable_offset, log.last_stable_offset) == (12, 12)


def test_the_last_stable_offset_is_never_above_the_high_watermark(log: Log) -> None:
    append(log, records(10))
    log.set_high_watermark(4)
    assert log.last_stable_offset == 4
    TransactionalProducer(log).send()
    assert (log.first_unstable_offset, log.last_stable_offset) == (10, 4)


def test_a_marker_without_a_transaction_changes_nothing(log: Log) -> None:
    append(log, records(3))
    append_marker(log, ABORT)
    assert log.first_unstable_offset is None
    commit_all(log)
    assert log.last_stable_offset == 4


def test_deleted_records_of_an_open_transaction_do_not_hold_it_below_the_start(log: Log) -> None:
    TransactionalProducer(log).send(4)
    commit_all(log)
    log.advance_start(2)
    assert (log.first_unstable_offset, log.last_stable_offset) == (2, 2)


@pytest.mark.parametrize("is_clean", [True, False])
def test_open_transactions_survive_a_restart(storage: SimulatedStorage, is_clean: bool) -> None:
    append(storage.log, records(3))
    TransactionalProducer(storage.log).send(2)
    TransactionalProducer(storage.log, producer_id=8).send(2).end(COMMIT)
    commit_all(storage.log)
    storage.checkpoint()
    if is_clean:
        storage.restart()
    else:
        storage.recover()
    assert (storage.log.first_unstable_offset, storage.log.last_stable_offset) == (3, 3)
    TransactionalProducer(storage.log, sequence=2).send(is_verified=False).end(ABORT)
    commit_all(storage.log)
    assert storage.log.last_stable_offset == storage.log.end_offset


def test_a_truncated_marker_opens_its_transaction_again(log: Log) -> None:
    producer = TransactionalProducer(log).send(2)
    producer.end(COMMIT)
    log.truncate(2)
    assert log.first_unstable_offset == 0
    log.truncate(0)
    assert log.first_unstable_offset is None


def test_a_follower_takes_markers_as_they_are() -> None:
    leader, follower = SimulatedStorage().log, SimulatedStorage().log
    TransactionalProducer(leader).send(2).end_with_bump(ABORT).send(1)
    for _, position, header in leader.segments.batches_between(0, leader.end_offset):
        data = bytearray(leader.segments.active.file.read(position, header.size))
        follower.append_as_follower(memoryview(data), header)
    assert follower.producer_states.equals_except_timestamps(leader.producer_states)
    assert follower.first_unstable_offset == 0  # the marker is not committed here
    follower.set_high_watermark(4)
    assert follower.first_unstable_offset == 3
