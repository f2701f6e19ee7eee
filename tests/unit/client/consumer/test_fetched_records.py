"""Records of a fetch: which are returned, and the position after each."""

import pytest

from sawlog.client.consumer.fetched_records import (
    AbortedTransaction,
    ConsumedRecord,
    FetchedRecords,
)
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from support.protocol.batches import ABORT, COMMIT, batch, marker

PARTITION = TopicPartition(TopicName("logs"), PartitionIndex(3))


def fetched(data: bytes, position: int = 0, *aborted: AbortedTransaction) -> FetchedRecords:
    return FetchedRecords(
        PARTITION, position, data, aborted=aborted, max_decompressed_bytes=1_000_000
    )


def values(records: list[ConsumedRecord]) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in records]


def test_records_have_all_fields() -> None:
    assert fetched(batch(7, b"a"), 7).take(10) == [
        ConsumedRecord("logs", 3, 7, 1_000, 0, 5, b"key", b"a", ())
    ]


def test_records_below_the_position_are_left_out() -> None:
    source = fetched(batch(0, b"a") + batch(1, b"b", b"c", b"d") + batch(4, b"e"), 2)
    assert values(source.take(10)) == [(2, b"c"), (3, b"d"), (4, b"e")]
    assert source.position == 5


def test_records_are_taken_a_few_at_a_time() -> None:
    source = fetched(batch(0, b"a", b"b", b"c"))
    assert values(source.take(2)) == [(0, b"a"), (1, b"b")]
    assert source.position == 2
    assert values(source.take(2)) == [(2, b"c")]
    assert values(source.take(2)) == []
    assert source.position == 3


def test_a_partial_last_batch_is_left_to_the_next_fetch() -> None:
    source = fetched(batch(0, b"a") + batch(1, b"b")[:-1])
    assert values(source.take(10)) == [(0, b"a")]
    assert source.position == 1


def test_control_batches_only_move_the_position() -> None:
    source = fetched(batch(0, b"a", producer_id=9) + marker(1, 9, COMMIT))
    assert values(source.take(10)) == [(0, b"a")]
    assert source.position == 2


def test_aborted_transactions_are_left_out_up_to_their_end() -> None:
    data = (
        batch(0, b"nine", producer_id=9)
        + batch(1, b"eight", producer_id=8)
        + batch(2, b"plain")
        + marker(3, 9, ABORT)
        + batch(4, b"nine again", producer_id=9)
        + marker(5, 8, COMMIT)
        + marker(6, 9, COMMIT)
    )
    source = fetched(data, 0, AbortedTransaction(9, 0))
    assert values(source.take(10)) == [(1, b"eight"), (2, b"plain"), (4, b"nine again")]
    assert source.position == 7


def test_two_aborted_transactions_of_one_producer_are_both_left_out() -> None:
    data = b"".join(
        (
            batch(0, b"a", producer_id=9),
            marker(1, 9, ABORT),
            batch(2, b"b", producer_id=9),
            marker(3, 9, COMMIT),
            batch(4, b"c", producer_id=9),
            marker(5, 9, ABORT),
        )
    )
    source = fetched(data, 0, AbortedTransaction(9, 4), AbortedTransaction(9, 0))
    assert values(source.take(10)) == [(2, b"b")]


def test_a_corrupt_batch_raises_after_the_valid_records_and_again() -> None:
    damaged = bytearray(batch(1, b"b"))
    damaged[-1] ^= 1
    source = fetched(batch(0, b"a") + bytes(damaged) + batch(2, b"c"))
    assert values(source.take(10)) == [(0, b"a")]
    assert source.is_broken
    for _ in range(2):
        with pytest.raises(KafkaError) as raised:
            source.take(10)
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
        assert "logs-3 at offset 1" in raised.value.message
    assert source.position == 1


def damaged(data: bytes, position: int = -1) -> bytes:
    copy = bytearray(data)
    copy[position] ^= 1
    return bytes(copy)


LAST_OFFSET_DELTA = 26  # its lowest byte


@pytest.mark.parametrize(
    ("data", "beyond"),
    [
        (damaged(batch(1, b"b", b"c")) + batch(3, b"d"), 3),
        (damaged(batch(1, b"b", b"c")), 3),
        (damaged(batch(1, b"b", b"c"), LAST_OFFSET_DELTA) + batch(3, b"d"), 3),
        (damaged(batch(1, b"b", b"c")) + damaged(batch(3, b"d")) + batch(4, b"e"), 4),
        (damaged(batch(1, b"b", b"c")) + batch(7, b"after compaction"), 7),
    ],
    ids=["a batch follows", "none follows", "a wrong header", "two in a row", "a gap follows"],
)
def test_a_corrupt_batch_is_reported_with_the_offset_after_it(data: bytes, beyond: int) -> None:
    whole = batch(0, b"a") + data
    source = fetched(whole)
    assert values(source.take(10)) == [(0, b"a")]
    with pytest.raises(KafkaError, match=rf"start at offset {beyond} \(.*-p 3 --from {beyond}\)$"):
        source.take(10)


def test_bytes_that_are_not_a_batch_have_no_offset_after_them() -> None:
    source = fetched(batch(0, b"a") + bytes(100))
    assert values(source.take(10)) == [(0, b"a")]
    with pytest.raises(KafkaError, match=r"To go on, start at a later offset$"):
        source.take(10)


def test_a_corrupt_first_batch_raises_at_once() -> None:
    damaged = bytearray(batch(0, b"a"))
    damaged[-1] ^= 1
    with pytest.raises(KafkaError, match="offset 0"):
        fetched(bytes(damaged)).take(1)
