"""The partitions that a job reads, and their offsets, from the cluster.

Partitions are looked up periodically, so that new partitions and topics are found. Offsets are
always requested. Not thread-safe.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping

from sawlog.client.admin.admin import Admin
from sawlog.client.admin.list_offsets import EARLIEST, LATEST, list_offsets
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.metadata import Topic
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicName, TopicPartition
from sawlog.pipeline.source.offset_json import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    AtOffsets,
    AtTimes,
    Mark,
    Offsets,
    Where,
    describe_partitions,
)
from sawlog.pipeline.source.source_options import Topics

LOOK_EVERY_MS = 1_000.0
_NONE_THAT_LATE = -1


class BadPosition(ValueError):
    """A position that these topics do not have."""


class Subscription:
    """`monotonic_ms` is the clock for the periodic lookup."""

    def __init__(
        self,
        cluster: Cluster,
        topics: Topics,
        *,
        read_committed: bool = False,
        monotonic_ms: Callable[[], float] = lambda: time.monotonic() * 1_000,
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._matches = re.compile(topics.pattern or "").fullmatch
        self._read_committed = read_committed
        self._monotonic_ms = monotonic_ms
        self._seen: list[TopicPartition] = []
        self._look_at_ms = -float("inf")

    def partitions(self, *, missing_ok: bool = False) -> list[TopicPartition]:
        """All partitions to read.

        Raises an error for a named topic or partition that does not exist, unless `missing_ok`: a
        topic may have been deleted since.
        """
        if self._monotonic_ms() >= self._look_at_ms:
            self._seen = self._look(missing_ok)
            self._look_at_ms = self._monotonic_ms() + LOOK_EVERY_MS
        return self._seen

    def invalidate(self) -> None:
        """Drop the cached partitions, which have proved wrong."""
        self._look_at_ms = -float("inf")

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._ask(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The end offsets; the last stable offsets if only committed records are read."""
        return self._ask(dict.fromkeys(partitions, LATEST))

    def log_ends(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The end offsets, those of uncommitted records included."""
        found = list_offsets(self._cluster, dict.fromkeys(partitions, LATEST))
        return {partition: entry.offset for partition, entry in sorted(found.items())}

    def resolve(
        self, where: Where, *, is_start: bool, late_start_is_latest: bool = False
    ) -> Offsets:
        """The offset of every partition at a position. Raises BadPosition."""
        partitions = self.partitions()
        if isinstance(where, Mark):
            mark = EARLIEST if where is Mark.EARLIEST else LATEST
            return self._ask(dict.fromkeys(partitions, mark))
        side = "starting" if is_start else "ending"
        if isinstance(where, AtOffsets):
            _check_all_named(where.offsets, partitions, f"{side}Offsets")
            return self._resolve_marks(where.offsets)
        if isinstance(where, AtTimes):
            _check_all_named(where.times_ms, partitions, f"{side}OffsetsByTimestamp")
            times = where.times_ms
        else:
            times = dict.fromkeys(partitions, where.time_ms)
        found = self._ask(times)
        late = [partition for partition, offset in found.items() if offset == _NONE_THAT_LATE]
        if late and is_start and not late_start_is_latest:
            raise BadPosition(
                f"no record of {describe_partitions(late)} is as late as the starting time asked"
                " for; start earlier, or set 'startingOffsetsByTimestampStrategy' to 'latest'"
            )
        return found | self.latest(late)

    def _resolve_marks(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        marks = {
            partition: EARLIEST if offset == EARLIEST_OFFSET else LATEST
            for partition, offset in offsets.items()
            if offset in (EARLIEST_OFFSET, LATEST_OFFSET)
        }
        return dict(offsets) | self._ask(marks)

    def _ask(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        if not wanted:
            return {}
        found = list_offsets(self._cluster, wanted, read_committed=self._read_committed)
        return {partition: entry.offset for partition, entry in sorted(found.items())}

    def _look(self, missing_ok: bool) -> list[TopicPartition]:
        topics = self._topics
        if topics.pattern is not None:
            every = Admin(self._cluster).list_topics()
            return _of([topic for topic in every if self._matches(topic.name)])
        names = topics.names or sorted({partition.topic for partition in topics.partitions})
        found, refused = Admin(self._cluster).describe_topics(names)
        for error in refused.values():
            if not missing_ok or not _is_missing(error):
                raise error
        there = _of(found)
        if not topics.partitions:
            return there
        missing = set(topics.partitions) - set(there)
        if missing and not missing_ok:
            raise BadPosition(
                f"there is no {describe_partitions(missing)}, which 'assign' asks for"
            )
        return [partition for partition in topics.partitions if partition not in missing]


def _of(topics: Iterable[Topic]) -> list[TopicPartition]:
    return sorted(
        TopicPartition(TopicName(topic.name), index)
        for topic in topics
        for index in topic.partitions
    )


def _is_missing(error: KafkaError) -> bool:
    return error.code.name == "UNKNOWN_TOPIC_OR_PARTITION"


def _check_all_named(
    named_ones: Mapping[TopicPartition, int], partitions: list[TopicPartition], option: str
) -> None:
    missing = set(partitions) - named_ones.keys()
    if missing:
        raise BadPosition(
            f"{option!r} must name every partition that is read; it leaves out"
            f" {describe_partitions(missing)} (-2 is the earliest offset, -1 the latest)"
        )
    superfluous = named_ones.keys() - set(partitions)
    if superfluous:
        raise BadPosition(f"{option!r} names {describe_partitions(superfluous)}, which is not read")
