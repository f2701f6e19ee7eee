"""The coordinator runtime writes records of transactions and their markers."""

from typing import Any

import pytest

from sawlog.coordinator.plan import Plan, ProducerIdentity
from sawlog.coordinator.runtime import State
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import ProducerId
from sawlog.groups.offsets.committed_offset import CommittedOffset
from sawlog.groups.offsets.offset_table import GroupPartition
from sawlog.protocol.control_records import ControlType, EndTransactionMarker
from sawlog.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sawlog.protocol.record_batch import batches_in
from sawlog.storage.transaction_verification import VerificationGuard
from support.groups.classic_group import COMMIT_MS, ClassicWorld
from support.storage.logs import read

PRODUCER = ProducerIdentity("x", ProducerId(7), 3)
PLACE = GroupPartition("g", "t", 0)
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


class World(ClassicWorld):
    """A group machine on a disk; offsets are committed for one partition."""

    def verify(self, producer: ProducerIdentity = PRODUCER) -> VerificationGuard | None:
        return self.runtime.begin_verification(producer, supports_epoch_bump=True)

    def commit(self, offset: int, guard: VerificationGuard | None, **changes: Any) -> list[Any]:
        """Commit an offset in the transaction; the list gets the reply or the error code."""
        topic = OffsetCommitRequestTopic(
            "t", bytes(16), [OffsetCommitRequestPartition(0, offset, committed_metadata="")]
        )
        message = OffsetCommitRequest("g", topics=[topic])
        producer = PRODUCER._replace(**changes)

        def operation() -> Plan[Any]:
            requests = self.runtime.machine.offset_requests
            return requests.commit_in_transaction(message, producer)

        answers: list[Any] = []
        self.runtime.run(operation, answers.append, lambda error: answers.append(error.code), guard)
        return answers

    def end(
        self, kind: ControlType, epoch: int = 4, *, coordinator_epoch: int = 0
    ) -> list[ErrorCode]:
        """Write a marker of transaction version 2; the list gets the outcome."""
        found: list[ErrorCode] = []
        self.runtime.end_transaction(
            PRODUCER.producer_id,
            epoch,
            EndTransactionMarker(kind, coordinator_epoch),
            2,
            lambda error: found.append(ErrorCode.NONE if error is None else error.code),
        )
        return found

    @property
    def committed(self) -> CommittedOffset | None:
        return self.runtime.machine.offsets.get(*PLACE)

    @property
    def is_pending(self) -> bool:
        return PLACE in self.runtime.machine.offsets.pending


def test_the_records_of_a_transaction_are_one_transactional_batch() -> None:
    world = World()
    answers = world.commit(5, world.verify())
    assert answers == []
    world.pass_ms(COMMIT_MS)
    assert len(answers) == 1
    found = read(world.partition.log, 0)
    assert found is not None
    [(_, header)] = batches_in(found.read())
    assert header.is_transactional
    assert not header.is_control
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)


def test_a_transaction_begins_only_with_its_guard() -> None:
    world = World()
    assert world.commit(5, None) == [ErrorCode.INVALID_TXN_STATE]
    assert world.commit(5, VerificationGuard()) == [ErrorCode.INVALID_TXN_STATE]
    assert not world.is_pending
    world.commit(5, world.verify())
    assert world.is_pending
    assert world.verify() is None
    world.commit(6, None)
    world.end(COMMIT)
    assert world.committed is not None
    assert world.committed.offset == 6


def test_a_guard_is_worthless_after_a_marker() -> None:
    world = World()
    guard = world.verify()
    world.end(ABORT)
    assert world.commit(5, guard, producer_epoch=4) == [ErrorCode.INVALID_TXN_STATE]


@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_a_marker_ends_the_transaction_before_and_after_a_restart(kind: ControlType) -> None:
    for restarts in (False, True):
        world = World()
        world.commit(5, world.verify())
        world.pass_ms(COMMIT_MS)
        if restarts:
            world.restart()
        assert world.is_pending
        outcome = world.end(kind)
        assert outcome == []
        world.pass_ms(COMMIT_MS)
        assert outcome == [ErrorCode.NONE]
        for _ in range(2):
            assert not world.is_pending
            assert (world.committed is not None) is (kind is COMMIT)
            world.restart()


def test_a_fenced_marker_changes_nothing() -> None:
    world = World()
    world.commit(5, world.verify())
    end_offset = world.partition.log.end_offset
    assert world.end(COMMIT, epoch=3) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert world.end(COMMIT, epoch=2) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert world.is_pending
    assert world.partition.log.end_offset == end_offset


def test_a_marker_of_a_deposed_coordinator_changes_nothing() -> None:
    world = World()
    world.end(ABORT, coordinator_epoch=5)
    later = PRODUCER._replace(producer_epoch=4)
    world.commit(5, world.verify(later), producer_epoch=4)
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert world.end(COMMIT, epoch=5, coordinator_epoch=4) == [fenced]
    assert world.is_pending
    assert world.committed is None


def test_a_fenced_producer_cannot_begin() -> None:
    world = World()
    world.end(ABORT)
    with pytest.raises(KafkaError) as refused:
        world.verify()
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_closed_runtime_takes_no_marker() -> None:
    world = World()
    world.runtime.close(KafkaError(ErrorCode.NOT_COORDINATOR))
    assert world.end(COMMIT) == [ErrorCode.NOT_COORDINATOR]
    with pytest.raises(KafkaError):
        world.verify()


def test_a_marker_that_cannot_be_applied_closes_the_runtime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.commit(5, world.verify())

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(world.runtime.machine, "end_transaction", fail)
    assert world.end(COMMIT) == [ErrorCode.NOT_COORDINATOR]
    assert world.runtime.state is State.CLOSED
    world.restart()
    assert world.committed is not None
