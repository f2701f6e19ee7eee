"""Incremental fetch sessions (KIP-227).

A session keeps the partitions of a client and the last response for each. An incremental fetch
names only partitions that changed, and its response has only partitions with news. The cache of
sessions is bounded and evicts as Kafka's does: stale sessions first, then smaller ones. A follower
may evict the session of any consumer, and a consumer that of a follower only if it is stale: else
consumers could slow down replication.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sawlog.broker.unsettled_partitions import UnsettledPartitions
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.messages.fetch_request import ReplicaState

if TYPE_CHECKING:
    from sawlog.core.ports import Clock, Random
    from sawlog.protocol.messages.fetch_request import (
        FetchPartition,
        FetchRequest,
        FetchTopic,
        ForgottenTopic,
    )
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
    """Invariant: the client's next incremental fetch must carry `epoch`.

    A consumer's fetch reads all `partitions`, a follower's only the `unsettled` ones.
    """

    __slots__ = (
        "_replica_state",
        "created_ms",
        "epoch",
        "id",
        "partitions",
        "unsettled",
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
        self.partitions = partitions
        self.uses_topic_ids = uses_ids
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.epoch = 1
        self.unsettled: UnsettledPartitions | None = None
        if is_follower:
            self.unsettled = UnsettledPartitions(partitions.values(), now_ms)
        self._replica_state = ReplicaState()

    @property
    def is_follower(self) -> bool:
        return self.unsettled is not None

    def key_of(self, partition: FetchedPartition) -> Key:
        return (partition.topic_id if self.uses_topic_ids else partition.topic, partition.index)

    def advance(self, message: "FetchRequest", version: int, now_ms: int) -> None:
        """Take over the partitions of a fetch that was accepted, and take the next epoch."""
        named = _update_partitions(message, self.partitions, version)
        forgotten = [
            found
            for topic in message.forgotten_topics_data
            for index in topic.partitions
            if (found := self._forget(topic, index)) is not None
        ]
        if self.unsettled is not None:
            self.unsettled.unsettle_all(named)
            for partition in forgotten:
                self.unsettled.remove(partition)
            if message.replica_state != self._replica_state:
                self._replica_state = message.replica_state  # another process of the follower
                self.unsettled.unsettle_all(self.partitions.values())
            self.unsettled.fetch_arrived(now_ms)
        self.used_ms = now_ms
        self.epoch = next_epoch(self.epoch)

    def _forget(self, topic: "ForgottenTopic", index: int) -> FetchedPartition | None:
        name: bytes | str = topic.topic_id if self.uses_topic_ids else topic.topic
        return self.partitions.pop((name, index), None)

    def served(self, partition: FetchedPartition) -> None:
        """The response has records of this partition: others are read first next time."""
        key = self.key_of(partition)
        if self.partitions.pop(key, None) is not None:
            self.partitions[key] = partition
        if self.unsettled is not None:
            self.unsettled.served(partition)

    def close(self) -> None:
        if self.unsettled is not None:
            self.unsettled.close()


class FetchContext:
    """The partitions of one Fetch request and the session, if any, that it belongs to."""

    __slots__ = (
        "_cache",
        "_expected_epoch",
        "_is_follower",
        "_partitions",
        "_session",
        "unsettled",
    )

    def __init__(
        self,
        partitions: Iterable[FetchedPartition] = (),
        session: FetchSession | None = None,
        cache: "FetchSessions | None" = None,
        *,
        is_follower: bool = False,
    ) -> None:
        """Without `session` the request has these partitions, else those of the session."""
        self._partitions = list(partitions)
        self._session = session
        self._expected_epoch = session.epoch if session else 0
        self._cache = cache
        self._is_follower = is_follower
        self.unsettled = session.unsettled if session is not None and is_follower else None
        """The partitions of a follower's session that have to be read; None without one."""

    @property
    def has_partitions(self) -> bool:
        return bool(self._partitions if self._session is None else self._session.partitions)

    @property
    def partitions(self) -> list[FetchedPartition]:
        """The partitions to read now."""
        if self.unsettled is not None:
            return self.unsettled.in_order()
        return self._partitions

    def read_all(self) -> None:
        """Read all partitions now."""
        if self._session is not None and self.unsettled is not None:
            self.unsettled.unsettle_all(self._session.partitions.values())

    def open_session(self, version: int) -> int:
        """Return the session id; the first response of a full fetch creates one. 0 if none."""
        if self._session is not None:
            return self._session.id
        if self._cache is None:
            return NO_SESSION
        uses_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        return self._cache.create(self._partitions, uses_ids, is_follower=self._is_follower)

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
                if size > 0:
                    session.served(partition)
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
            self._close(message.session_id)
            partitions = _update_partitions(message, {}, version)
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
        if session.unsettled is not None:
            session.unsettled.supersede()
        return self._continue(session, message, version)

    def _continue(
        self, session: FetchSession, message: "FetchRequest", version: int
    ) -> FetchContext:
        session.advance(message, version, self._clock.monotonic_ms())
        if not session.partitions:
            self._close(session.id)
            return FetchContext()
        del self._sessions[session.id]
        self._sessions[session.id] = session
        if session.is_follower and _is_follower(message, version):
            return FetchContext((), session, is_follower=True)
        return FetchContext(session.partitions.values(), session)

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

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
            self._close(oldest.id)
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
        self._close(chosen.id)
        return True


def _is_follower(message: "FetchRequest", version: int) -> bool:
    if version >= FIRST_VERSION_WITH_REPLICA_STATE:
        return message.replica_state.replica_id >= 0
    return message.replica_id >= 0


def _update_partitions(
    message: "FetchRequest", partitions: dict[Key, FetchedPartition], version: int
) -> list[FetchedPartition]:
    """Add the partitions of a request to `partitions`, or update them there; return them."""
    uses_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
    named: dict[FetchedPartition, None] = {}
    for topic in message.topics:
        name: bytes | str = topic.topic_id if uses_ids else topic.topic
        for wanted in topic.partitions:
            key = (name, wanted.partition)
            partition = partitions.get(key)
            if partition is None:
                partition = partitions[key] = FetchedPartition(topic, wanted)
            else:
                partition.update(wanted)
            named[partition] = None
    return list(named)
