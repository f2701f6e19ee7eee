"""Which batches count for the producer state, by their origin."""

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ports import TooManyOpenFiles
from sawlog.protocol.record_batch import read_header
from sawlog.protocol.records import build_batch
from sawlog.storage.append_origin import AppendOrigin
from support.storage.logs import SimulatedStorage, append, records


def batch(sequence: int, *, producer: int = 7) -> bytearray:
    return build_batch(records(1), producer_id=producer, producer_epoch=0, base_sequence=sequence)


def test_only_batches_of_clients_have_their_sequence_checked() -> None:
    storage = SimulatedStorage()
    log = storage.log
    append(log, records(1), producer_id=7, producer_epoch=0, base_sequence=0)
    with pytest.raises(KafkaError) as error:
        append(log, records(1), producer_id=7, producer_epoch=0, base_sequence=5)
    assert error.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    data = batch(5)
    log.append(memoryview(data), read_header(data), 0, AppendOrigin.COORDINATOR)
    assert log.end_offset == 2
    assert log.producer_states.states[7].batches[-1].last_sequence == 5


def test_a_batch_without_a_producer_changes_no_state() -> None:
    storage = SimulatedStorage()
    storage.append(3)
    assert not storage.log.producer_states.states
    assert not storage.log.producers.needs_snapshot


def test_the_state_after_a_clean_stop_is_loaded_when_it_is_needed() -> None:
    storage = SimulatedStorage()
    append(storage.log, records(1), producer_id=7, producer_epoch=0, base_sequence=0)
    storage.restart()
    assert storage.log.producers.is_deferred
    again = append(storage.log, records(1), producer_id=7, producer_epoch=0, base_sequence=0)
    assert again.duplicate
    assert not storage.log.producers.is_deferred


def test_a_state_that_could_not_be_loaded_is_loaded_at_the_next_append(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = SimulatedStorage()
    append(storage.log, records(1), producer_id=7, producer_epoch=0, base_sequence=0)
    storage.restart()

    def refuse(path: str) -> bytes:
        raise TooManyOpenFiles(path, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(storage.disk, "read_file", refuse)
        with pytest.raises(KafkaError) as error:
            append(storage.log, records(1), producer_id=7, producer_epoch=0, base_sequence=0)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    again = append(storage.log, records(1), producer_id=7, producer_epoch=0, base_sequence=0)
    assert again.duplicate
