"""Transactional producers and coordinators of one log."""

from dataclasses import dataclass, replace

from sawlog.protocol.control_records import ControlType, EndTransactionMarker, marker_batch
from sawlog.protocol.record_batch import read_header
from sawlog.protocol.records import build_batch
from sawlog.storage.append_origin import AppendOrigin
from sawlog.storage.appended import Appended
from sawlog.storage.log import Log
from support.storage.logs import records

ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


@dataclass(frozen=True)
class TransactionalProducer:
    """A producer id with its epoch and its next sequence number."""

    log: Log
    producer_id: int = 7
    epoch: int = 0
    sequence: int = 0
    leader_epoch: int = 0

    def send(self, count: int = 1, *, is_verified: bool = True) -> "TransactionalProducer":
        """Append a transactional batch, after the verification that its first one needs."""
        guard = None
        if is_verified:
            guard = self.log.begin_verification(
                self.producer_id, self.sequence, self.epoch, supports_epoch_bump=False
            )
        batch = self.batch(count)
        self.log.append(memoryview(batch), read_header(batch), self.leader_epoch, guard=guard)
        return replace(self, sequence=self.sequence + count)

    def batch(self, count: int = 1) -> bytearray:
        return build_batch(
            records(count),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )

    def end(self, outcome: ControlType, *, coordinator_epoch: int = 0) -> "TransactionalProducer":
        """Append a marker of this epoch (transaction version 1)."""
        append_marker(
            self.log,
            outcome,
            self.producer_id,
            self.epoch,
            coordinator_epoch=coordinator_epoch,
            leader_epoch=self.leader_epoch,
        )
        return self

    def end_with_bump(self, outcome: ControlType) -> "TransactionalProducer":
        """Append a marker of the next epoch, in which the producer goes on (version 2)."""
        append_marker(
            self.log,
            outcome,
            self.producer_id,
            self.epoch + 1,
            transaction_version=2,
            leader_epoch=self.leader_epoch,
        )
        return replace(self, epoch=self.epoch + 1, sequence=0)


def append_marker(
    log: Log,
    outcome: ControlType,
    producer_id: int = 7,
    epoch: int = 0,
    *,
    coordinator_epoch: int = 0,
    transaction_version: int = 1,
    leader_epoch: int = 0,
    origin: AppendOrigin = AppendOrigin.COORDINATOR,
) -> Appended:
    marker = EndTransactionMarker(outcome, coordinator_epoch)
    batch = marker_batch(marker, producer_id, epoch, 1_700_000_000_000)
    return log.append(
        memoryview(batch),
        read_header(batch),
        leader_epoch,
        origin,
        transaction_version=transaction_version,
    )
