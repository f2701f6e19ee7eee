"""A consumer of a broker that moves leaders, loses connections and responds out of order."""

from collections.abc import Callable

import pytest

from sawlog.client.consumer.consumer import AT_EARLIEST, AtOffset, AtTime, Consumer, OffsetReset
from sawlog.client.errors import ClientError
from sawlog.client.net.cluster import Cluster, NoSuchTopic
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.fetch_request import FetchRequest
from sawlog.protocol.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from sawlog.protocol.messages.list_offsets_request import ListOffsetsRequest
from sawlog.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from sawlog.protocol.records import Record, build_batch
from support.client.scripted_broker import Act, ScriptedBroker

END = 10
POLL_MS = 10_000
_MANY_POLLS = 10_000  # a poll that fails does not wait
LOGS = TopicPartition(TopicName("logs"), PartitionIndex(0))


def fetching(code: int = 0) -> Callable[[FetchRequest], FetchResponse]:
    """Respond with one record for each partition at its fetch offset, up to END."""

    def data(partition: int, offset: int) -> PartitionData:
        records = None
        if offset < END and not code:
            value = b"%d-%d" % (partition, offset)
            records = build_batch([Record(0, 1_000, None, value)], base_offset=offset)
        return PartitionData(
            partition_index=partition, error_code=code, high_watermark=END, records=records
        )

    def answer(request: FetchRequest) -> FetchResponse:
        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[data(p.partition, p.fetch_offset) for p in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    return answer


def offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Respond to ListOffsets; the timestamp of a record is 100 times its offset."""

    def find(timestamp: int) -> int:
        return {-1: END, -2: 2}.get(timestamp, timestamp // 100 if timestamp < 1_000 else -1)

    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=p.partition_index, offset=find(p.timestamp)
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def broker_with(**partition_counts: int) -> ScriptedBroker:
    broker = ScriptedBroker(**partition_counts)
    broker.always_reply(ApiKey.FETCH, fetching())
    broker.always_reply(ApiKey.LIST_OFFSETS, offsets)
    return broker


def test_records_come_in_order_from_the_start_position() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        consumer = Consumer(cluster)
        consumer.assign({LOGS: AtOffset(7)})
        values = [consumer.poll(POLL_MS)[0].value for _ in range(3)]
        assert values == [b"0-7", b"0-8", b"0-9"]
        assert consumer.positions == {LOGS: 10}
        assert consumer.end(LOGS) == END
        assert consumer.poll(0) == []


@pytest.mark.parametrize(
    ("start", "offset"),
    [(AT_EARLIEST, 2), (AtTime(-1), END), (AtTime(500), 5), (AtTime(5_000), END), (AtOffset(3), 3)],
)
def test_a_start_is_an_offset_a_time_or_an_end(start: AtOffset | AtTime, offset: int) -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        consumer = Consumer(cluster)
        consumer.assign({LOGS: start})
        assert consumer.positions == {LOGS: offset}


def test_all_partitions_of_a_topic_are_read() -> None:
    with broker_with(logs=3) as broker, Cluster(broker.bootstrap) as cluster:
        consumer = Consumer(cluster)
        consumer.assign_topic("logs", AtOffset(9))
        values = {record.value for record in consumer.poll(POLL_MS)}
        assert values == {b"0-9", b"1-9", b"2-9"}


def test_poll_returns_at_most_max_records_and_loses_none() -> None:
    with broker_with(logs=3) as broker, Cluster(broker.bootstrap) as cluster:
        consumer = Consumer(cluster)
        consumer.assign_topic("logs", AtOffset(9))
        values = [consumer.poll(POLL_MS, max_records=1)[0].value for _ in range(3)]
        assert sorted(value or b"" for value in values) == [b"0-9", b"1-9", b"2-9"]


def test_records_fetched_before_a_seek_are_dropped() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        consumer = Consumer(cluster)
        consumer.assign({LOGS: AtOffset(0)})
        assert consumer.poll(POLL_MS)[0].offset == 0
        consumer.seek(LOGS, AtOffset(5))
        assert consumer.poll(POLL_MS)[0].offset == 5


@pytest.mark.parametrize(
    "failure",
    [
        Act.CLOSE,
        fetching(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        fetching(ErrorCode.UNKNOWN_TOPIC_ID),
        FetchResponse(error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_a_retriable_error_is_retried_with_fresh_metadata(failure: Act) -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        consumer = Consumer(cluster)
        consumer.assign({LOGS: AtOffset(4)})
        broker.reply(ApiKey.FETCH, failure)
        assert consumer.poll(POLL_MS)[0].offset == 4
        assert len(broker.requests_for(ApiKey.METADATA)) == 2


def test_a_retriable_error_that_lasts_is_raised() -> None:
    with (
        broker_with(logs=1) as broker,
        Cluster(broker.bootstrap, timeout_ms=100) as cluster,
    ):
        consumer = Consumer(cluster)
        consumer.assign({LOGS: AtOffset(4)})
        broker.always_reply(ApiKey.FETCH, fetching(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        with pytest.raises(KafkaError) as raised:
            consumer.poll(POLL_MS)
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_broker_that_stays_away_is_an_error() -> None:
    with (
        broker_with(logs=1) as broker,
        Cluster(broker.bootstrap, timeout_ms=100) as cluster,
    ):
        consumer = Consumer(cluster)
        consumer.assign({LOGS: AtOffset(9)})
        assert consumer.poll(POLL_MS)
        broker.stop_listening()
        broker.close_connections()
        with pytest.raises(ClientError):
            consumer.poll(POLL_MS)


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CORRUPT_MESSAGE])
def test_a_fetch_error_names_the_partition_and_the_offset(code: ErrorCode) -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap, timeout_ms=0) as cluster:
        consumer = Consumer(cluster)
        consumer.assign({LOGS: AtOffset(4)})
        broker.always_reply(ApiKey.FETCH, fetching(code))
        with pytest.raises(KafkaError, match="logs-0 from offset 4"):
            consumer.poll(POLL_MS)
        assert consumer.positions == {LOGS: 4}


def test_a_topic_deleted_meanwhile_is_an_error() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        consumer = Consumer(cluster)
        consumer.assign({LOGS: AtOffset(4)})
        del broker.partition_counts["logs"]
        broker.reply(ApiKey.FETCH, fetching(ErrorCode.UNKNOWN_TOPIC_ID))
        with pytest.raises(NoSuchTopic):
            consumer.poll(POLL_MS)


def _forgets(topic: str) -> Callable[[FetchRequest], FetchResponse]:
    """As `fetching`, but the topic is deleted."""

    def answer(request: FetchRequest) -> FetchResponse:
        found = fetching()(request)
        for asked, topic_response in zip(request.topics, found.responses, strict=True):
            if asked.topic_id.startswith(topic.encode()):
                for data in topic_response.partitions:
                    data.error_code, data.records = ErrorCode.UNKNOWN_TOPIC_ID, None
        return found

    return answer


def _read(consumer: Consumer, count: int) -> tuple[list[tuple[int, int]], list[Exception]]:
    """Poll until there are `count` records and a failure; returns partitions and offsets."""
    read: list[tuple[int, int]] = []
    failures: list[Exception] = []
    for _ in range(_MANY_POLLS):
        if len(read) >= count and failures:
            break
        try:
            read += [(r.partition, r.offset) for r in consumer.poll(POLL_MS, max_records=1)]
        except KafkaError as error:
            failures.append(error)
    return read, failures


@pytest.mark.parametrize("first", ["logs", "gone"])
def test_a_failing_partition_loses_no_records_of_others(first: str) -> None:
    with broker_with(logs=2, gone=1) as broker, Cluster(broker.bootstrap) as cluster:
        consumer = Consumer(cluster)
        gone = TopicPartition(TopicName("gone"), PartitionIndex(0))
        logs = [TopicPartition(TopicName("logs"), PartitionIndex(index)) for index in (0, 1)]
        wanted = [*logs, gone] if first == "logs" else [gone, *logs]
        consumer.assign(dict.fromkeys(wanted, AtOffset(0)))
        broker.always_reply(ApiKey.FETCH, _forgets("gone"))
        del broker.partition_counts["gone"]
        read, failures = _read(consumer, 2 * END)
        for index in (0, 1):
            assert [offset for of, offset in read if of == index] == list(range(END))
        assert failures
        assert all(isinstance(failure, NoSuchTopic) for failure in failures)
        assert consumer.positions == {gone: 0, **dict.fromkeys(logs, END)}


def _refuses_the_first(request: FetchRequest) -> FetchResponse:
    answer = fetching()(request)
    for data in answer.responses[0].partitions:
        if data.partition_index == 0:
            data.error_code, data.records = ErrorCode.TOPIC_AUTHORIZATION_FAILED, None
    return answer


def test_a_partition_error_keeps_the_records_of_others_in_the_response() -> None:
    with broker_with(logs=2) as broker, Cluster(broker.bootstrap) as cluster:
        broker.always_reply(ApiKey.FETCH, _refuses_the_first)
        consumer = Consumer(cluster)
        consumer.assign_topic("logs", AtOffset(0))
        read, failures = _read(consumer, END)
        assert read == [(1, offset) for offset in range(END)]
        assert failures


def test_an_error_of_an_unassigned_partition_is_dropped() -> None:
    with broker_with(logs=2) as broker, Cluster(broker.bootstrap) as cluster:
        broker.always_reply(ApiKey.FETCH, _refuses_the_first)
        consumer = Consumer(cluster)
        consumer.assign_topic("logs", AtOffset(0))
        assert [record.partition for record in consumer.poll(POLL_MS)] == [1]
        consumer.assign({TopicPartition(TopicName("logs"), PartitionIndex(1)): AtOffset(5)})
        assert consumer.poll(POLL_MS)[0].offset == 5


def test_an_offset_out_of_range_is_an_error_by_default() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        consumer = Consumer(cluster)
        consumer.assign({LOGS: AtOffset(1)})
        broker.reply(ApiKey.FETCH, fetching(ErrorCode.OFFSET_OUT_OF_RANGE))
        with pytest.raises(KafkaError, match="no offset 1: its log starts at 2 and ends before 10"):
            consumer.poll(POLL_MS)


@pytest.mark.parametrize(
    ("policy", "offset"), [(OffsetReset.EARLIEST, 2), (OffsetReset.LATEST, END)]
)
def test_offset_reset_moves_to_the_earliest_or_the_latest(policy: OffsetReset, offset: int) -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        consumer = Consumer(cluster, offset_reset=policy)
        consumer.assign({LOGS: AtOffset(77)})
        broker.reply(ApiKey.FETCH, fetching(ErrorCode.OFFSET_OUT_OF_RANGE))
        if policy is OffsetReset.EARLIEST:
            assert [record.offset for record in consumer.poll(POLL_MS)] == [offset]
            assert consumer.positions == {LOGS: offset + 1}
        else:
            for _ in range(POLL_MS // 10):
                assert consumer.poll(10) == []
                if consumer.positions == {LOGS: offset}:
                    break
            assert consumer.positions == {LOGS: offset}


def test_an_old_broker_gets_fetches_by_topic_name() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        broker.offers[ApiKey.METADATA] = (0, 9)
        consumer = Consumer(cluster)
        consumer.assign({LOGS: AtOffset(9)})
        assert consumer.poll(POLL_MS)[0].offset == 9
        versions = [version for api, version, _ in broker.requests if api is ApiKey.FETCH]
        assert versions[0] == 12


def test_seek_needs_an_assigned_partition() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        with pytest.raises(ValueError, match="logs-0 is not assigned"):
            Consumer(cluster).seek(LOGS, AtOffset(0))
        assert not broker.requests


def test_an_invalid_start_is_refused() -> None:
    with broker_with(logs=1) as broker, Consumer(broker.bootstrap) as consumer:
        for start in (5, "earliest"):
            with pytest.raises(TypeError, match=f"a start must be AT_EARLIEST, .* not {start!r}"):
                consumer.assign({LOGS: start})  # type: ignore[dict-item]


def test_a_partition_left_out_of_a_full_response_is_first_in_the_next() -> None:
    """Only the first partition of a fetch always gets a whole batch (KIP-74)."""

    def first_only(request: FetchRequest) -> FetchResponse:
        answer = fetching()(request)
        for data in answer.responses[0].partitions[1:]:
            data.records = (data.records or b"")[:30]  # type: ignore[index]
        return answer

    with broker_with(logs=3) as broker, Cluster(broker.bootstrap) as cluster:
        broker.always_reply(ApiKey.FETCH, first_only)
        consumer = Consumer(cluster)
        consumer.assign_topic("logs", AtOffset(0))
        served = [consumer.poll(POLL_MS)[0].partition for _ in range(6)]
        assert served == [0, 1, 2, 0, 1, 2]
