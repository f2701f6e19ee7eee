"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords and InitProducerId, as a client sees them."""

from typing import Any

import pytest

from sawlog.broker.api import delete_records, list_offsets
from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
from sawlog.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sawlog.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from sawlog.protocol.records import Record, build_batch
from sawlog.protocol.schema import Message
from sawlog.protocol.varint import encode_varint
from sawlog.simulation.simulated_broker import SimulatedMachine
from support.broker.requests import NAMED, TOPIC, batch_of, machine_with_topic, produce
from support.protocol.batches import raw_batch

START_MS = 1_700_000_000_000


def offsets_at(*timestamps: int, topic: str = TOPIC) -> ListOffsetsRequest:
    partitions = [ListOffsetsPartition(0, timestamp=timestamp) for timestamp in timestamps]
    return ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, partitions)])


def found(response: Any) -> tuple[int, int, int, int]:
    (answer,) = response.topics[0].partitions
    return answer.error_code, answer.offset, answer.timestamp, answer.leader_epoch


def with_records(*timestamps: int) -> SimulatedMachine:
    machine = machine_with_topic()
    for place, timestamp in enumerate(timestamps):
        record = Record(0, START_MS + timestamp, b"k", b"%d" % place, ())
        machine.ask(produce(bytes(build_batch([record]))), NAMED)
    return machine


def test_latest_waits_for_the_flush_of_written_records() -> None:
    machine = machine_with_topic()
    machine.send(produce(batch_of(machine, b"a", b"b"), acks=1), NAMED)
    call = machine.send(offsets_at(-1))
    assert not call.is_done
    assert machine.schedule.run(lambda: call.is_done)
    assert found(call.answered) == (0, 2, -1, 0)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (0, 3, -1, 0)),
        (-2, (0, 0, -1, 0)),
        (-3, (0, 1, START_MS + 300, 0)),
        (-4, (0, 0, -1, 0)),
        (-5, (0, -1, -1, -1)),
        (START_MS + 150, (0, 1, START_MS + 300, 0)),
        (START_MS + 301, (0, -1, -1, -1)),
        (0, (0, 0, START_MS + 100, 0)),
        (-7, (int(ErrorCode.UNSUPPORTED_VERSION), -1, -1, -1)),
    ],
)
def test_offsets_by_time(timestamp: int, expected: tuple[int, int, int, int]) -> None:
    machine = with_records(100, 300, 200)
    assert found(machine.ask(offsets_at(timestamp))) == expected


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10)])
def test_special_timestamps_need_their_first_version(timestamp: int, version: int) -> None:
    machine = with_records(100)
    code, *_ = found(machine.ask(offsets_at(timestamp), version))
    assert code == ErrorCode.UNSUPPORTED_VERSION


def test_duplicate_partition_is_rejected() -> None:
    machine = with_records(100)
    response = machine.ask(offsets_at(-1, -2))
    codes = [answer.error_code for answer in response.topics[0].partitions]
    assert codes == [int(ErrorCode.INVALID_REQUEST)] * 2


def test_unknown_topic_is_rejected() -> None:
    machine = machine_with_topic()
    code, *_ = found(machine.ask(offsets_at(-1, topic="nowhere")))
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def odd_batch(elapsed: int, distance: int) -> bytes:
    """Return a batch of one record whose timestamp and offset deltas exceed the batch header."""
    record = b"\x00" + encode_varint(elapsed) + encode_varint(distance) + b"\x01\x00\x00"
    body = encode_varint(len(record)) + record
    return bytes(raw_batch(body, base_timestamp=START_MS, max_timestamp=START_MS))


@pytest.mark.parametrize(
    ("elapsed", "distance", "code"),
    [
        (2**63 - 1, 0, 0),
        (0, 2**63 - 1, ErrorCode.CORRUPT_MESSAGE),
        (0, 1, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_record_with_invalid_deltas_does_not_break_list_offsets(
    elapsed: int, distance: int, code: int
) -> None:
    machine = machine_with_topic()
    machine.ask(produce(odd_batch(elapsed, distance)), NAMED)
    assert found(machine.ask(offsets_at(START_MS)))[0] == code


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(
    "request_",
    [
        offsets_at(-1),
        DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 0)])]),
    ],
    ids=["ListOffsets", "DeleteRecords"],
)
def test_failing_handler_is_answered_with_an_error(
    monkeypatch: pytest.MonkeyPatch, request_: Message, waits: bool
) -> None:

    def break_down(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(list_offsets, "_find", break_down)
    monkeypatch.setattr(delete_records, "_delete", break_down)
    machine = machine_with_topic()
    if waits:
        machine.send(produce(batch_of(machine, b"a"), acks=1), NAMED)
    call = machine.send(request_)
    assert call.is_done is not waits
    assert machine.schedule.run(lambda: call.is_done)
    assert call.closed is not None


def test_end_of_an_epoch_is_the_start_of_the_next() -> None:
    machine = with_records(1, 2)
    machine.stop()
    machine.boot()
    machine.ask(produce(batch_of(machine, b"c")), NAMED)
    for epoch, expected in [(0, (0, 2)), (1, (1, 3)), (9, (-1, -1))]:
        partition = OffsetForLeaderPartition(0, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(TOPIC, [partition])])
        answer = machine.ask(request).topics[0].partitions[0]
        assert (answer.leader_epoch, answer.end_offset) == expected


@pytest.mark.parametrize(
    ("offset", "code", "low"),
    [(2, 0, 2), (-1, 0, 3), (4, int(ErrorCode.OFFSET_OUT_OF_RANGE), -1)],
)
def test_delete_records_moves_the_log_start(offset: int, code: int, low: int) -> None:
    machine = with_records(1, 2, 3)
    topic = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, offset)])
    answer = machine.ask(DeleteRecordsRequest([topic], timeout_ms=1_000)).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (code, low)
    assert found(machine.ask(offsets_at(-2)))[1] == max(low, 0)


def test_delete_records_waits_for_the_flush_of_written_records() -> None:
    machine = machine_with_topic()
    machine.ask(produce(batch_of(machine, b"a", b"b"), acks=1), NAMED)
    topic = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 2)])
    answer = machine.ask(DeleteRecordsRequest([topic], timeout_ms=1_000)).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (0, 2)


def test_log_start_survives_a_restart() -> None:
    machine = with_records(1, 2, 3)
    topic = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 2)])
    machine.ask(DeleteRecordsRequest([topic], timeout_ms=1_000))
    machine.stop()
    machine.boot()
    assert found(machine.ask(offsets_at(-2)))[1] == 2


def test_producer_ids_are_unique() -> None:
    machine = machine_with_topic()
    given = []
    for _ in range(3):
        for _ in range(5):
            answer = machine.ask(InitProducerIdRequest(None, 60_000))
            assert (answer.error_code, answer.producer_epoch) == (0, 0)
            given.append(answer.producer_id)
        machine.lose_power()
        machine.boot()
    assert len(set(given)) == len(given)


def test_transactional_id_is_rejected() -> None:
    machine = machine_with_topic()
    answer = machine.ask(InitProducerIdRequest("tx", 60_000))
    assert answer.error_code != 0
    assert answer.producer_id == -1
