"""Polls the topics of all tables at once: where they end, and whether they still exist.

A poll is one ListOffsets request per broker and isolation level. Metadata of all topics is
requested every second, so that new partitions, and new topics that match a pattern, are found and a
topic that was deleted, or created again, is noticed. The log ends of partitions that are read with
read_committed and do not move are requested every ten seconds (`held_back_records.py`).
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sawlog.client.admin.list_offsets import LATEST, FoundOffset, poll_offsets
from sawlog.client.errors import UNANSWERED, ClientError
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.metadata import Topic
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicName, TopicPartition
from sawlog.pipeline.landing.configuration.topic_selection import TopicSelection
from sawlog.pipeline.landing.planning.held_back_records import HeldBackRecords
from sawlog.pipeline.source.batch_planning import OffsetRange
from sawlog.pipeline.source.offset_json import Offsets

METADATA_EVERY_S = 1.0
TIMEOUT_MS = 3_000


class PolledTopics(NamedTuple):
    """The result of one poll. A topic that no broker told about is in neither mapping."""

    topics: Mapping[TopicName, Topic]
    errors: Mapping[TopicName, KafkaError]
    ends: Mapping[bool, Offsets]  # by isolation level; partitions without an answer are missing
    is_answered: bool  # whether any broker answered
    held_back: Mapping[TopicPartition, OffsetRange]  # by open transactions, for a minute


class TopicPoller:
    """For one thread."""

    def __init__(
        self, cluster: Cluster, *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._cluster = cluster
        self._monotonic_s = monotonic_s
        self._topics: dict[TopicName, Topic] = {}
        self._errors: dict[TopicName, KafkaError] = {}
        self._levels: dict[str, frozenset[bool]] = {}
        self._wanted: Mapping[TopicSelection, frozenset[bool]] = {}
        self._refresh_at_s = -math.inf
        self._held_back = HeldBackRecords()

    def poll(self, wanted: Mapping[TopicSelection, frozenset[bool]]) -> PolledTopics:
        """Poll topics, each at the isolation levels (read_committed) that tables read it with."""
        if self._monotonic_s() >= self._refresh_at_s or wanted != self._wanted:
            try:
                self._fetch(wanted)
            except (KafkaError, ClientError):
                return PolledTopics({}, {}, {}, is_answered=False, held_back={})
            self._wanted = wanted
            self._refresh_at_s = self._monotonic_s() + METADATA_EVERY_S
        topics, errors = self._topics, self._errors
        ends: dict[bool, Offsets] = {}
        answers: list[bool] = []
        for level in (False, True):
            partitions = [
                partition_of(topic.name, index)
                for topic in topics.values()
                if level in self._levels[topic.name]
                for index in topic.partitions
            ]
            if partitions:
                ends[level], is_answered = self._ends(partitions, level)
                answers.append(is_answered)
        held = self._held_back.found(
            ends.get(True, {}), self._monotonic_s(), lambda still: self._ends(still, False)[0]
        )
        return PolledTopics(
            topics, errors, ends, is_answered=any(answers) or not answers, held_back=held
        )

    def _fetch(self, wanted: Mapping[TopicSelection, frozenset[bool]]) -> None:
        """Fetch the metadata of named topics, and of all if there are patterns."""
        names = {name for selection in wanted for name in selection.names}
        topics: dict[TopicName, Topic] = {}
        errors: dict[TopicName, KafkaError] = {}
        if names:
            metadata = self._cluster.fetch_metadata(names)
            topics, errors = dict(metadata.topics), dict(metadata.errors)
        if any(selection.pattern for selection in wanted):
            topics = {**self._cluster.fetch_metadata(None).topics, **topics}
        levels: dict[str, frozenset[bool]] = {}
        for selection, found in wanted.items():
            for topic in selection.among(topics.values()):
                levels[topic.name] = levels.get(topic.name, frozenset()) | found
        self._topics = {name: topic for name, topic in topics.items() if name in levels}
        self._errors, self._levels = errors, levels

    def _ends(self, partitions: list[TopicPartition], level: bool) -> tuple[Offsets, bool]:
        found = poll_offsets(self._cluster, dict.fromkeys(partitions, LATEST), read_committed=level)
        ends = {tp: entry.offset for tp, entry in found.items() if isinstance(entry, FoundOffset)}
        if len(ends) < len(found):  # a moved leader, or a deleted topic
            self._refresh_at_s = -math.inf
        return ends, not all(isinstance(entry, UNANSWERED) for entry in found.values())
