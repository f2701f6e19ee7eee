"""The requests of a transactional producer, to a scripted broker of either transaction version."""

from collections.abc import Iterator

import pytest

from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.producer.producer import Producer
from sawlog.client.producer.transaction_errors import (
    TransactionAbortable,
    TransactionFatal,
    TransactionRetriable,
)
from sawlog.core.errors import ErrorCode
from sawlog.protocol.apis import ApiKey, advertised_versions
from sawlog.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from sawlog.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from sawlog.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from sawlog.protocol.messages.api_versions_response import ApiVersionsResponse, FinalizedFeatureKey
from sawlog.protocol.messages.end_txn_request import EndTxnRequest
from sawlog.protocol.messages.end_txn_response import EndTxnResponse
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.protocol.messages.find_coordinator_response import (
    Coordinator,
    FindCoordinatorResponse,
)
from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
from sawlog.protocol.messages.init_producer_id_response import InitProducerIdResponse
from sawlog.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from sawlog.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from sawlog.protocol.record_batch import read_header
from support.client.producing_broker import answering
from support.client.scripted_broker import NODE_ID, Act, ScriptedBroker

WHERE = partition_of("logs", 0)
TRANSACTION_APIS = (
    ApiKey.FIND_COORDINATOR,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)


class TransactionalBroker(ScriptedBroker):
    """Accepts everything; the epoch goes up as in the transaction version."""

    def __init__(self, version: int) -> None:
        super().__init__(logs=2)
        self.version = version
        self.epoch = 0
        self.offers |= {api: advertised_versions(api) for api in TRANSACTION_APIS}
        self.always_reply(ApiKey.FIND_COORDINATOR, self.coordinator)
        self.always_reply(ApiKey.INIT_PRODUCER_ID, self.init)
        self.always_reply(ApiKey.ADD_PARTITIONS_TO_TXN, self.add_partitions)
        self.always_reply(ApiKey.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnResponse())
        self.always_reply(ApiKey.TXN_OFFSET_COMMIT, self.commit_offsets)
        self.always_reply(ApiKey.PRODUCE, answering())
        self.always_reply(ApiKey.END_TXN, self.end)

    def versions(self) -> ApiVersionsResponse:
        found = super().versions()
        found.finalized_features_epoch = 1
        found.finalized_features = [
            FinalizedFeatureKey(name="transaction.version", max_version_level=self.version)
        ]
        return found

    def coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=NODE_ID, host=self.host, port=self.port)
                for key in request.coordinator_keys
            ]
        )

    def init(self, _: InitProducerIdRequest) -> InitProducerIdResponse:
        self.epoch += 1
        return InitProducerIdResponse(producer_id=9, producer_epoch=self.epoch)

    def add_partitions(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=index)
                        for index in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def commit_offsets(self, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(partition_index=each.partition_index)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def end(self, _: EndTxnRequest) -> EndTxnResponse:
        if self.version < 2:
            return EndTxnResponse()
        self.epoch += 1
        return EndTxnResponse(producer_id=9, producer_epoch=self.epoch)

    def used_versions(self, api: ApiKey) -> list[int]:
        return [version for used, version, _ in self.requests if used is api]

    def produced(self) -> list[tuple[int, int, bool]]:
        """The epoch and base sequence of each batch, and whether it is transactional."""
        headers = [
            read_header(each.records)
            for request in self.requests_for(ApiKey.PRODUCE)
            for topic in request.topic_data
            for each in topic.partition_data
        ]
        return [(h.producer_epoch, h.base_sequence, h.is_transactional) for h in headers]


@pytest.fixture(params=[1, 2])
def broker(request: pytest.FixtureRequest) -> Iterator[TransactionalBroker]:
    with TransactionalBroker(request.param) as broker:
        yield broker


@pytest.fixture
def producer(broker: TransactionalBroker) -> Iterator[Producer]:
    with (
        Cluster(broker.bootstrap, timeout_ms=300) as cluster,
        Producer(cluster, transactional_id="id") as producer,
    ):
        yield producer


def test_partitions_groups_and_epochs_follow_the_transaction_version(
    broker: TransactionalBroker, producer: Producer
) -> None:
    for _ in range(2):
        with producer.transaction():
            producer.send("logs", b"a", partition=0)
            producer.send_offsets({WHERE: 7}, "group")
    is_1 = broker.version == 1
    assert len(broker.requests_for(ApiKey.ADD_PARTITIONS_TO_TXN)) == (2 if is_1 else 0)
    assert len(broker.requests_for(ApiKey.ADD_OFFSETS_TO_TXN)) == (2 if is_1 else 0)
    assert broker.produced() == [(1, 0, True), (1, 1, True) if is_1 else (2, 0, True)]
    assert broker.used_versions(ApiKey.PRODUCE) == [11 if is_1 else 13] * 2
    assert broker.used_versions(ApiKey.END_TXN) == [4 if is_1 else 5] * 2
    assert broker.used_versions(ApiKey.TXN_OFFSET_COMMIT) == [4 if is_1 else 5] * 2
    assert {each.transactional_id for each in broker.requests_for(ApiKey.PRODUCE)} == {"id"}


def test_an_empty_transaction_sends_nothing(
    broker: TransactionalBroker, producer: Producer
) -> None:
    with producer.transaction():
        pass
    producer.begin()
    producer.abort()
    assert broker.requests_for(ApiKey.END_TXN) == []


@pytest.mark.parametrize(
    "trouble",
    [Act.CLOSE, EndTxnResponse(error_code=ErrorCode.NOT_COORDINATOR)],
    ids=["lost", "moved"],
)
def test_an_end_without_an_answer_is_sent_again(
    broker: TransactionalBroker, producer: Producer, trouble: Act | EndTxnResponse
) -> None:
    broker.reply(ApiKey.END_TXN, trouble)
    with producer.transaction():
        producer.send("logs", b"a", partition=0)
    first, second = broker.requests_for(ApiKey.END_TXN)
    assert (first.producer_epoch, first.committed) == (second.producer_epoch, True)


def test_a_commit_without_an_answer_can_be_called_again_but_not_aborted(
    broker: TransactionalBroker, producer: Producer
) -> None:
    producer.begin()
    producer.send("logs", b"a", partition=0)
    loading = EndTxnResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    broker.always_reply(ApiKey.END_TXN, loading)
    with pytest.raises(TransactionRetriable, match="call the same method again"):
        producer.commit()
    with pytest.raises(ValueError, match="cannot abort"):
        producer.abort()
    broker.always_reply(ApiKey.END_TXN, broker.end)
    producer.commit()
    with producer.transaction():
        producer.send("logs", b"b", partition=0)


def test_after_a_commit_of_the_context_manager_without_an_answer_commit_finishes_it(
    broker: TransactionalBroker, producer: Producer
) -> None:
    loading = EndTxnResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    broker.always_reply(ApiKey.END_TXN, loading)
    with pytest.raises(TransactionRetriable), producer.transaction():
        producer.send("logs", b"a", partition=0)
    assert len(broker.requests_for(ApiKey.END_TXN)) > 1
    with pytest.raises(ValueError, match="the producer is committing; call commit again"):
        producer.begin()
    broker.always_reply(ApiKey.END_TXN, broker.end)
    producer.commit()
    with producer.transaction():
        producer.send("logs", b"b", partition=0)
    assert all(each.committed for each in broker.requests_for(ApiKey.END_TXN))


def test_after_an_abort_of_the_context_manager_without_an_answer_abort_finishes_it(
    broker: TransactionalBroker, producer: Producer
) -> None:
    loading = EndTxnResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    broker.always_reply(ApiKey.END_TXN, loading)

    def send_and_fail() -> None:
        with producer.transaction():
            producer.send("logs", b"a", partition=0)
            producer.flush()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        send_and_fail()
    with pytest.raises(ValueError, match="the producer is aborting; call abort again"):
        producer.begin()
    broker.always_reply(ApiKey.END_TXN, broker.end)
    producer.abort()
    with producer.transaction():
        producer.send("logs", b"b", partition=0)


def test_the_epoch_goes_up_after_a_lost_batch(
    broker: TransactionalBroker, producer: Producer
) -> None:
    refused = ErrorCode.INVALID_RECORD
    broker.reply(ApiKey.PRODUCE, answering(refused))
    producer.begin()
    producer.send("logs", b"a", partition=0)
    with pytest.raises(TransactionAbortable) as raised:
        producer.commit()
    assert raised.value.code is refused
    producer.abort()
    with producer.transaction():
        producer.send("logs", b"b", partition=0)
    assert broker.produced() == [(1, 0, True), (2, 0, True)]
    renewals = broker.requests_for(ApiKey.INIT_PRODUCER_ID)[1:]
    expected = [(9, 1)] if broker.version == 1 else []
    assert [(each.producer_id, each.producer_epoch) for each in renewals] == expected


def test_a_fenced_end_is_fatal_and_drops_what_comes_after(
    broker: TransactionalBroker, producer: Producer
) -> None:
    broker.reply(ApiKey.END_TXN, EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED))
    producer.begin()
    producer.send("logs", b"a", partition=0)
    with pytest.raises(TransactionFatal) as raised:
        producer.commit()
    assert raised.value.code is ErrorCode.PRODUCER_FENCED
    for call in (producer.begin, producer.commit, producer.abort):
        with pytest.raises(TransactionFatal):
            call()


def test_an_empty_transactional_id_weak_acks_and_no_timeout_are_refused(
    broker: TransactionalBroker,
) -> None:
    with pytest.raises(ValueError, match="the transactional id is empty"):
        Producer(broker.bootstrap, transactional_id="")
    with pytest.raises(ValueError, match="needs acks=all"):
        Producer(broker.bootstrap, transactional_id="id", acks=1)
    with pytest.raises(ValueError, match="transaction_timeout_ms is at least 1, not 0"):
        Producer(broker.bootstrap, transactional_id="id", transaction_timeout_ms=0)
    with (
        Producer(broker.bootstrap) as plain,
        pytest.raises(ValueError, match="has no transactional id"),
    ):
        plain.begin()
