"""The follower's side of an incremental fetch session (KIP-227).

The leader's side is `fetch_sessions.py`.

A request carries only the partitions whose parameters differ from those that the session has, and
names those that it shall forget. Two requests may be in flight: they arrive in the order in which
they were sent, so the second one has the next session epoch.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sawlog.broker.fetch_sessions import INITIAL_EPOCH, NO_SESSION, next_epoch
from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

Key = tuple[bytes, int]
"""Topic id and partition index."""


class SessionPartition(NamedTuple):
    """The parameters of one partition in a session."""

    topic: str
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    flushed_offset: int
    max_bytes: int


class FetchSessionHandler:
    """Invariant: `_sent` is what the session of the leader has once it has received all requests;
    it is empty and `epoch` is 0 if the next request has to open a session."""

    __slots__ = ("_id", "_sent", "epoch", "generation")

    def __init__(self) -> None:
        self._id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.generation = 0
        """Rises when the session is given up; responses to earlier requests tell nothing then."""
        self._sent: dict[Key, SessionPartition] = {}

    @property
    def is_open(self) -> bool:
        """Whether the next request can be an incremental one."""
        return self.epoch != INITIAL_EPOCH

    def has_news(
        self, changes: Mapping[Key, SessionPartition | None], *, besides_flushes: bool = False
    ) -> bool:
        """Whether the session has other parameters than `changes` for a partition; None means that
        it is not to be fetched. With `besides_flushes` a new flushed offset alone is no news."""
        for key, wanted in changes.items():
            sent = self._sent.get(key)
            if sent != wanted:
                if not besides_flushes or sent is None or wanted is None:
                    return True
                if sent != wanted._replace(flushed_offset=sent.flushed_offset):
                    return True
        return False

    def fill(self, request: FetchRequest, partitions: Mapping[Key, SessionPartition | None]) -> int:
        """Add session and partitions to a request, and return the session's generation.

        In an open session `partitions` are those that may have changed; else all of them.
        """
        request.session_id, request.session_epoch = self._id, self.epoch
        changed: dict[Key, SessionPartition] = {}
        forgotten: list[Key] = []
        for key, wanted in partitions.items():
            if wanted is None:
                if self._sent.pop(key, None) is not None:
                    forgotten.append(key)
            elif self._sent.get(key) != wanted:
                changed[key] = wanted
                self._sent[key] = wanted
        request.topics = _topics(changed)
        request.forgotten_topics_data = _forgotten_topics(forgotten)
        if self.is_open:
            self.epoch = next_epoch(self.epoch)
        return self.generation

    def responded(self, generation: int, session_id: int, error_code: int) -> bool:
        """Take the session fields of a response; returns whether its partitions count."""
        if error_code:
            if generation == self.generation:
                is_gone = error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
                self._give_up(NO_SESSION if is_gone else self._id)
            return False
        if generation == self.generation:
            if session_id == NO_SESSION:
                self._give_up(NO_SESSION)
            elif not self.is_open:
                self._id, self.epoch = session_id, next_epoch(INITIAL_EPOCH)
        return True

    def failed(self) -> None:
        """A request got no response, so it is not known what the session has: open another one,
        which closes this one."""
        self._give_up(self._id)

    def _give_up(self, session_id: int) -> None:
        self._id, self.epoch = session_id, INITIAL_EPOCH
        self.generation += 1
        self._sent.clear()


def _topics(partitions: Mapping[Key, SessionPartition]) -> list[FetchTopic]:
    topics: dict[bytes, FetchTopic] = {}
    for (topic_id, index), wanted in partitions.items():
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchTopic(wanted.topic, topic_id, [])
        partition = FetchPartition(
            index,
            wanted.leader_epoch,
            wanted.fetch_offset,
            wanted.last_fetched_epoch,
            wanted.log_start_offset,
            wanted.max_bytes,
        )
        partition.flushed_offset = wanted.flushed_offset
        topic.partitions.append(partition)
    return list(topics.values())


def _forgotten_topics(keys: Iterable[Key]) -> list[ForgottenTopic]:
    topics: dict[bytes, ForgottenTopic] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, ForgottenTopic("", topic_id, [])).partitions.append(index)
    return list(topics.values())
