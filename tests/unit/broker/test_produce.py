"""Produce: acks, error codes, conversion of batches."""

import pytest

from sawlog.broker.batch_validation import MAX_RECORDS
from sawlog.core.errors import ErrorCode
from sawlog.protocol.compression import Codec
from support.broker.requests import (
    NAMED,
    TOPIC,
    answers,
    batch_of,
    fetch,
    machine_with_topic,
    produce,
    values,
)


def test_acks_all_is_answered_after_the_flush() -> None:
    machine = machine_with_topic()
    call = machine.send(produce(batch_of(machine, b"a", b"b")), NAMED)
    assert not call.is_done
    assert machine.broker.replicas.by_partition[TOPIC, 0].log.end_offset == 2
    assert machine.schedule.run(lambda: call.is_done)
    assert answers(call.answered) == [(0, 0)]
    assert machine.broker.replicas.by_partition[TOPIC, 0].log.flushed_offset == 2


def test_acks_one_is_answered_after_the_write() -> None:
    machine = machine_with_topic()
    call = machine.send(produce(batch_of(machine, b"a"), acks=1), NAMED)
    assert call.is_done
    assert answers(call.answered) == [(0, 0)]
    assert machine.broker.replicas.by_partition[TOPIC, 0].log.flushed_offset == 0


def test_acks_zero_is_not_answered() -> None:
    machine = machine_with_topic()
    call = machine.send(produce(batch_of(machine, b"a"), acks=0), NAMED)
    assert call.is_done
    assert call.answered is None
    assert call.closed is None
    assert machine.broker.replicas.by_partition[TOPIC, 0].log.end_offset == 1


def test_failed_acks_zero_closes_the_connection() -> None:
    machine = machine_with_topic()
    call = machine.send(produce(batch_of(machine, b"a"), acks=0, topic="nowhere"), NAMED)
    assert call.closed is not None


def test_zero_timeout_still_covers_a_flush() -> None:
    machine = machine_with_topic()
    response = machine.ask(produce(batch_of(machine, b"a"), timeout_ms=0), NAMED)
    assert answers(response) == [(0, 0)]


def test_each_partition_succeeds_or_fails_on_its_own() -> None:
    machine = machine_with_topic(partitions=2)
    good = batch_of(machine, b"a")
    bad = good[:-1] + b"!"
    response = machine.ask(produce(good, bad, good), NAMED)
    assert answers(response) == [
        (0, 0),
        (int(ErrorCode.CORRUPT_MESSAGE), -1),
        (int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), -1),
    ]


@pytest.mark.parametrize("acks", [2, -2, 7])
def test_invalid_acks_are_rejected(acks: int) -> None:
    machine = machine_with_topic()
    response = machine.ask(produce(batch_of(machine, b"a"), acks=acks), NAMED)
    assert answers(response) == [(int(ErrorCode.INVALID_REQUIRED_ACKS), -1)]
    assert machine.broker.replicas.by_partition[TOPIC, 0].log.end_offset == 0


def test_too_few_in_sync_replicas_reject_acks_all_only() -> None:
    machine = machine_with_topic(configs={"min.insync.replicas": "2"})
    response = machine.ask(produce(batch_of(machine, b"a")), NAMED)
    assert answers(response) == [(int(ErrorCode.NOT_ENOUGH_REPLICAS), -1)]
    response = machine.ask(produce(batch_of(machine, b"a"), acks=1), NAMED)
    assert answers(response) == [(0, 0)]


def test_batch_larger_than_max_message_bytes_is_rejected() -> None:
    machine = machine_with_topic(configs={"max.message.bytes": "100"})
    response = machine.ask(produce(batch_of(machine, bytes(100))), NAMED)
    assert answers(response) == [(int(ErrorCode.MESSAGE_TOO_LARGE), -1)]


def test_zstd_needs_version_7() -> None:
    machine = machine_with_topic()
    batch = batch_of(machine, b"a" * 100, codec=Codec.ZSTD)
    old = machine.ask(produce(batch), 6)
    assert answers(old) == [(int(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), -1)]
    assert answers(machine.ask(produce(batch), 7)) == [(0, 0)]


def test_duplicate_idempotent_batch_gets_its_old_offset() -> None:
    machine = machine_with_topic()
    fields = {"producer_id": 7, "producer_epoch": 0}
    first = batch_of(machine, b"a", b"b", base_sequence=0, **fields)
    second = batch_of(machine, b"c", base_sequence=2, **fields)
    assert answers(machine.ask(produce(first), NAMED)) == [(0, 0)]
    assert answers(machine.ask(produce(second), NAMED)) == [(0, 2)]
    assert answers(machine.ask(produce(first), NAMED)) == [(0, 0)]
    gap = batch_of(machine, b"d", base_sequence=9, **fields)
    assert answers(machine.ask(produce(gap), NAMED)) == [
        (int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1)
    ]
    assert machine.broker.replicas.by_partition[TOPIC, 0].log.end_offset == 3


def test_compacted_topic_rejects_records_without_key() -> None:
    machine = machine_with_topic(configs={"cleanup.policy": "compact"})
    response = machine.ask(produce(batch_of(machine, b"a", b"b", key=None)), NAMED)
    (answer,) = response.responses[0].partition_responses
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0, 1]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_topic_compression_type_converts_batches(codec: str) -> None:
    machine = machine_with_topic(configs={"compression.type": codec})
    sent = batch_of(machine, b"a" * 500, b"b" * 500, codec=Codec.GZIP)
    assert answers(machine.ask(produce(sent), NAMED)) == [(0, 0)]
    response = machine.ask(fetch(0), NAMED)
    assert values(response) == [[b"a" * 500, b"b" * 500]]
    stored = response.responses[0].partitions[0].records
    expected = Codec.NONE if codec == "uncompressed" else Codec[codec.upper()]
    assert stored[22] & 7 == expected


def test_full_disk_rejects_appends_until_there_is_space() -> None:
    machine = machine_with_topic()
    machine.ask(produce(batch_of(machine, b"a")), NAMED)
    machine.disk.free_bytes = 10
    response = machine.ask(produce(batch_of(machine, b"b")), NAMED)
    assert answers(response) == [(int(ErrorCode.KAFKA_STORAGE_ERROR), -1)]
    assert values(machine.ask(fetch(0), NAMED)) == [[b"a"]]
    machine.disk.free_bytes = None
    assert answers(machine.ask(produce(batch_of(machine, b"c")), NAMED)) == [(0, 1)]
    assert values(machine.ask(fetch(0), NAMED)) == [[b"a", b"c"]]


@pytest.mark.parametrize("configs", [{"cleanup.policy": "compact"}, {"compression.type": "gzip"}])
def test_batch_with_too_many_records_to_open_is_rejected(configs: dict[str, str]) -> None:
    machine = machine_with_topic(configs=configs)
    batch = batch_of(machine, *[b""] * (MAX_RECORDS + 1))
    response = machine.ask(produce(batch), NAMED)
    assert answers(response) == [(int(ErrorCode.MESSAGE_TOO_LARGE), -1)]


def test_os_policy_flushes_records_written_during_a_flush_in_time() -> None:
    machine = machine_with_topic(configs={"flush.ms": "500"}, flush_policy="os")
    log = machine.broker.replicas.by_partition[TOPIC, 0].log
    machine.ask(produce(batch_of(machine, b"a")), NAMED)
    machine.schedule.run_for(499)
    machine.disk.hold()
    machine.schedule.run_for(2)
    machine.ask(produce(batch_of(machine, b"b")), NAMED)
    machine.disk.resume()
    machine.schedule.run_for(1_000)
    assert log.flushed_offset == 2
