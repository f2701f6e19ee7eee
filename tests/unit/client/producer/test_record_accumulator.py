"""When a batch is sent, and how batches are split into requests."""

from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.retries import Deadline
from sawlog.client.producer.delivery import NO_SEQUENCE, ProducedBatch
from sawlog.client.producer.record_accumulator import RecordAccumulator, split_by_size

LINGER_MS = 5
P0, P1 = partition_of("logs", 0), partition_of("logs", 1)


def batch(partition=P0, opened_ms: float = 100.0, *, is_closed: bool = False) -> ProducedBatch:
    made = ProducedBatch(partition, 1, opened_ms, Deadline(60_000))
    made.is_closed = is_closed
    return made


def accumulator(*batches: ProducedBatch) -> RecordAccumulator:
    made = RecordAccumulator(LINGER_MS)
    for each in batches:
        made.add(each)
    return made


def test_a_batch_is_ready_after_linger_ms() -> None:
    lingering = batch(opened_ms=100)
    queues = accumulator(lingering)
    assert queues.ready(104.9, flushing=False) == []
    assert queues.next_ready_ms(flushing=False) == 105
    assert queues.ready(105, flushing=False) == [lingering]


def test_a_closed_batch_is_ready_at_once() -> None:
    closed = batch(is_closed=True)
    assert accumulator(closed).ready(100, flushing=False) == [closed]


def test_flushing_makes_a_lingering_batch_ready() -> None:
    lingering = batch()
    assert accumulator(lingering).ready(100, flushing=True) == [lingering]


def test_a_batch_with_a_sequence_does_not_linger_again() -> None:
    retried = batch()
    retried.sequence = NO_SEQUENCE
    assert accumulator(retried).ready(100, flushing=False) == [retried]


def test_retry_backoff_holds_back_even_a_closed_batch_while_flushing() -> None:
    retried = batch(is_closed=True)
    assert retried.schedule_retry(100)
    queues = accumulator(retried)
    assert 125 <= retried.retry_at_ms <= 150
    assert queues.ready(100, flushing=True) == []
    assert queues.next_ready_ms(flushing=True) == retried.retry_at_ms
    assert queues.ready(150, flushing=True) == [retried]


def test_a_batch_whose_backoff_exceeds_the_delivery_timeout_is_not_retried() -> None:
    late = ProducedBatch(P0, 1, 0.0, Deadline(10, lambda: 0.0))
    assert not late.schedule_retry(0)


def test_only_the_first_batch_of_a_partition_is_ready() -> None:
    first, second, other = batch(is_closed=True), batch(is_closed=True), batch(P1, is_closed=True)
    queues = accumulator(first, second, other)
    assert queues.ready(100, flushing=False) == [first, other]
    queues.remove_first(first)
    assert queues.ready(100, flushing=False) == [second, other]


def test_a_muted_partition_is_not_ready() -> None:
    first, other = batch(is_closed=True), batch(P1, is_closed=True)
    queues = accumulator(first, other)
    queues.mute([P0])
    assert queues.ready(100, flushing=True) == [other]
    queues.unmute([P0])
    assert queues.ready(100, flushing=True) == [first, other]


def test_nothing_is_ready_while_all_partitions_are_muted() -> None:
    queues = accumulator(batch())
    queues.mute([P0])
    assert queues.next_ready_ms(flushing=True) == float("inf")


def test_the_open_batch_is_the_last_that_is_neither_closed_nor_sequenced() -> None:
    queues = RecordAccumulator(LINGER_MS)
    assert queues.open_batch(P0) is None
    first = batch()
    queues.add(first)
    assert queues.open_batch(P0) is first
    first.sequence = NO_SEQUENCE
    assert queues.open_batch(P0) is None
    second = batch()
    queues.add(second)
    assert queues.open_batch(P0) is second
    second.is_closed = True
    assert queues.open_batch(P0) is None


def test_a_partition_without_batches_has_no_queue() -> None:
    only = batch()
    queues = accumulator(only)
    assert queues.is_first(only)
    assert not queues.is_first(batch())
    queues.remove_first(only)
    assert queues.is_empty
    assert not queues.is_first(only)
    assert queues.incomplete_batches() == []


def of_size(size: int) -> ProducedBatch:
    made = batch()
    made.encoded = bytearray(size)
    return made


def test_requests_are_split_by_size_and_a_large_batch_is_alone() -> None:
    small, medium, large, last = of_size(40), of_size(60), of_size(500), of_size(1)
    assert split_by_size([small, medium, large, last], 100) == [[small, medium], [large], [last]]
    assert split_by_size([], 100) == []
