"""Ranges of offsets from a broker that moves leaders, loses logs and responds out of order."""

import pickle
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from sawlog.client.arrow.offset_range import Chunk, OffsetsLost, TopicReplaced, read_range
from sawlog.client.net.cluster import Cluster, NoSuchTopic
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import PartitionIndex, TopicId, TopicName, TopicPartition
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.fetch_request import FetchRequest
from sawlog.protocol.messages.fetch_response import (
    AbortedTransaction,
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
from sawlog.protocol.record_batch import read_header
from support.client.scripted_broker import Act, ScriptedBroker
from support.protocol.batches import ABORT, batch, marker

LOGS = TopicPartition(TopicName("logs"), PartitionIndex(0))
EARLIEST = -2
OLD_ID, NEW_ID = b"logs".ljust(16, b"."), b"new".ljust(16, b".")


class Log(ScriptedBroker):
    """The partition `logs-0` with these batches; a response holds one batch."""

    def __init__(self, *batches: bytes, end: int | None = None) -> None:
        super().__init__(logs=1)
        self.batches = list(batches)
        self.start = 0
        self.end = read_header(batches[-1]).next_offset if end is None else end
        self.stable = self.end
        self.aborted: list[AbortedTransaction] = []
        self.topic_id = OLD_ID
        self.always_reply(ApiKey.FETCH, self.fetch)
        self.always_reply(ApiKey.LIST_OFFSETS, self.offsets)

    def _topic(self, name: str) -> Any:
        topic = super()._topic(name)
        topic.topic_id = self.topic_id
        return topic

    def fetch(self, request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        if topic.topic_id != self.topic_id:
            return failing(ErrorCode.UNKNOWN_TOPIC_ID)(request)
        offset = topic.partitions[0].fetch_offset
        if not self.start <= offset <= self.end:
            return failing(ErrorCode.OFFSET_OUT_OF_RANGE)(request)
        bound = self.stable if request.isolation_level else self.end
        found = [b for b in self.batches if offset < read_header(b).next_offset <= bound]
        return self.answer(request, found[0] if found else None)

    def answer(self, request: FetchRequest, records: bytes | None) -> FetchResponse:
        return answer(
            request,
            high_watermark=self.end,
            last_stable_offset=self.stable,
            aborted_transactions=self.aborted,
            records=records,
        )

    def offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        mark = request.topics[0].partitions[0].timestamp
        offset = self.start if mark == EARLIEST else self.end
        found = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name="logs", partitions=[found])]
        )


def answer(request: FetchRequest, **fields: Any) -> FetchResponse:
    (topic,) = request.topics
    data = PartitionData(partition_index=0, **fields)
    return FetchResponse(
        responses=[
            FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[data])
        ]
    )


def failing(code: ErrorCode) -> Callable[[FetchRequest], FetchResponse]:
    return lambda request: answer(request, error_code=code)


def three_batches(**fields: Any) -> Log:
    return Log(batch(0, b"a", b"b", b"c"), batch(3, b"d"), batch(4, b"e", b"f"), **fields)


def values(chunks: Iterable[Chunk]) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for chunk in chunks:
        offsets, contents = (chunk.batch.column(n).to_pylist() for n in ("offset", "value"))
        found += zip(offsets, contents, strict=True)
        assert all(offset < chunk.next_offset for offset, _ in found)
    return found


@pytest.mark.parametrize(("start", "end"), [(0, 6), (1, 5), (3, 4), (2, 3), (5, 6), (4, 4)])
def test_a_range_holds_exactly_its_offsets(start: int, end: int) -> None:
    with three_batches() as broker, Cluster(broker.bootstrap) as cluster:
        chunks = list(read_range(cluster, LOGS, start, end))
        letters = [b"a", b"b", b"c", b"d", b"e", b"f"]
        assert values(chunks) == list(enumerate(letters))[start:end]
        assert [chunk.next_offset for chunk in chunks][-1:] == ([end] if start < end else [])
        assert len(broker.requests_for(ApiKey.FETCH)) == len(chunks)


def test_chunks_have_their_fetched_bytes_and_the_chosen_columns() -> None:
    with three_batches() as broker, Cluster(broker.bootstrap) as cluster:
        chunks = list(read_range(cluster, LOGS, 0, 6, columns=("value", "offset")))
        assert [chunk.fetched_bytes for chunk in chunks] == [len(b) for b in broker.batches]
        assert [chunk.batch.schema.names for chunk in chunks] == [["offset", "value"]] * 3


def test_the_next_fetch_is_in_flight_while_a_chunk_is_used() -> None:
    with three_batches() as broker, Cluster(broker.bootstrap) as cluster:
        asked_again = threading.Event()

        def second(request: FetchRequest) -> FetchResponse:
            asked_again.set()
            return broker.fetch(request)

        broker.reply(ApiKey.FETCH, broker.fetch, second)
        chunks = read_range(cluster, LOGS, 0, 6)
        next(chunks)
        assert asked_again.wait(60)


def test_an_abandoned_range_does_not_affect_the_next() -> None:
    with three_batches() as broker, Cluster(broker.bootstrap) as cluster:
        for _ in range(3):
            assert values([next(read_range(cluster, LOGS, 0, 6))])[0] == (0, b"a")
        both = zip(read_range(cluster, LOGS, 0, 6), read_range(cluster, LOGS, 0, 6), strict=True)
        for one, other in both:
            assert one.batch.equals(other.batch)


def test_gaps_are_skipped_also_at_the_end() -> None:
    log = Log(batch(2, b"a"), batch(10, b"b"), end=20)
    with log as broker, Cluster(broker.bootstrap) as cluster:
        chunks = list(read_range(cluster, LOGS, 0, 20))
        assert values(chunks) == [(2, b"a"), (10, b"b")]
        assert chunks[-1].next_offset == 20
        assert values(read_range(cluster, LOGS, 3, 9)) == []


def test_a_log_that_starts_after_the_range_raises_offsets_lost() -> None:
    with three_batches() as broker, Cluster(broker.bootstrap) as cluster:
        broker.start = 4
        with pytest.raises(OffsetsLost, match="begins at 4 and ends before 6") as raised:
            list(read_range(cluster, LOGS, 1, 6))
        assert raised.value.partition == LOGS
        assert (raised.value.wanted, raised.value.available) == (range(1, 6), range(4, 6))
        assert not raised.value.is_retriable


def test_retention_during_a_range_raises_offsets_lost() -> None:
    with three_batches() as broker, Cluster(broker.bootstrap) as cluster:
        chunks = read_range(cluster, LOGS, 0, 6)
        broker.reply(ApiKey.FETCH, broker.fetch, failing(ErrorCode.OFFSET_OUT_OF_RANGE))
        assert values([next(chunks)]) == [(0, b"a"), (1, b"b"), (2, b"c")]
        broker.start = 4
        with pytest.raises(OffsetsLost, match="offsets 3 to 5: it begins at 4"):
            next(chunks)


def test_a_log_that_ends_before_the_range_raises_offsets_lost() -> None:
    with three_batches() as broker, Cluster(broker.bootstrap) as cluster:
        chunks = read_range(cluster, LOGS, 5, 9)
        assert values([next(chunks)]) == [(5, b"f")]
        with pytest.raises(OffsetsLost, match="ends before 6"):
            next(chunks)


@pytest.mark.parametrize(
    "failure",
    [
        Act.CLOSE,
        failing(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        failing(ErrorCode.OFFSET_OUT_OF_RANGE),
        failing(ErrorCode.UNKNOWN_TOPIC_ID),
        FetchResponse(error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
        FetchResponse(),  # as of a throttling broker
        lambda request: answer(request, high_watermark=3, last_stable_offset=3),
    ],
)
def test_a_retriable_error_is_retried(failure: Any) -> None:
    with three_batches() as broker, Cluster(broker.bootstrap) as cluster:
        broker.reply(ApiKey.FETCH, broker.fetch, failure)
        assert [offset for offset, _ in values(read_range(cluster, LOGS, 0, 6))] == [*range(6)]


def test_a_retriable_error_that_lasts_is_raised() -> None:
    with three_batches() as broker, Cluster(broker.bootstrap, timeout_ms=100) as cluster:
        broker.always_reply(ApiKey.FETCH, failing(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        with pytest.raises(
            KafkaError, match="the fetch of logs-0 from offset 2 was refused"
        ) as raised:
            next(read_range(cluster, LOGS, 2, 6))
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_topic_recreated_during_a_range_raises_topic_replaced() -> None:
    with three_batches() as broker, Cluster(broker.bootstrap) as cluster:
        broker.reply(ApiKey.FETCH, broker.fetch, failing(ErrorCode.UNKNOWN_TOPIC_ID))
        chunks = read_range(cluster, LOGS, 0, 6)
        next(chunks)
        broker.topic_id = NEW_ID
        with pytest.raises(TopicReplaced, match="'logs' was deleted and created again"):
            next(chunks)


def test_cached_topic_metadata_is_not_trusted() -> None:
    with three_batches() as broker, Cluster(broker.bootstrap) as cluster:
        assert cluster.topic("logs").id == OLD_ID
        broker.topic_id = NEW_ID
        assert len(values(read_range(cluster, LOGS, 0, 6))) == 6


def test_a_topic_with_another_id_is_not_read() -> None:
    with three_batches() as broker, Cluster(broker.bootstrap) as cluster:
        with pytest.raises(TopicReplaced):
            next(read_range(cluster, LOGS, 0, 6, topic_id=TopicId(NEW_ID)))
        assert not broker.requests_for(ApiKey.FETCH)


def test_a_topic_deleted_meanwhile_is_an_error() -> None:
    with three_batches() as broker, Cluster(broker.bootstrap) as cluster:
        broker.reply(ApiKey.FETCH, broker.fetch, failing(ErrorCode.UNKNOWN_TOPIC_ID))
        chunks = read_range(cluster, LOGS, 0, 6)
        next(chunks)
        del broker.partition_counts["logs"]
        with pytest.raises(NoSuchTopic):
            next(chunks)


@pytest.mark.parametrize("records", [batch(3, b"d")[:-1], batch(0, b"a", b"b", b"c"), b"\0" * 99])
def test_a_response_without_progress_is_an_error(records: bytes) -> None:
    with three_batches() as broker, Cluster(broker.bootstrap) as cluster:
        broker.always_reply(ApiKey.FETCH, lambda request: broker.answer(request, records))
        with pytest.raises(KafkaError, match="logs-0 at offset 3 cannot be read") as raised:
            next(read_range(cluster, LOGS, 3, 6))
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


def test_valid_batches_come_before_the_error_of_a_corrupt_one() -> None:
    damaged = bytearray(batch(3, b"d"))
    damaged[-1] ^= 1
    with three_batches() as broker, Cluster(broker.bootstrap) as cluster:
        both = broker.batches[0] + bytes(damaged)
        broker.reply(ApiKey.FETCH, lambda request: broker.answer(request, both))
        chunks = read_range(cluster, LOGS, 0, 6)
        first = next(chunks)
        assert (first.batch.num_rows, first.next_offset) == (3, 3)
        with pytest.raises(KafkaError, match="logs-0 at offset 3 cannot be read"):
            next(chunks)


def test_read_committed_leaves_out_aborted_records() -> None:
    log = Log(batch(0, b"a", producer_id=9), marker(1, 9, ABORT), batch(2, b"b"))
    with log as broker, Cluster(broker.bootstrap) as cluster:
        broker.aborted = [AbortedTransaction(producer_id=9, first_offset=0)]
        chunks = list(read_range(cluster, LOGS, 0, 3, read_committed=True))
        assert values(chunks) == [(2, b"b")]
        assert values(read_range(cluster, LOGS, 0, 3)) == [(0, b"a"), (2, b"b")]


def test_an_open_transaction_is_reported() -> None:
    with three_batches() as broker, Cluster(broker.bootstrap, timeout_ms=200) as cluster:
        broker.stable = 3
        chunks = read_range(cluster, LOGS, 0, 6, read_committed=True, max_wait_ms=10)
        assert values([next(chunks)]) == [(0, b"a"), (1, b"b"), (2, b"c")]
        with pytest.raises(KafkaError, match="up to 3, not yet up to 6: is a transaction open"):
            next(chunks)


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (4, 3)])
def test_an_invalid_range_is_refused_at_once(start: int, end: int) -> None:
    with three_batches() as broker, Cluster(broker.bootstrap) as cluster:
        with pytest.raises(ValueError, match=f"offsets {start} to {end} is not valid"):
            read_range(cluster, LOGS, start, end)
        with pytest.raises(ValueError, match="no column 'price'"):
            read_range(cluster, LOGS, 0, 3, columns=("price",))
        assert not broker.requests


def test_errors_can_be_pickled() -> None:
    for error in (OffsetsLost(LOGS, range(3), range(5, 9)), TopicReplaced("logs", OLD_ID, NEW_ID)):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
