"""Transactions on one broker: produce, commit, abort, fence, time out, and fail over."""

import pytest

from sawlog.broker.api.init_producer_id import init_producer_id
from sawlog.broker.request import Api, Request
from sawlog.core.errors import ErrorCode
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from sawlog.protocol.messages.end_txn_request import EndTxnRequest
from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
from sawlog.protocol.messages.list_transactions_request import ListTransactionsRequest
from sawlog.protocol.messages.produce_request import PartitionProduceData
from sawlog.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from sawlog.simulation.simulated_broker import Call, SimulatedClient
from support.broker.requests import NAMED, TOPIC, batch_of
from support.broker.transactions import (
    TIMEOUT_MS,
    TransactionalProducer,
    batches,
    codes,
    machine_with_coordinator,
    stable_offset,
)

E = ErrorCode


def settle(producer: TransactionalProducer) -> None:
    """Let the markers be written."""
    producer.machine.schedule.run_for(1_000)


# With transaction.version 2


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_ends_with_a_marker_in_each_partition(is_commit: bool) -> None:
    machine = machine_with_coordinator()
    producer = TransactionalProducer(machine)
    assert producer.init() is E.NONE
    identity, epoch = producer.producer_id, producer.epoch
    assert producer.produce((0, b"a"), (1, b"b")) == [E.NONE, E.NONE]
    assert producer.produce((0, b"c")) == [E.NONE]
    assert producer.describe().transaction_state == "Ongoing"
    assert stable_offset(machine) == 0
    assert producer.end(is_commit=is_commit) is E.NONE
    settle(producer)
    ended = "CompleteCommit" if is_commit else "CompleteAbort"
    assert producer.describe().transaction_state == ended
    assert (producer.producer_id, producer.epoch) == (identity, epoch + 1)
    record, marker = (identity, epoch, False), (identity, epoch + 1, True)
    assert batches(machine, 0) == [record, record, marker]
    assert batches(machine, 1) == [record, marker]
    assert stable_offset(machine) == 3


def test_transactions_follow_each_other() -> None:
    machine = machine_with_coordinator()
    producer = TransactionalProducer(machine)
    producer.init()
    for _ in range(5):
        assert producer.produce((0, b"a")) == [E.NONE]
        assert producer.end() is E.NONE
    settle(producer)
    assert stable_offset(machine) == 10
    assert producer.epoch == 5


def test_requests_in_flight_are_appended_in_order() -> None:
    machine = machine_with_coordinator()
    producer = TransactionalProducer(machine)
    producer.init()
    calls = [producer.send((0, b"%d" % number)) for number in range(5)]
    calls.append(producer.send((1, b"x"), (0, b"5")))
    machine.schedule.run(lambda: all(call.is_done for call in calls))
    assert [codes(call.answered) for call in calls] == [[E.NONE]] * 5 + [[E.NONE, E.NONE]]
    assert len(batches(machine, 0)) == 6


def test_a_new_producer_fences_the_old_one_and_aborts_its_transaction() -> None:
    machine = machine_with_coordinator()
    old, new = TransactionalProducer(machine), TransactionalProducer(machine)
    old.init()
    assert old.produce((0, b"a")) == [E.NONE]
    assert new.init() is E.CONCURRENT_TRANSACTIONS
    settle(new)
    assert new.init() is E.NONE
    assert old.produce((0, b"b")) == [E.INVALID_PRODUCER_EPOCH]
    assert old.produce((1, b"b")) == [E.INVALID_PRODUCER_EPOCH]
    assert old.end() is E.PRODUCER_FENCED
    assert new.produce((0, b"c")) == [E.NONE]
    assert new.end() is E.NONE


def test_a_transaction_that_times_out_is_aborted() -> None:
    machine = machine_with_coordinator()
    producer = TransactionalProducer(machine)
    producer.init(timeout_ms=1_000)
    producer.produce((0, b"a"))
    machine.schedule.run_for(3_000)
    assert producer.describe().transaction_state == "CompleteAbort"
    assert stable_offset(machine) == 2
    assert producer.produce((0, b"b")) == [E.INVALID_PRODUCER_EPOCH]
    assert producer.end() is E.INVALID_TXN_STATE


def test_a_restarted_coordinator_completes_a_prepared_transaction() -> None:
    machine = machine_with_coordinator()
    producer = TransactionalProducer(machine)
    producer.init()
    producer.produce((0, b"a"), (1, b"b"))
    call = machine.send(EndTxnRequest("x", producer.producer_id, producer.epoch, True))
    machine.schedule.run(lambda: call.is_done)  # the decision is committed, the markers are not
    machine.kill()
    machine.boot()
    settle(producer)
    assert producer.describe().transaction_state == "CompleteCommit"
    assert [batches(machine, index)[-1][2] for index in (0, 1)] == [True, True]
    assert call.answered.error_code == 0


def test_a_restart_keeps_an_open_transaction() -> None:
    machine = machine_with_coordinator()
    producer = TransactionalProducer(machine)
    producer.init()
    producer.produce((0, b"a"))
    machine.kill()
    machine.boot()
    machine.schedule.run_for(200)
    assert producer.produce((0, b"b")) == [E.NONE]
    assert producer.end() is E.NONE
    settle(producer)
    assert stable_offset(machine) == 3


# Older clients


def test_an_older_client_adds_its_partitions_and_keeps_its_epoch() -> None:
    machine = machine_with_coordinator()
    producer = TransactionalProducer(machine, is_old=True)
    producer.init()
    for _ in range(3):
        assert producer.add([0]) == [E.NONE]
        assert producer.produce((0, b"a")) == [E.NONE]
        assert producer.end() is E.NONE
        settle(producer)
    assert producer.epoch == 0
    assert stable_offset(machine) == 6


def test_an_older_client_that_did_not_add_its_partition_is_refused() -> None:
    machine = machine_with_coordinator()
    producer = TransactionalProducer(machine, is_old=True)
    producer.init()
    producer.add([1])
    assert producer.produce((0, b"a")) == [E.TRANSACTION_ABORTABLE]
    message = producer.request((0, b"a"))
    assert codes(machine.ask(message, 10)) == [E.INVALID_TXN_STATE]
    assert batches(machine, 0) == []


def test_without_verification_an_older_client_is_trusted() -> None:
    machine = machine_with_coordinator(transaction_partition_verification_enable="false")
    producer = TransactionalProducer(machine, is_old=True)
    producer.init()
    assert producer.produce((0, b"a")) == [E.NONE]


def test_offsets_are_added_to_the_transaction() -> None:
    machine = machine_with_coordinator(offsets_topic_num_partitions="7")
    producer = TransactionalProducer(machine)
    producer.init()
    assert producer.add_offsets("g") is E.NONE
    [topic] = producer.describe().topics
    assert topic.topic == "__consumer_offsets"
    assert len(topic.partitions) == 1
    assert topic.partitions[0] < 7


def test_partitions_are_added_all_or_none() -> None:
    machine = machine_with_coordinator()
    producer = TransactionalProducer(machine)
    producer.init()
    assert producer.add([0, 9]) == [E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert producer.add([0], topic="no") == [E.UNKNOWN_TOPIC_OR_PARTITION]
    assert producer.describe().topics == []


# Bad input: Kafka's code, and nothing is appended


def test_transactional_batches_need_a_transactional_id() -> None:
    machine = machine_with_coordinator()
    producer = TransactionalProducer(machine)
    producer.init()
    message = producer.request((0, b"a"))
    message.transactional_id = None
    plain = batch_of(machine, b"x")
    message.topic_data[0].partition_data.append(PartitionProduceData(1, plain))
    refused = E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert codes(machine.ask(message, NAMED)) == [refused, refused]
    assert batches(machine, 0) == batches(machine, 1) == []


def test_a_request_has_one_transactional_producer() -> None:
    machine = machine_with_coordinator()
    one, two = TransactionalProducer(machine), TransactionalProducer(machine, "y")
    one.init()
    two.init()
    message = one.request((0, b"a"))
    message.topic_data[0].partition_data += two.request((1, b"b")).topic_data[0].partition_data
    assert codes(machine.ask(message, NAMED)) == [E.INVALID_PRODUCER_ID_MAPPING] * 2
    assert batches(machine, 0) == batches(machine, 1) == []


@pytest.mark.parametrize("is_old", [True, False])
def test_a_foreign_producer_id_or_epoch_is_refused(is_old: bool) -> None:
    machine = machine_with_coordinator()
    producer = TransactionalProducer(machine, is_old=is_old)
    assert producer.init() is E.NONE
    own = producer.producer_id
    producer.producer_id = own + 5
    assert producer.produce((0, b"a")) == [E.INVALID_PRODUCER_ID_MAPPING]
    producer.producer_id, producer.epoch = own, 7
    assert producer.produce((0, b"a")) == [E.INVALID_PRODUCER_EPOCH]
    stranger = TransactionalProducer(machine, "never initialized", is_old=is_old)
    stranger.producer_id, stranger.epoch = own, 0
    assert stranger.produce((0, b"a")) == [E.INVALID_PRODUCER_ID_MAPPING]
    assert batches(machine, 0) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"transactional_id": ""}, E.INVALID_REQUEST),
        ({"transaction_timeout_ms": 900_001}, E.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 0}, E.INVALID_TRANSACTION_TIMEOUT),
        ({"producer_id": 5}, E.INVALID_REQUEST),
        ({"producer_epoch": 5}, E.INVALID_REQUEST),
    ],
    ids=str,
)
def test_a_wrong_initialization_is_refused(fields: dict[str, object], expected: ErrorCode) -> None:
    machine = machine_with_coordinator()
    message = InitProducerIdRequest("x", TIMEOUT_MS)
    for name, value in fields.items():
        setattr(message, name, value)
    answer = machine.ask(message)
    assert answer.error_code == expected
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"enable2_pc": True}, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"keep_prepared_txn": True}, E.UNSUPPORTED_VERSION),
    ],
    ids=str,
)
def test_two_phase_commit_is_refused(fields: dict[str, bool], expected: ErrorCode) -> None:
    """KIP-939, in version 6, which Kafka's clients call unstable: no broker advertises it."""
    machine = machine_with_coordinator()
    call = Call(SimulatedClient(), ApiKey.INIT_PRODUCER_ID, 6)
    api = Api(ApiKey.INIT_PRODUCER_ID, lambda: init_producer_id)
    message = InitProducerIdRequest("x", TIMEOUT_MS, **fields)
    request = Request(call, api, 6, 1, None)
    answer = init_producer_id(machine.broker.components, request, message)
    assert answer is not None
    assert answer.error_code == expected


def test_older_requests_know_fencing_by_another_code() -> None:
    machine = machine_with_coordinator()
    producer = TransactionalProducer(machine)
    producer.init()
    message = InitProducerIdRequest("x", TIMEOUT_MS, producer.producer_id, 9)
    assert machine.ask(message, 3).error_code == E.INVALID_PRODUCER_EPOCH
    assert machine.ask(message, 4).error_code == E.PRODUCER_FENCED
    end = EndTxnRequest("x", producer.producer_id, 9, True)
    assert machine.ask(end, 1).error_code == E.INVALID_PRODUCER_EPOCH
    assert machine.ask(end, 2).error_code == E.PRODUCER_FENCED


# Markers of other brokers and of administrators


def test_markers_are_written_for_each_partition_that_is_led_here() -> None:
    machine = machine_with_coordinator()
    producer = TransactionalProducer(machine)
    producer.init()
    producer.produce((0, b"a"))
    topics = [WritableTxnMarkerTopic(TOPIC, [0, 9]), WritableTxnMarkerTopic("no", [0])]
    marker = WritableTxnMarker(producer.producer_id, producer.epoch, False, topics, 3)
    [result] = machine.ask(WriteTxnMarkersRequest([marker])).markers
    found = {
        (topic.name, each.partition_index): E(each.error_code)
        for topic in result.topics
        for each in topic.partitions
    }
    missing = E.UNKNOWN_TOPIC_OR_PARTITION
    assert found == {(TOPIC, 0): E.NONE, (TOPIC, 9): missing, ("no", 0): missing}
    assert stable_offset(machine) == 2


# Queries


def test_transactions_are_listed_by_filter() -> None:
    machine = machine_with_coordinator()
    one, two = TransactionalProducer(machine, "one"), TransactionalProducer(machine, "two")
    one.init()
    two.init()
    two.produce((0, b"a"))
    machine.schedule.run_for(100)

    def listed(**filters: object) -> list[str]:
        answer = machine.ask(ListTransactionsRequest(**filters))
        assert answer.error_code == 0
        return sorted(each.transactional_id for each in answer.transaction_states)

    assert listed() == ["one", "two"]
    assert listed(state_filters=["Ongoing"]) == ["two"]
    assert listed(producer_id_filters=[one.producer_id]) == ["one"]
    assert listed(state_filters=["Ongoing"], duration_filter=50) == ["two"]
    assert listed(state_filters=["Ongoing"], duration_filter=60_000) == []
    assert listed(transactional_id_pattern="o.*") == ["one"]
    assert listed(transactional_id_pattern="w") == []
    assert listed(transactional_id_pattern="") == ["one", "two"]
    answer = machine.ask(ListTransactionsRequest(["Ongoing", "Nonsense"]))
    assert answer.unknown_state_filters == ["Nonsense"]
    answer = machine.ask(ListTransactionsRequest(transactional_id_pattern="("))
    assert answer.error_code == E.INVALID_REGULAR_EXPRESSION


def test_a_description_of_an_unknown_id_has_its_error() -> None:
    machine = machine_with_coordinator()
    found = machine.ask(DescribeTransactionsRequest(["no", ""])).transaction_states
    assert [E(each.error_code) for each in found] == [
        E.TRANSACTIONAL_ID_NOT_FOUND,
        E.INVALID_REQUEST,
    ]
