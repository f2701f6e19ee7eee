"""Polls the topics of all tables at once: where they end, and whether they still exist.

A poll is one ListOffsets request per broker and isolation level. Metadata of all topics is
requested every second, so that new partitions are found and a topic that was deleted, or created
again, is noticed.
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sawlog.client.admin.list_offsets import LATEST, FoundOffset, poll_offsets
from sawlog.client.errors import UNANSWERED, ClientError
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.metadata import Metadata, Topic
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicName, TopicPartition
from sawlog.pipeline.source.offset_json import Offsets

METADATA_EVERY_S = 1.0
TIMEOUT_MS = 3_000


class PolledTopics(NamedTuple):
    """The result of one poll. A topic that no broker told about is in neither mapping."""

    topics: Mapping[TopicName, Topic]
    errors: Mapping[TopicName, KafkaError]
    ends: Mapping[bool, Offsets]  # by isolation level; partitions without an answer are missing
    is_answered: bool  # whether any broker answered


class TopicPoller:
    """For one thread."""

    def __init__(
        self, cluster: Cluster, *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._cluster = cluster
        self._monotonic_s = monotonic_s
        self._metadata: Metadata | None = None
        self._names: frozenset[str] = frozenset()
        self._refresh_at_s = -math.inf

    def poll(self, wanted: Mapping[str, frozenset[bool]]) -> PolledTopics:
        """Poll topics, each at the isolation levels (read_committed) that tables read it with."""
        names = frozenset(wanted)
        if self._monotonic_s() >= self._refresh_at_s or names != self._names:
            try:
                self._metadata = self._cluster.fetch_metadata(names)
            except (KafkaError, ClientError):
                return PolledTopics({}, {}, {}, is_answered=False)
            self._names = names
            self._refresh_at_s = self._monotonic_s() + METADATA_EVERY_S
        assert self._metadata is not None
        topics, errors = self._metadata.topics, self._metadata.errors
        ends: dict[bool, Offsets] = {}
        answers: list[bool] = []
        for level in (False, True):
            partitions = [
                partition_of(topic.name, index)
                for topic in topics.values()
                if level in wanted[topic.name]
                for index in topic.partitions
            ]
            if partitions:
                ends[level], is_answered = self._ends(partitions, level)
                answers.append(is_answered)
        return PolledTopics(topics, errors, ends, is_answered=any(answers) or not answers)

    def _ends(self, partitions: list[TopicPartition], level: bool) -> tuple[Offsets, bool]:
        found = poll_offsets(self._cluster, dict.fromkeys(partitions, LATEST), read_committed=level)
        ends = {tp: entry.offset for tp, entry in found.items() if isinstance(entry, FoundOffset)}
        if len(ends) < len(found):  # a moved leader, or a deleted topic
            self._refresh_at_s = -math.inf
        return ends, not all(isinstance(entry, UNANSWERED) for entry in found.values())
