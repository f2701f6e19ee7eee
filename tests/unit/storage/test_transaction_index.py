"""The index of aborted transactions: Kafka's format, look-ups, and repair."""

from collections.abc import Callable
from typing import NoReturn

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ports import DiskFull
from sawlog.storage.log_config import LogConfig
from sawlog.storage.log_files import TRANSACTION_INDEX, offset_name
from sawlog.storage.open_transactions import AbortedTransaction
from sawlog.storage.segment import Segment
from sawlog.storage.transaction_index import TransactionIndex
from support.storage.logs import TP, SimulatedStorage, append, records
from support.storage.transactions import ABORT, COMMIT, TransactionalProducer

INDEX = f"{TP}/{offset_name(0, TRANSACTION_INDEX)}"


def with_two_aborts() -> SimulatedStorage:
    """Producer 1 aborts offsets 0-1 at 4; producer 2 commits 2-3 at 5 and aborts 6 at 7."""
    storage = SimulatedStorage()
    first = TransactionalProducer(storage.log, producer_id=1).send(2)
    second = TransactionalProducer(storage.log, producer_id=2).send(2)
    first.end(ABORT)
    second.end(COMMIT)
    second.send(1).end(ABORT)
    return storage


ABORTS = [AbortedTransaction(1, 0, 4, 2), AbortedTransaction(2, 6, 7, 8)]


def test_an_entry_has_the_bytes_of_kafka() -> None:
    storage = with_two_aborts()
    data = storage.disk.read_file(INDEX)
    assert len(data) == 2 * 34
    fields = (b"\x00\x00", *(number.to_bytes(8, "big") for number in ABORTS[0]))
    assert data[:34] == b"".join(fields)


def test_a_log_without_aborts_has_no_file() -> None:
    storage = SimulatedStorage()
    TransactionalProducer(storage.log).send().end(COMMIT)
    assert not storage.disk.exists(INDEX)
    assert storage.log.aborted_transactions(0, 2) == []


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [(0, 8, ABORTS), (0, 6, ABORTS[:1]), (5, 8, ABORTS[1:]), (4, 5, ABORTS[:1]), (8, 8, [])],
)
def test_the_transactions_of_a_range_are_found(
    start: int, end: int, found: list[AbortedTransaction]
) -> None:
    assert with_two_aborts().log.aborted_transactions(start, end) == found


def test_an_abort_in_a_later_segment_is_found() -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=300))
    producer = TransactionalProducer(storage.log).send(2)
    for _ in range(5):
        append(storage.log, records(1, value=bytes(150)))
    producer.end(ABORT)
    assert len(storage.log.segments) > 2
    (entry,) = storage.log.segments.active.transaction_index
    assert storage.log.aborted_transactions(0, 1) == [entry]
    assert entry == (7, 0, 7, 8)


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(lambda data: b"\x00\x01" + data[2:], id="version"),
        pytest.param(lambda data: data[34:] + data[:34], id="order"),
        pytest.param(lambda data: data[:2] + b"\xff" * 8 + data[10:], id="producer"),
        pytest.param(lambda data: data[:10] + b"\x7f" * 8 + data[18:], id="first offset"),
        pytest.param(lambda data: bytes(len(data)), id="zeros"),
    ],
)
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_damaged_index_is_rebuilt_from_the_log(
    damaged: Callable[[bytes], bytes], is_clean: bool
) -> None:
    storage = with_two_aborts()
    storage.checkpoint()
    if is_clean:
        storage.directory.close_cleanly()
    storage.kill()
    storage.disk.replace(INDEX, damaged(storage.disk.read_file(INDEX)))
    storage.open()
    assert storage.log.aborted_transactions(0, 8) == ABORTS
    TransactionalProducer(storage.log, producer_id=3).send().end(ABORT)
    assert list(storage.log.segments.active.transaction_index)[:2] == ABORTS


@pytest.mark.parametrize("free_bytes", [0, 40])
def test_without_disk_space_for_entry_or_marker_the_marker_is_refused(free_bytes: int) -> None:
    storage = SimulatedStorage()
    producer = TransactionalProducer(storage.log).send()
    storage.disk.free_bytes = free_bytes
    with pytest.raises(KafkaError) as error:
        producer.end(ABORT)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (storage.log.end_offset, storage.log.first_unstable_offset) == (1, 0)
    storage.disk.free_bytes = None
    producer.end(ABORT)
    assert storage.log.aborted_transactions(0, 2) == [(7, 0, 1, 2)]


def test_the_entry_of_a_marker_that_was_not_written_is_dropped() -> None:
    storage = SimulatedStorage()
    producer = TransactionalProducer(storage.log).send()
    storage.disk.free_bytes = 40  # enough for the entry, not for the marker
    with pytest.raises(KafkaError):
        producer.end(ABORT)
    assert storage.disk.read_file(INDEX) == b""
    storage.disk.free_bytes = None
    append(storage.log, records(1))  # takes the offset of the marker
    producer.end(ABORT)
    assert storage.log.aborted_transactions(0, 3) == [(7, 0, 2, 3)]
    storage.directory.close_cleanly()
    storage.kill()
    storage.open()
    assert storage.log.aborted_transactions(0, 3) == [(7, 0, 2, 3)]


def test_if_the_entry_of_an_unwritten_marker_stays_the_directory_goes_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = SimulatedStorage()
    producer = TransactionalProducer(storage.log).send()

    def full(path: str) -> Callable[..., NoReturn]:
        def fail(*_: object) -> NoReturn:
            raise DiskFull(path, "on demand")

        return fail

    with monkeypatch.context() as patch:
        patch.setattr(TransactionIndex, "drop_from", full(INDEX))
        patch.setattr(Segment, "append", full("log"))
        with pytest.raises(KafkaError):
            producer.end(ABORT)
    with pytest.raises(KafkaError) as error:
        append(storage.log, records(1))
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    storage.kill()
    storage.open()
    append(storage.log, records(1))
    assert storage.log.aborted_transactions(0, 2) == []


def test_removed_segments_take_their_index_along() -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=200, file_delete_delay_ms=0))
    log = storage.log
    TransactionalProducer(log).send().end(ABORT)
    append(log, records(1))
    append(log, records(1))
    assert storage.disk.exists(INDEX)
    log.set_high_watermark(log.end_offset)
    log.advance_start(log.segments.active.base_offset)
    storage.schedule.run_for(1_000)
    assert not storage.disk.exists(INDEX)
    assert log.aborted_transactions(log.start_offset, log.end_offset) == []
