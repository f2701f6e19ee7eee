"""Incremental fetch sessions (KIP-227): what a client need not say again, nor hear again.

A session remembers the partitions a client reads and what it was last told of each; an incremental
fetch names only what changed, and its answer only what is new. Sessions live in a bounded cache:
stale ones, then smaller ones, make room, as Kafka's cache has it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sawlog.core.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from sawlog.core.ports import Clock, Random
    from sawlog.protocol.messages.fetch_request import FetchRequest
    from sawlog.protocol.messages.fetch_response import PartitionData

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EVICTION_MS = 120_000
MAX_PARTITIONS = 200_000
"""In all sessions together: clients that want more go without one."""

_LARGEST_EPOCH = 2**31 - 1
FIRST_VERSION_WITH_TOPIC_IDS = 13


def next_epoch(epoch: int) -> int:
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _LARGEST_EPOCH else epoch + 1


class FetchedPartition:
    """One partition that a client fetches: what it asked last and what it was told last."""

    __slots__ = (
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "leader_epoch",
        "max_bytes",
        "told_log_start",
        "told_watermark",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, index: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.told_watermark = -1
        self.told_log_start = -1

    def ask(self, leader_epoch: int, offset: int, last_epoch: int, max_bytes: int) -> None:
        self.leader_epoch = leader_epoch
        self.fetch_offset = offset
        self.last_fetched_epoch = last_epoch
        self.max_bytes = max_bytes

    def tell(self, data: "PartitionData", size: int) -> bool:
        """Whether `data` is news to the client; from now on it counts as told."""
        news = size > 0
        if self.told_watermark != data.high_watermark:
            news = True
            self.told_watermark = data.high_watermark
        if self.told_log_start != data.log_start_offset:
            news = True
            self.told_log_start = data.log_start_offset
        if data.error_code:
            self.told_watermark = -1  # so that the end of the error is news again
            return True
        return news or data.diverging_epoch.epoch >= 0


Key = tuple[bytes | str, int]


class FetchSession:
    __slots__ = ("created_ms", "epoch", "id", "partitions", "used_ms", "uses_topic_ids")

    def __init__(
        self, session_id: int, partitions: dict[Key, FetchedPartition], uses_ids: bool, now_ms: int
    ) -> None:
        self.id = session_id
        self.partitions = partitions
        self.uses_topic_ids = uses_ids
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.epoch = 1


class FetchContext:
    """The partitions of one Fetch request and the session, if any, that it belongs to."""

    __slots__ = ("_cache", "_expected_epoch", "_session", "partitions", "session_id")

    def __init__(
        self,
        partitions: Iterable[FetchedPartition],
        session: FetchSession | None = None,
        cache: "FetchSessions | None" = None,
    ) -> None:
        self.partitions = list(partitions)
        self._session = session
        self._expected_epoch = session.epoch if session else 0
        self._cache = cache

    def open_session(self, version: int) -> int:
        """After the first answer of a full fetch: the id of the session made for it, or 0."""
        if self._session is not None:
            return self._session.id
        if self._cache is None:
            return NO_SESSION
        return self._cache.create(self.partitions, version >= FIRST_VERSION_WITH_TOPIC_IDS)

    def select(
        self, results: list[tuple[FetchedPartition, "PartitionData", int]]
    ) -> list[tuple[FetchedPartition, "PartitionData", int]]:
        """What of the results must be said; partitions with data go last in the next round."""
        session = self._session
        if session is None:
            for partition, data, size in results:
                partition.tell(data, size)
            return results
        if session.epoch != self._expected_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        chosen = []
        for result in results:
            partition, data, size = result
            if partition.tell(data, size):
                chosen.append(result)
                key = (
                    partition.topic_id if session.uses_topic_ids else partition.topic,
                    partition.index,
                )
                if size > 0 and session.partitions.pop(key, None) is not None:
                    session.partitions[key] = partition
        return chosen


class FetchSessions:
    """The cache of sessions."""

    def __init__(self, clock: "Clock", random: "Random", slots: int) -> None:
        self._clock = clock
        self._random = random
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}  # the longest unused first

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def open(self, message: "FetchRequest", version: int) -> FetchContext:
        """The context of a request; KafkaError where its session is not as it thinks."""
        epoch = message.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(message.session_id, None)
            partitions = _asked(message, {}, version).values()
            if epoch == FINAL_EPOCH or self._slots == 0:
                return FetchContext(partitions)
            return FetchContext(partitions, cache=self)
        session = self._sessions.get(message.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != (version >= FIRST_VERSION_WITH_TOPIC_IDS):
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return self._go_on(session, message, version)

    def _go_on(self, session: FetchSession, message: "FetchRequest", version: int) -> FetchContext:
        if message.topics:
            _asked(message, session.partitions, version)
        for topic in message.forgotten_topics_data:
            key = topic.topic_id if session.uses_topic_ids else topic.topic
            for index in topic.partitions:
                session.partitions.pop((key, index), None)
        del self._sessions[session.id]
        if not session.partitions:
            return FetchContext(())
        self._sessions[session.id] = session
        session.used_ms = self._clock.monotonic_ms()
        session.epoch = next_epoch(session.epoch)
        return FetchContext(session.partitions.values(), session)

    def create(self, partitions: list[FetchedPartition], uses_ids: bool) -> int:
        now_ms = self._clock.monotonic_ms()
        if len(self._sessions) >= self._slots and not self._evict(len(partitions), now_ms):
            return NO_SESSION
        if len(partitions) + self.partitions > MAX_PARTITIONS:
            return NO_SESSION
        session_id = 1 + self._random.below(2**31 - 2)
        while session_id in self._sessions:
            session_id = 1 + self._random.below(2**31 - 2)
        kept = {(p.topic_id if uses_ids else p.topic, p.index): p for p in partitions}
        self._sessions[session_id] = FetchSession(session_id, kept, uses_ids, now_ms)
        return session_id

    def _evict(self, size: int, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > EVICTION_MS:
            del self._sessions[oldest.id]
            return True
        smaller = [
            session
            for session in self._sessions.values()
            if now_ms - session.created_ms > EVICTION_MS and len(session.partitions) <= size
        ]
        if not smaller:
            return False
        del self._sessions[min(smaller, key=lambda session: len(session.partitions)).id]
        return True


def _asked(
    message: "FetchRequest", partitions: dict[Key, FetchedPartition], version: int
) -> dict[Key, FetchedPartition]:
    uses_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
    for topic in message.topics:
        name: bytes | str = topic.topic_id if uses_ids else topic.topic
        for asked in topic.partitions:
            key = (name, asked.partition)
            partition = partitions.get(key)
            if partition is None:
                partition = FetchedPartition(topic.topic, topic.topic_id, asked.partition)
                partitions[key] = partition
            partition.ask(
                asked.current_leader_epoch,
                asked.fetch_offset,
                asked.last_fetched_epoch,
                asked.partition_max_bytes,
            )
    return partitions
