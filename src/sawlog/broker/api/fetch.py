"""Fetch, versions 4 to 18: sessions (KIP-227), topic ids from 13 (KIP-516), epochs (KIP-320, 595).

Answered at once where there is an error, enough bytes or no time to wait, or where a reader is
behind the last segment; else parked under the partitions' watermarks until `min_bytes` are there or
the time is up. Records go out as slices of files. `max_bytes` bounds the answer, and what it can be
made to wait for, but its first batch is always whole (KIP-74).
"""

from typing import TYPE_CHECKING

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ports import FileSlice
from sawlog.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

if TYPE_CHECKING:
    from sawlog.broker.broker import Broker
    from sawlog.broker.fetch_sessions import FetchContext, FetchedPartition
    from sawlog.broker.request import Request
    from sawlog.core.ports import TimerHandle
    from sawlog.protocol.messages.fetch_request import FetchRequest
    from sawlog.replication.partition import Partition

    Results = list[tuple[FetchedPartition, PartitionData, int]]

FIRST_VERSION_WITH_CURRENT_LEADER = 12
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_REPLICA_STATE = 15
READ_COMMITTED = 1
_CONSUMER = -1
_ENOUGH = 1 << 32
"""More bytes than a request can ask to wait for."""

_ASK_ANOTHER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def fetch(broker: "Broker", request: "Request", message: "FetchRequest") -> FetchResponse | None:
    try:
        context = broker.fetch_sessions.open(message, request.api_version)
    except KafkaError as error:
        return FetchResponse(error_code=int(error.code))
    attempt = _Attempt(broker, request, message, context)
    if attempt.read() or message.max_wait_ms <= 0 or not context.partitions:
        return attempt.response()
    attempt.park()
    return None


class _Attempt:
    """One Fetch request: it reads, and where that is not enough it waits and reads again."""

    __slots__ = (
        "_broker",
        "_context",
        "_deadline",
        "_look",
        "_message",
        "_replica_id",
        "_request",
        "_results",
        "_watched",
    )

    def __init__(
        self, broker: "Broker", request: "Request", message: "FetchRequest", context: "FetchContext"
    ) -> None:
        self._broker = broker
        self._request = request
        self._message = message
        self._context = context
        self._replica_id = (
            message.replica_state.replica_id
            if request.api_version >= FIRST_VERSION_WITH_REPLICA_STATE
            else message.replica_id
        )
        self._results: Results = []
        self._watched: list[Partition] = []
        self._deadline: TimerHandle | None = None
        self._look: TimerHandle | None = None

    def read(self) -> bool:
        """Reads every partition; whether that is enough to answer."""
        message = self._message
        budget = min(message.max_bytes, self._broker.fetch_max_bytes)
        results: Results = []
        total = 0
        counted = 0
        for partition in self._context.partitions:
            try:
                data, size, counts = self._read_one(partition, budget - total, total == 0)
            except KafkaError as error:
                data, size, counts = self._refusal(partition, error), 0, _ENOUGH
            total += size
            counted += counts
            results.append((partition, data, size))
        self._results = results
        return counted >= min(message.min_bytes, budget)

    def _read_one(
        self, partition: "FetchedPartition", budget: int, is_first: bool
    ) -> tuple[PartitionData, int, int]:
        """The answer, the size of its records, and how many bytes of `min_bytes` are there."""
        replica = self._replica(partition)
        if self._replica_id >= 0:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        replica.check_epoch(partition.leader_epoch)
        watermark = replica.high_watermark
        data = PartitionData(
            partition.index, 0, watermark, replica.last_stable_offset, replica.log.start_offset
        )
        data.aborted_transactions = [] if self._message.isolation_level == READ_COMMITTED else None
        data.records = b""
        offset = partition.fetch_offset
        if partition.last_fetched_epoch >= 0:
            epoch, end = replica.log.end_offset_for_epoch(partition.last_fetched_epoch)
            if epoch < 0:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < partition.last_fetched_epoch or end < offset:
                data.diverging_epoch = EpochEndOffset(epoch, end)
                return data, 0, _ENOUGH
        if watermark <= offset <= replica.log.end_offset:
            return data, 0, 0
        size = min(partition.max_bytes, max(budget, 0))
        piece = replica.read(offset, size, whole_first_batch=is_first)
        if piece is None or piece.length == 0:
            return data, 0, 0 if is_first else size  # it is there, and has no room in this answer
        data.records = piece
        return data, piece.length, _ENOUGH if _is_behind(replica, offset) else piece.length

    def _replica(self, partition: "FetchedPartition") -> "Partition":
        broker = self._broker
        if self._request.api_version < FIRST_VERSION_WITH_TOPIC_IDS:
            return broker.leading(
                partition.topic, partition.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        name = broker.topic_name(partition.topic_id)
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return broker.leading(name, partition.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _refusal(self, partition: "FetchedPartition", error: KafkaError) -> PartitionData:
        data = PartitionData(partition.index, int(error.code), -1, -1, -1)
        data.records = b""
        if error.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
            return data
        data.aborted_transactions = None
        version = self._request.api_version
        if error.code in _ASK_ANOTHER and version >= FIRST_VERSION_WITH_CURRENT_LEADER:
            name: str | None = partition.topic
            if version >= FIRST_VERSION_WITH_TOPIC_IDS:
                name = self._broker.topic_name(partition.topic_id)
            leader, epoch = self._broker.current_leader(name, partition.index)
            data.current_leader = LeaderIdAndEpoch(leader, epoch)
        return data

    # Waiting

    def park(self) -> None:
        broker = self._broker
        self._deadline = broker.timer.after(self._message.max_wait_ms, self.finish)
        for partition in self._context.partitions:
            replica = self._replica(partition)
            self._watched.append(replica)
            replica.watch(self)
        broker.parking.park(self._request.client, self)

    def look_again(self) -> None:
        """A watermark moved, or a partition went away. Many may move at once: one look at the end
        of this turn sees them all."""
        if self._look is None:
            self._look = self._broker.timer.after(0, self._look_now)

    def _look_now(self) -> None:
        self._look = None
        if self.read():
            self._answer()

    def finish(self) -> None:
        """Time is up, or the broker stops."""
        self.read()
        self._answer()

    def abandon(self) -> None:
        for timer in (self._deadline, self._look):
            if timer is not None:
                timer.cancel()
        for replica in self._watched:
            replica.unwatch(self)

    def _answer(self) -> None:
        self.abandon()
        self._broker.parking.leave(self._request.client, self)
        self._request.reply(self.response())

    # Answering

    def response(self) -> FetchResponse:
        try:
            results = self._context.select(self._results)
        except KafkaError as error:
            return FetchResponse(error_code=int(error.code))
        response = FetchResponse()
        response.session_id = self._context.open_session(self._request.api_version)
        topic: FetchableTopicResponse | None = None
        last: tuple[str, bytes] | None = None
        for partition, data, size in results:
            key = (partition.topic, partition.topic_id)
            if topic is None or key != last:
                topic = FetchableTopicResponse(partition.topic, partition.topic_id, [])
                response.responses.append(topic)
                last = key
            topic.partitions.append(data)
            if size and isinstance(data.records, FileSlice):
                self._broker.metrics.served(size)
        return response


def _is_behind(replica: "Partition", offset: int) -> bool:
    """Whether the watermark lies in a later segment than `offset`: such a reader has enough to do,
    and what it gets ends with its segment anyway. Kafka lets none of them wait either."""
    segments = replica.log.segments
    return offset < segments.active.base_offset and (
        segments.number_of(offset) < segments.number_of(replica.high_watermark)
    )
