"""Incremental fetch sessions (KIP-227).

A session keeps the partitions of a client and the last response for each. An incremental fetch
names only partitions that changed, and its response has only partitions with news. The cache of
sessions is bounded and evicts as Kafka's does: stale sessions first, then smaller ones. A follower
may evict the session of any consumer, and a consumer that of a follower only if it is stale: else
consumers could slow down replication.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sawlog.core.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from sawlog.core.ports import Clock, Random
    from sawlog.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
    from sawlog.protocol.messages.fetch_response import PartitionData

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EVICTION_MS = 120_000
MAX_PARTITIONS = 200_000
"""In all sessions together; beyond it, clients get no session."""

_LARGEST_EPOCH = 2**31 - 1
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_REPLICA_STATE = 15


def next_epoch(epoch: int) -> int:
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _LARGEST_EPOCH else epoch + 1


class FetchedPartition:
    """One partition of a client: its last fetch parameters and the state of the last response."""

    __slots__ = (
        "_is_told_to_flush",
        "_told_below",
        "fetch_offset",
        "flushed_offset",
        "index",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "sent_log_start",
        "sent_watermark",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: "FetchTopic", wanted: "FetchPartition") -> None:
        self.topic = topic.topic
        self.topic_id = topic.topic_id
        self.index = wanted.partition
        self.sent_watermark = -1
        self.sent_log_start = -1
        self._told_below = -1
        self._is_told_to_flush = False
        self.leader_epoch = wanted.current_leader_epoch
        self.update(wanted)

    def update(self, wanted: "FetchPartition") -> None:
        if self._is_told_to_flush:
            self._is_told_to_flush = False
            self._told_below = wanted.fetch_offset  # with the records of that response
        if wanted.current_leader_epoch != self.leader_epoch:
            self._repeat_news()  # a follower ignores responses to fetches of its earlier epoch
        self.leader_epoch = wanted.current_leader_epoch
        self.fetch_offset = wanted.fetch_offset
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.max_bytes = wanted.partition_max_bytes
        self.log_start_offset = wanted.log_start_offset
        self.flushed_offset = wanted.flushed_offset

    def has_replica_news(self, data: "PartitionData") -> bool:
        """Whether `data` has news for a follower besides records: another high watermark or log
        start offset, or that it has to flush records which it was not told to flush yet."""
        return (
            data.high_watermark != self.sent_watermark
            or data.log_start_offset != self.sent_log_start
            or self._must_tell_to_flush(data)
        )

    def _must_tell_to_flush(self, data: "PartitionData") -> bool:
        return data.is_awaited and max(self.flushed_offset, self._told_below) < self.fetch_offset

    def send(self, data: "PartitionData", size: int) -> bool:
        """Return whether `data` has news for the client, and remember it as sent."""
        news = size > 0 or self._must_tell_to_flush(data)
        if data.is_awaited:
            self._told_below = self.fetch_offset
            self._is_told_to_flush = True
        if self.sent_watermark != data.high_watermark:
            news = True
            self.sent_watermark = data.high_watermark
        if self.sent_log_start != data.log_start_offset:
            news = True
            self.sent_log_start = data.log_start_offset
        if data.error_code or data.diverging_epoch.epoch >= 0:
            self._repeat_news()  # the client uses nothing else of this response
            return True
        return news or data.preferred_read_replica >= 0

    def _repeat_news(self) -> None:
        """The next response without an error has news."""
        self.sent_watermark = -1


Key = tuple[bytes | str, int]


class FetchSession:
    """Invariant: the client's next incremental fetch must carry `epoch`."""

    __slots__ = (
        "_supersede",
        "created_ms",
        "epoch",
        "id",
        "is_follower",
        "partitions",
        "used_ms",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        partitions: dict[Key, FetchedPartition],
        uses_ids: bool,
        now_ms: int,
        *,
        is_follower: bool,
    ) -> None:
        self.id = session_id
        self.is_follower = is_follower
        self.partitions = partitions
        self.uses_topic_ids = uses_ids
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.epoch = 1
        self._supersede: Callable[[], None] | None = None

    def parked(self, supersede: Callable[[], None]) -> None:
        """A follower's fetch of this session is parked; `supersede` answers it."""
        self._supersede = supersede

    def supersede(self) -> None:
        """Answer the parked fetch: the next one of the session has arrived."""
        supersede, self._supersede = self._supersede, None
        if supersede is not None:
            supersede()

    def advance(self, now_ms: int) -> None:
        """Take the next epoch for a fetch that was accepted."""
        self.used_ms = now_ms
        self.epoch = next_epoch(self.epoch)


class FetchContext:
    """The partitions of one Fetch request and the session, if any, that it belongs to."""

    __slots__ = ("_cache", "_expected_epoch", "_is_follower", "_session", "partitions")

    def __init__(
        self,
        partitions: Iterable[FetchedPartition],
        session: FetchSession | None = None,
        cache: "FetchSessions | None" = None,
        *,
        is_follower: bool = False,
    ) -> None:
        self.partitions = list(partitions)
        self._session = session
        self._expected_epoch = session.epoch if session else 0
        self._cache = cache
        self._is_follower = is_follower

    @property
    def is_incremental(self) -> bool:
        """Whether the request continues a session."""
        return self._session is not None

    def parked(self, supersede: Callable[[], None]) -> None:
        """The request, of a follower, is parked until `supersede` is called at the latest."""
        if self._session is not None:
            self._session.parked(supersede)

    def open_session(self, version: int) -> int:
        """Return the session id; the first response of a full fetch creates one. 0 if none."""
        if self._session is not None:
            return self._session.id
        if self._cache is None:
            return NO_SESSION
        uses_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        return self._cache.create(self.partitions, uses_ids, is_follower=self._is_follower)

    def select(
        self, results: list[tuple[FetchedPartition, "PartitionData", int]]
    ) -> list[tuple[FetchedPartition, "PartitionData", int]]:
        """Return the results with news.

        Partitions with data move to the end of the session: the others are read first next time.
        """
        session = self._session
        if session is None:
            for partition, data, size in results:
                partition.send(data, size)
            return results
        if session.epoch != self._expected_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        chosen = []
        for result in results:
            partition, data, size = result
            if partition.send(data, size):
                chosen.append(result)
                key = (
                    partition.topic_id if session.uses_topic_ids else partition.topic,
                    partition.index,
                )
                if size > 0 and session.partitions.pop(key, None) is not None:
                    session.partitions[key] = partition
        return chosen


class FetchSessions:
    """The cache of sessions, the least recently used first."""

    def __init__(self, clock: "Clock", random: "Random", slots: int) -> None:
        self._clock = clock
        self._random = random
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def open(self, message: "FetchRequest", version: int) -> FetchContext:
        """Return the context of a request; KafkaError if id or epoch of its session are wrong."""
        epoch = message.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(message.session_id, None)
            partitions = _update_partitions(message, {}, version).values()
            if epoch == FINAL_EPOCH or self._slots == 0:
                return FetchContext(partitions)
            return FetchContext(partitions, cache=self, is_follower=_is_follower(message, version))
        session = self._sessions.get(message.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != (version >= FIRST_VERSION_WITH_TOPIC_IDS):
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.supersede()
        return self._continue(session, message, version)

    def _continue(
        self, session: FetchSession, message: "FetchRequest", version: int
    ) -> FetchContext:
        if message.topics:
            _update_partitions(message, session.partitions, version)
        for topic in message.forgotten_topics_data:
            key = topic.topic_id if session.uses_topic_ids else topic.topic
            for index in topic.partitions:
                session.partitions.pop((key, index), None)
        del self._sessions[session.id]
        if not session.partitions:
            return FetchContext(())
        self._sessions[session.id] = session
        session.advance(self._clock.monotonic_ms())
        return FetchContext(session.partitions.values(), session)

    def create(
        self, partitions: list[FetchedPartition], uses_ids: bool, *, is_follower: bool = False
    ) -> int:
        now_ms = self._clock.monotonic_ms()
        if len(self._sessions) >= self._slots and not self._evict(
            len(partitions), now_ms, for_follower=is_follower
        ):
            return NO_SESSION
        if len(partitions) + self.partitions > MAX_PARTITIONS and not is_follower:
            return NO_SESSION
        session_id = 1 + self._random.below(2**31 - 2)
        while session_id in self._sessions:
            session_id = 1 + self._random.below(2**31 - 2)
        kept = {(p.topic_id if uses_ids else p.topic, p.index): p for p in partitions}
        self._sessions[session_id] = FetchSession(
            session_id, kept, uses_ids, now_ms, is_follower=is_follower
        )
        return session_id

    def _evict(self, size: int, now_ms: int, *, for_follower: bool) -> bool:
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > EVICTION_MS:
            del self._sessions[oldest.id]
            return True
        candidates = [
            session
            for session in self._sessions.values()
            if (for_follower and not session.is_follower)
            or (
                now_ms - session.created_ms > EVICTION_MS
                and len(session.partitions) <= size
                and session.is_follower <= for_follower
            )
        ]
        if not candidates:
            return False
        chosen = min(candidates, key=lambda session: (session.is_follower, len(session.partitions)))
        del self._sessions[chosen.id]
        return True


def _is_follower(message: "FetchRequest", version: int) -> bool:
    if version >= FIRST_VERSION_WITH_REPLICA_STATE:
        return message.replica_state.replica_id >= 0
    return message.replica_id >= 0


def _update_partitions(
    message: "FetchRequest", partitions: dict[Key, FetchedPartition], version: int
) -> dict[Key, FetchedPartition]:
    """Add the partitions of a request to `partitions`, or update them there; return the dict."""
    uses_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
    for topic in message.topics:
        name: bytes | str = topic.topic_id if uses_ids else topic.topic
        for wanted in topic.partitions:
            key = (name, wanted.partition)
            partition = partitions.get(key)
            if partition is None:
                partitions[key] = FetchedPartition(topic, wanted)
            else:
                partition.update(wanted)
    return partitions
