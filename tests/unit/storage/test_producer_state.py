"""The sequences of idempotent producers, and the snapshot format."""

import pytest
from crc32c import crc32c

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.record_batch import BatchHeader, read_header
from sawlog.storage.log_files import CorruptFile
from sawlog.storage.producer_state import SEQUENCES, BatchRange, ProducerStates
from support.protocol.batches import raw_batch


def header(sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0) -> BatchHeader:
    return read_header(
        raw_batch(
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            count=count,
            last_offset_delta=count - 1,
        )
    )


class Producers:
    """Producer states to which batches are appended one after the other."""

    def __init__(self) -> None:
        self.states = ProducerStates()
        self.end_offset = 0

    def append(self, batch: BatchHeader, seen_ms: int = 1_000) -> BatchRange | None:
        duplicate = self.states.check(batch)
        if duplicate is None:
            self.states.update(batch, self.end_offset, 500, seen_ms)
            self.end_offset += batch.last_offset_delta + 1
        return duplicate

    def rejected(self, batch: BatchHeader) -> ErrorCode:
        before = self.states.encode()
        with pytest.raises(KafkaError) as error:
            self.append(batch)
        assert self.states.encode() == before
        return error.value.code


@pytest.fixture
def producers() -> Producers:
    return Producers()


def test_a_sequence_gap_is_out_of_order(producers: Producers) -> None:
    assert producers.append(header(0, 10)) is None
    assert producers.append(header(10, 5)) is None
    assert producers.rejected(header(16)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.rejected(header(14)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.append(header(15)) is None


def test_a_duplicate_of_the_last_five_batches_is_recognised(producers: Producers) -> None:
    for sequence in range(0, 60, 10):
        producers.append(header(sequence, 10))
    for sequence in range(10, 60, 10):
        found = producers.append(header(sequence, 10))
        assert found == (sequence, sequence + 9, sequence, sequence + 9, 500)
    assert producers.rejected(header(0, 10)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_only_overlaps_is_not_a_duplicate(producers: Producers) -> None:
    producers.append(header(0, 10))
    assert producers.rejected(header(0, 9)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.rejected(header(5, 10)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_around(producers: Producers) -> None:
    producers.append(header(SEQUENCES - 2, 1))
    assert producers.append(header(SEQUENCES - 1, 3)) is None
    assert producers.append(header(2)) is None
    duplicate = producers.append(header(SEQUENCES - 1, 3))
    assert duplicate is not None
    assert duplicate.last_sequence == 1
    restored = ProducerStates()
    restored.load(producers.states.encode())
    assert restored.equals_except_timestamps(producers.states)


def test_an_unknown_producer_may_begin_with_any_sequence(producers: Producers) -> None:
    assert producers.append(header(1234)) is None
    assert producers.append(header(1235)) is None


def test_a_new_epoch_begins_at_sequence_0(producers: Producers) -> None:
    producers.append(header(0, 10))
    assert producers.rejected(header(10, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.append(header(0, epoch=1)) is None
    assert producers.append(header(1, epoch=1)) is None


def test_an_old_epoch_is_fenced(producers: Producers) -> None:
    producers.append(header(0, epoch=3))
    assert producers.rejected(header(1, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producers.rejected(header(0, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_producers_are_independent(producers: Producers) -> None:
    producers.append(header(0, producer=1))
    assert producers.append(header(0, producer=2)) is None
    assert producers.append(header(1, producer=1)) is None


def test_inactive_producers_expire(producers: Producers) -> None:
    producers.append(header(0, producer=1), seen_ms=1_000)
    producers.append(header(0, producer=2), seen_ms=2_000)
    producers.states.mark_saved()
    assert producers.states.expire(2_000, 1_000) == 1
    assert list(producers.states.states) == [2]
    assert producers.states.is_changed
    assert producers.append(header(77, producer=1)) is None


def test_a_snapshot_holds_all_five_batches(producers: Producers) -> None:
    for sequence in range(0, 70, 10):
        producers.append(header(sequence, 10, epoch=4), seen_ms=sequence)
    producers.append(header(3, producer=9))
    restored = ProducerStates()
    restored.load(producers.states.encode())
    assert restored.equals_except_timestamps(producers.states)
    assert [state.seen_ms for state in restored.states.values()] == [60, 1_000]
    assert not restored.is_changed


def test_a_snapshot_has_kafka_version_1_format() -> None:
    producers = Producers()
    producers.append(header(5, 3, producer=7, epoch=2), seen_ms=99)
    entry = (
        bytes.fromhex("0000000000000007 0002 00000007 0000000000000002 00000002")
        + (99).to_bytes(8, "big")
        + bytes.fromhex("ffffffff ffffffffffffffff")
    )
    body = (1).to_bytes(4, "big") + entry
    expected = (1).to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body
    assert producers.states.encode() == expected


def test_an_empty_snapshot_is_loaded() -> None:
    states = ProducerStates()
    states.load(ProducerStates().encode())
    assert len(states) == 0


@pytest.mark.parametrize("position", range(0, 102, 7))
def test_a_snapshot_with_a_flipped_bit_is_rejected(position: int) -> None:
    producers = Producers()
    producers.append(header(0, 10))
    producers.append(header(10, 10))
    data = bytearray(producers.states.encode())
    data[position] ^= 0x10
    states = ProducerStates()
    states.load(producers.states.encode())
    with pytest.raises(CorruptFile):
        states.load(bytes(data))
    assert states.equals_except_timestamps(producers.states)


@pytest.mark.parametrize("size", [0, 1, 5, 9, 30, 101])
def test_a_truncated_snapshot_is_rejected(size: int) -> None:
    producers = Producers()
    producers.append(header(0, 10))
    producers.append(header(10, 10))
    with pytest.raises(CorruptFile):
        ProducerStates().load(producers.states.encode()[:size])
