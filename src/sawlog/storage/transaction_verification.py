"""Verification of transactions before their first append to a log (KIP-890).

A transactional batch that begins a transaction in a log is appended only with a guard: before the
broker asks the transaction coordinator whether the partition belongs to the transaction, it takes
a guard from the log, and the append shows it. Every transactional append and every marker of the
producer discards its guard, so an answer that a marker has overtaken is worthless, and no
transaction is left open that the coordinator does not know.
"""

from dataclasses import dataclass

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.record_batch import BatchHeader


class VerificationGuard:
    """A proof that a verification began after the last transactional append of its producer. Guards
    are compared by identity."""

    __slots__ = ()


@dataclass(slots=True)
class Verification:
    """The verification of one producer that is under way.

    `lowest_sequence` is the lowest one of `epoch` that was to be verified: a batch with a higher
    one is refused until that one is appended, because its verification may have to be repeated.
    """

    guard: VerificationGuard
    began_ms: int
    epoch: int
    lowest_sequence: int
    supports_epoch_bump: bool

    def extend(self, sequence: int, epoch: int) -> None:
        """Another batch of the producer is to be verified."""
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch, self.lowest_sequence = epoch, sequence

    def check_sequence(self, header: BatchHeader, *, is_new_producer: bool) -> None:
        """OUT_OF_ORDER_SEQUENCE_NUMBER if a batch with a lower sequence comes first. A producer
        whose epoch goes up with every transaction begins each with sequence 0, so without a batch
        in the log it has to begin there."""
        first = header.base_sequence
        if first > self.lowest_sequence:
            raise _out_of_order(header, self.lowest_sequence)
        if first != 0 and self.supports_epoch_bump and is_new_producer:
            raise _out_of_order(header, 0)


class Verifications:
    """The verifications of one log that are under way, by producer id."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def begin(
        self,
        producer_id: int,
        sequence: int,
        epoch: int,
        *,
        supports_epoch_bump: bool,
        now_ms: int,
    ) -> VerificationGuard:
        """The guard of the producer's verification, which begins now unless it is under way."""
        verification = self._by_producer.get(producer_id)
        if verification is None:
            verification = Verification(
                VerificationGuard(), now_ms, epoch, sequence, supports_epoch_bump
            )
            self._by_producer[producer_id] = verification
        else:
            verification.extend(sequence, epoch)
        return verification.guard

    def get(self, producer_id: int) -> Verification | None:
        return self._by_producer.get(producer_id)

    def matches(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        """Whether `guard` is that of the producer's verification."""
        verification = self._by_producer.get(producer_id)
        return verification is not None and verification.guard is guard

    def discard(self, producer_id: int) -> None:
        """A transactional batch of the producer was appended."""
        self._by_producer.pop(producer_id, None)

    def clear(self) -> None:
        """Discard all: the log has lost appends, or its state is read again."""
        self._by_producer.clear()

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Discard the verifications that ended without an append."""
        for producer_id, verification in list(self._by_producer.items()):
            if now_ms - verification.began_ms >= expiration_ms:
                del self._by_producer[producer_id]


def _out_of_order(header: BatchHeader, expected: int) -> KafkaError:
    return KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} sent sequence {header.base_sequence} while sequence"
        f" {expected} is being verified",
    )
