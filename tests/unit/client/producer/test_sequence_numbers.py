"""Producer ids and sequence numbers of an idempotent producer."""

from itertools import count

import pytest

from sawlog.client.net.leader_requests import partition_of
from sawlog.client.producer.sequence_numbers import ProducerIdentity, SequenceNumbers
from sawlog.core.errors import ErrorCode, KafkaError

P0, P1 = partition_of("logs", 0), partition_of("logs", 1)


def new() -> SequenceNumbers:
    """Sequences with the producer ids 7, 8, 9 and so on."""
    ids = count(7)
    return SequenceNumbers(lambda: ProducerIdentity(next(ids), 0))


def test_a_partition_gets_the_same_sequence_until_its_batch_is_complete() -> None:
    sequences = new()
    assert sequences.next(P0) == (7, 0, 0)
    assert sequences.next(P0) == (7, 0, 0)
    assert sequences.next(P1) == (7, 0, 0)


def test_a_delivered_batch_moves_the_sequence_of_its_partition_only() -> None:
    sequences = new()
    sequences.on_complete(P0, sequences.next(P0), 10, is_delivered=True)
    assert sequences.next(P0) == (7, 0, 10)
    assert sequences.next(P1) == (7, 0, 0)


def test_completing_a_batch_twice_moves_the_sequence_once() -> None:
    sequences = new()
    sequence = sequences.next(P0)
    for _ in range(2):
        sequences.on_complete(P0, sequence, 10, is_delivered=True)
    assert sequences.next(P0) == (7, 0, 10)


def test_a_failed_batch_starts_all_partitions_over_with_a_new_producer_id() -> None:
    sequences = new()
    sequences.on_complete(P1, sequences.next(P1), 3, is_delivered=True)
    sequences.on_complete(P0, sequences.next(P0), 10, is_delivered=False)
    assert sequences.next(P0) == (8, 0, 0)
    assert sequences.next(P1) == (8, 0, 0)


def test_the_outcome_of_a_batch_with_the_former_producer_id_is_ignored() -> None:
    sequences = new()
    former = sequences.next(P1)
    sequences.on_complete(P0, sequences.next(P0), 1, is_delivered=False)
    current = sequences.next(P1)
    sequences.on_complete(P1, former, 5, is_delivered=True)
    sequences.on_complete(P1, former, 5, is_delivered=False)
    assert sequences.next(P1) == current == (8, 0, 0)


def test_sequences_wrap_around_after_31_bits() -> None:
    sequences = new()
    last = sequences.next(P0)._replace(base_sequence=(1 << 31) - 2)
    sequences.on_complete(P0, last, 5, is_delivered=True)
    assert sequences.next(P0) == (7, 0, 3)


def test_a_refused_producer_id_is_requested_again_by_the_next_batch() -> None:
    replies: list[ProducerIdentity | KafkaError] = [
        KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ""),
        ProducerIdentity(7, 0),
    ]

    def init() -> ProducerIdentity:
        reply = replies.pop(0)
        if isinstance(reply, KafkaError):
            raise reply
        return reply

    sequences = SequenceNumbers(init)
    with pytest.raises(KafkaError):
        sequences.next(P0)
    assert sequences.next(P0) == (7, 0, 0)
