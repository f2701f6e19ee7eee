"""Requests that wait: for a client that goes, for a broker that stops, for a log that is lost."""

import pytest

from sawlog.broker.batch_validation import MAX_RECORDS
from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from sawlog.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sawlog.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
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

A_DAY_MS = 24 * 3600 * 1000


def test_a_client_that_goes_takes_its_parked_fetches_along() -> None:
    machine = machine_with_topic(partitions=3)
    for _ in range(5):
        machine.send(fetch(0, 0, 0, max_wait_ms=A_DAY_MS), NAMED)
    assert len(machine.broker.parking) == 5
    call = machine.send(fetch(0, max_wait_ms=A_DAY_MS), NAMED)
    machine.broker.disconnected(call.client)
    assert len(machine.broker.parking) == 0
    assert not any(replica._readers for replica in machine.broker.partitions.values())
    machine.ask(produce(batch_of(machine, b"a")), NAMED)
    machine.schedule.run_for(2 * A_DAY_MS)
    assert not call.is_done


def test_a_stopping_broker_answers_those_who_wait() -> None:
    machine = machine_with_topic()
    reader = machine.send(fetch(0, max_wait_ms=A_DAY_MS), NAMED)
    writer = machine.send(produce(batch_of(machine, b"a")), NAMED)
    stopped: list[bool] = []
    machine.broker.stop(lambda: stopped.append(True))
    assert machine.schedule.run(lambda: bool(stopped))
    assert reader.is_done
    assert answers(writer.answered) == [(0, 0)]
    machine.kill()
    machine.boot()
    assert values(machine.ask(fetch(0), NAMED)) == [[b"a"]]


def test_many_moves_in_one_turn_are_one_look() -> None:
    machine = machine_with_topic(partitions=20)
    looks = []
    call = machine.send(fetch(*[0] * 20, max_wait_ms=A_DAY_MS, min_bytes=1 << 19), NAMED)
    (parked,) = next(iter(machine.broker.parking._by_client.values()))
    machine.ask(produce(*[batch_of(machine, b"a")] * 20), NAMED)
    parked.look_again()
    looks.append(parked._look)
    parked.look_again()
    assert parked._look is looks[0]
    machine.schedule.run_for(1)
    assert not call.is_done


def test_records_just_written_can_be_deleted() -> None:
    machine = machine_with_topic()
    machine.ask(produce(batch_of(machine, b"a", b"b"), acks=1), NAMED)
    topic = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 2)])
    answer = machine.ask(DeleteRecordsRequest([topic], timeout_ms=1_000)).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (0, 2)


def test_a_topic_made_again_starts_empty_even_where_a_directory_was_lost() -> None:
    machine = machine_with_topic(partitions=2)
    machine.ask(produce(batch_of(machine, b"a"), batch_of(machine, b"a")), NAMED)
    machine.disk.remove_directory(f"{TOPIC}-0")
    machine.ask(DeleteTopicsRequest([DeleteTopicState(TOPIC)], timeout_ms=10_000))
    topic = CreatableTopic(TOPIC, 2, 1)
    assert machine.ask(CreateTopicsRequest([topic], timeout_ms=10_000)).topics[0].error_code == 0
    response = machine.ask(produce(batch_of(machine, b"b"), batch_of(machine, b"b")), NAMED)
    assert answers(response) == [(0, 0), (0, 0)]


@pytest.mark.parametrize("configs", [{"cleanup.policy": "compact"}, {"compression.type": "gzip"}])
def test_a_batch_with_too_many_records_to_open_is_refused(configs: dict[str, str]) -> None:
    machine = machine_with_topic(configs=configs)
    batch = batch_of(machine, *[b""] * (MAX_RECORDS + 1))
    response = machine.ask(produce(batch), NAMED)
    assert answers(response) == [(int(ErrorCode.INVALID_RECORD), -1)]


def test_with_the_os_policy_what_comes_during_a_flush_is_flushed_in_time() -> None:
    machine = machine_with_topic(configs={"flush.ms": "500"}, flush_policy="os")
    log = machine.broker.partitions[TOPIC, 0].log
    machine.ask(produce(batch_of(machine, b"a")), NAMED)
    machine.schedule.run_for(499)
    held = []
    machine.disk._defer = held.append
    machine.schedule.run_for(2)
    machine.ask(produce(batch_of(machine, b"b")), NAMED)
    machine.disk._defer = machine.schedule.soon
    for finish in held:
        finish()
    machine.schedule.run_for(1_000)
    assert log.flushed_offset == 2
