"""Fetch, versions 4 to 18: sessions (KIP-227), topic ids from 13 (KIP-516), epochs (KIP-320, 595).

The request is answered at once if a partition has an error, if `min_bytes` are there, if
`max_wait_ms` is 0, or if a fetch offset lies in an earlier segment than the high watermark (with
read_committed: the last stable offset, KIP-98); else it is parked until one moves or the timeout.
Records are sent as file slices. `max_bytes` bounds the response, but its first batch is always
whole (KIP-74). Racks: KIP-392.
"""

from typing import TYPE_CHECKING, Protocol

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId
from sawlog.core.ports import FileSlice
from sawlog.protocol.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from sawlog.replication.follower_progress import FollowerFetch
from sawlog.replication.isolation_level import IsolationLevel

if TYPE_CHECKING:
    from sawlog.broker.fetch_sessions import (
        FetchContext,
        FetchedPartition,
        FetchSessions,
    )
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.metrics import BrokerMetrics
    from sawlog.broker.purgatory import Purgatory
    from sawlog.broker.replicas import Replicas
    from sawlog.broker.replication_throttle import ReplicationThrottle
    from sawlog.broker.request import Request
    from sawlog.core.ports import Timer, TimerHandle
    from sawlog.protocol.messages.fetch_request import FetchRequest
    from sawlog.replication.replica import Replica

    class FetchApiContext(Protocol):
        fetch_max_bytes: int
        timer: Timer
        metadata: MetadataCache
        replicas: Replicas
        fetch_sessions: FetchSessions
        purgatory: Purgatory
        metrics: BrokerMetrics
        throttle: ReplicationThrottle

    Results = list[tuple[FetchedPartition, PartitionData, int]]

FIRST_VERSION_WITH_CURRENT_LEADER = 12
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_REPLICA_STATE = 15
DEBUGGING_CONSUMER = -2
"""The replica id of kafka-replica-verification, which reads every replica."""
_ENOUGH = 1 << 32
"""More than any `min_bytes`: completes the fetch at once."""

_WRONG_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def fetch(
    context: "FetchApiContext", request: "Request", message: "FetchRequest"
) -> FetchResponse | None:
    try:
        isolation = IsolationLevel.of(message.isolation_level)
    except KafkaError as error:
        return _refused(message, int(error.code))
    try:
        session = context.fetch_sessions.open(message, request.api_version)
    except KafkaError as error:
        return FetchResponse(error_code=int(error.code))
    attempt = _Fetch(context, request, message, session, isolation)
    if attempt.arrive() or message.max_wait_ms <= 0 or not session.has_partitions:
        attempt.abandon()
        return attempt.response()
    attempt.park()
    return None


def _refused(message: "FetchRequest", code: int) -> FetchResponse:
    """The error of a whole request, for each partition too: before version 7 there is no other."""
    topics = [
        FetchableTopicResponse(
            topic.topic,
            topic.topic_id,
            [
                PartitionData(each.partition, code, -1, -1, -1, records=b"")
                for each in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return FetchResponse(error_code=code, responses=topics)


class _Fetch:
    """One Fetch request: reads its partitions, and again after each move of an offset while it is
    parked.

    A request that names a replica reads up to the log end and reports the follower's progress,
    unless its epoch is wrong or its log diverges (KAFKA-13141). In a session it reads only the
    partitions that may have changed (`UnsettledPartitions`). It is also answered when the high
    watermark has moved, when a request begins to wait for a commit (`is_awaited`: flush now), and
    when the next fetch of its session arrives, which reports a flush.

    A consumer that names its rack is sent to an in-sync replica there, if the broker's selector
    says so. A follower serves such consumers up to its own high watermark, and answers
    OFFSET_NOT_AVAILABLE above its log end: the leader may have that offset.
    """

    __slots__ = (
        "_broker_epoch",
        "_context",
        "_isolation",
        "_max_bytes",
        "_message",
        "_next_read",
        "_replica_id",
        "_request",
        "_results",
        "_session",
        "_unsettled",
        "_watched",
    )

    def __init__(
        self,
        context: "FetchApiContext",
        request: "Request",
        message: "FetchRequest",
        session: "FetchContext",
        isolation: IsolationLevel,
    ) -> None:
        self._context = context
        self._request = request
        self._message = message
        self._session = session
        self._unsettled = session.unsettled
        self._isolation = isolation
        self._max_bytes = min(message.max_bytes, context.fetch_max_bytes)
        self._replica_id, self._broker_epoch = message.replica_id, -1
        if request.api_version >= FIRST_VERSION_WITH_REPLICA_STATE:
            state = message.replica_state
            self._replica_id, self._broker_epoch = state.replica_id, state.replica_epoch
        self._results: Results = []
        self._watched: list[Replica] = []
        self._next_read: TimerHandle | None = None

    def arrive(self) -> bool:
        """Read for the first time; return whether the results complete the fetch.

        A follower's fetch is notified of changes from now on: the progress that it reports may
        complete a request which appends to a partition that was read before.
        """
        if self._unsettled is not None:
            self._unsettled.park(self)
            if self._context.replicas.are_offline:
                self._session.read_all()
        return self.read(reports_progress=True)

    def read(self, *, reports_progress: bool = False) -> bool:
        """Read the partitions; return whether the results complete the fetch. The first read of a
        follower's fetch reports its progress; later it has aged in the purgatory."""
        budget = self._max_bytes
        results: Results = []
        total = 0
        available = 0
        is_replica = self._replica_id >= 0
        for partition in self._session.partitions:
            try:
                if is_replica:
                    data, size, counted = self._read_for_replica(
                        partition, budget - total, total == 0, reports_progress
                    )
                else:
                    data, size, counted = self._read_one(partition, budget - total, total == 0)
            except KafkaError as error:
                data, size, counted = self._error(partition, error), 0, _ENOUGH
                if self._unsettled is not None:
                    self._unsettled.unwatch(partition)
            total += size
            available += counted
            results.append((partition, data, size))
        self._results = results
        if is_replica and self._unsettled is None:
            return True  # the follower can report a flush only once it has a session
        return available >= min(self._message.min_bytes, budget)

    def _read_one(
        self, partition: "FetchedPartition", budget: int, is_first: bool
    ) -> tuple[PartitionData, int, int]:
        """Return the response, the size of its records, and the bytes that count as `min_bytes`."""
        replica = self._replica(partition)
        replica.check_epoch(partition.leader_epoch)
        if self._message.rack_id:
            data = self._redirect(partition, replica)
            if data is not None:
                return data, 0, _ENOUGH
        data = _empty_data(partition, replica)
        if self._isolation is IsolationLevel.READ_COMMITTED:
            data.aborted_transactions = []
        offset = partition.fetch_offset
        if partition.last_fetched_epoch >= 0 and _diverges(partition, replica, data):
            return data, 0, _ENOUGH
        end_offset = replica.readable_end(self._isolation)
        if end_offset <= offset <= replica.log.end_offset:
            return data, 0, 0
        size = min(partition.max_bytes, max(budget, 0))
        piece = replica.read(offset, size, whole_first_batch=is_first, isolation=self._isolation)
        if piece is None or piece.length == 0:
            return data, 0, 0 if is_first else size  # available, but the response is full
        data.records = piece
        if self._isolation is IsolationLevel.READ_COMMITTED:
            data.aborted_transactions = [
                AbortedTransaction(aborted.producer_id, aborted.first_offset)
                for aborted in replica.aborted_in(offset, piece)
            ]
        is_earlier = _is_in_earlier_segment(replica, offset, end_offset)
        return data, piece.length, _ENOUGH if is_earlier else piece.length

    def _redirect(self, partition: "FetchedPartition", replica: "Replica") -> PartitionData | None:
        """The response that names a replica in the consumer's rack, if it should read there."""
        offset = partition.fetch_offset
        if replica.leader is None:
            if offset > replica.log.end_offset:
                raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
            return None
        preferred = self._context.replicas.preferred_read_replica(
            replica, self._message.rack_id, offset
        )
        if preferred < 0:
            return None
        data = _empty_data(partition, replica)
        data.preferred_read_replica = preferred
        return data

    def _read_for_replica(
        self, partition: "FetchedPartition", budget: int, is_first: bool, reports_progress: bool
    ) -> tuple[PartitionData, int, int]:
        """As `_read_one`, up to the log end offset."""
        replica = self._replica(partition)
        replica.check_epoch(partition.leader_epoch)
        assert replica.leader is not None
        node, log, offset = NodeId(self._replica_id), replica.log, partition.fetch_offset
        if self._unsettled is not None:
            self._unsettled.watch(partition, replica)
        replica.leader.check_follower(node, has_epoch=partition.leader_epoch >= 0)
        data = _empty_data(partition, replica)
        if partition.last_fetched_epoch >= 0 and _diverges(partition, replica, data):
            return data, 0, _ENOUGH
        size = min(partition.max_bytes, max(budget, 0))
        piece = log.read(
            offset, size, limit_offset=log.end_offset, whole_first_batch=is_first
        )  # OFFSET_OUT_OF_RANGE leaves the follower's progress as it is
        if reports_progress and partition.leader_epoch >= 0:
            replica.fetched(
                FollowerFetch(
                    node,
                    self._broker_epoch,
                    offset,
                    partition.flushed_offset,
                    partition.log_start_offset,
                )
            )
            data.high_watermark = replica.high_watermark
            data.last_stable_offset = replica.last_stable_offset
        data.is_awaited = replica.is_awaited
        has_news = self._unsettled is not None and partition.has_replica_news(data)
        if piece is None or piece.length == 0:
            is_full = not is_first and offset < log.end_offset  # but the response is full
            if not has_news and reports_progress and partition.leader_epoch >= 0:
                self._settle(partition, replica)
            return data, 0, _ENOUGH if has_news else size if is_full else 0
        if self._context.throttle.holds_back_records(replica, node):
            return data, 0, _ENOUGH if has_news else 0
        data.records = piece
        is_enough = has_news or offset < log.segments.active.base_offset
        return data, piece.length, _ENOUGH if is_enough else piece.length

    def _settle(self, partition: "FetchedPartition", replica: "Replica") -> None:
        """Read a partition of a follower no more until it changes, if nothing is left to do."""
        progress = replica.settled(NodeId(self._replica_id))
        if progress is not None and self._unsettled is not None:
            self._unsettled.settle(partition, progress)

    def _replica(self, partition: "FetchedPartition") -> "Replica":
        replicas = self._context.replicas
        name = partition.topic
        if self._request.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
            found = self._context.metadata.topic_name(partition.topic_id)
            if found is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            name = found
        is_debugging = self._replica_id == DEBUGGING_CONSUMER
        if is_debugging or (self._message.rack_id and self._replica_id < 0):
            return replicas.readable(name, partition.index)
        return replicas.leader(name, partition.index)

    def _error(self, partition: "FetchedPartition", error: KafkaError) -> PartitionData:
        data = PartitionData(partition.index, int(error.code), -1, -1, -1)
        data.records = b""
        if error.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
            return data
        data.aborted_transactions = None
        version = self._request.api_version
        if error.code in _WRONG_LEADER and version >= FIRST_VERSION_WITH_CURRENT_LEADER:
            metadata = self._context.metadata
            name: str | None = partition.topic
            if version >= FIRST_VERSION_WITH_TOPIC_IDS:
                name = metadata.topic_name(partition.topic_id)
            leader, epoch = metadata.current_leader(name, partition.index)
            data.current_leader = LeaderIdAndEpoch(leader, epoch)
        return data

    # Parked

    def park(self) -> None:
        if self._unsettled is None:
            for partition in self._session.partitions:
                replica = self._replica(partition)
                self._watched.append(replica)
                replica.watch(self)
        self._context.purgatory.park(self._request.client, self, self._message.max_wait_ms)

    def offset_moved(self) -> None:
        """Read once at the end of this turn, however many offsets move in it."""
        if self._next_read is None:
            self._next_read = self._context.timer.after(0, self._try_complete)

    def _try_complete(self) -> None:
        self._next_read = None
        if self.read():
            self._complete()

    def _complete(self) -> None:
        if self._context.purgatory.complete(self._request.client, self):
            self.abandon()
            self._request.reply(self.response())

    def supersede(self) -> None:
        """Reply without records: the next fetch of the session is here, which reads them."""
        if self._context.purgatory.complete(self._request.client, self):
            self.abandon()
            self._results = [
                (partition, _without_records(data), 0) for partition, data, _ in self._results
            ]
            self._request.reply(self.response())

    def expire(self) -> None:
        # The results of a follower's fetch are current: every event of its partitions reads again.
        if self._replica_id < 0 or self._next_read is not None:
            self.read()
        self._complete()

    def abandon(self) -> None:
        if self._next_read is not None:
            self._next_read.cancel()
        if self._unsettled is not None:
            self._unsettled.unpark(self)
        for replica in self._watched:
            replica.unwatch(self)

    def shut_down(self) -> None:
        """Reply while the logs are open."""
        self.expire()

    # Response

    def response(self) -> FetchResponse:
        try:
            results = self._session.select(self._results)
        except KafkaError as error:
            return FetchResponse(error_code=int(error.code))
        response = FetchResponse()
        response.session_id = self._session.open_session(self._request.api_version)
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
                self._served(partition, size)
        return response

    def _served(self, partition: "FetchedPartition", size: int) -> None:
        """Count the records in the response for one partition."""
        is_replica = self._replica_id >= 0
        self._context.metrics.served(size, to_follower=is_replica)
        if is_replica:
            name = self._context.metadata.topic_name(partition.topic_id) or partition.topic
            self._context.throttle.sent(name, partition.index, size)


def _empty_data(partition: "FetchedPartition", replica: "Replica") -> PartitionData:
    data = PartitionData(
        partition.index,
        0,
        replica.high_watermark,
        replica.last_stable_offset,
        replica.log.start_offset,
    )
    data.aborted_transactions = None
    data.records = b""
    return data


def _without_records(data: PartitionData) -> PartitionData:
    data.records = b""
    return data


def _diverges(partition: "FetchedPartition", replica: "Replica", data: PartitionData) -> bool:
    """Whether the log of the fetcher has other records before its fetch offset; `data` gets the
    epoch and offset where it has to truncate (KIP-595)."""
    last_epoch = partition.last_fetched_epoch
    log = replica.log
    epoch, end = log.end_offset_for_epoch(last_epoch)
    if epoch < 0 or partition.fetch_offset < log.start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < last_epoch or end < partition.fetch_offset:
        data.diverging_epoch = EpochEndOffset(epoch, end)
        return True
    return False


def _is_in_earlier_segment(replica: "Replica", offset: int, end_offset: int) -> bool:
    """Whether the end of what can be read lies in a later segment than `offset`. A slice ends with
    its segment, so such a fetch has all it can get; Kafka does not delay it either."""
    segments = replica.log.segments
    return offset < segments.active.base_offset and (
        segments.number_of(offset) < segments.number_of(end_offset)
    )
