"""Whether a landing can continue with its topic: one rule for run, check and status.

It cannot if the topic was deleted or created again, if its log ends before the landed offsets, or
if the log starts after them, since records are lost then. Gaps within the log (compaction,
transactions) are not losses.
"""

from collections.abc import Iterable, Mapping

from sawlog.client.admin.list_offsets import EARLIEST, LATEST, list_offsets
from sawlog.client.arrow.offset_range import OffsetsLost
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.errors import ErrorCode
from sawlog.core.ids import NO_TOPIC_ID, TopicPartition, format_topic_id
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.source.batch_planning import OffsetRange
from sawlog.pipeline.source.offset_json import Offsets

_MAX_NAMED = 3
RESUME = "sawlog pipeline resume TABLE --accept-loss -f FILE"
"""The command with which a table goes on after a loss; the messages name it."""


class TopicState:
    """The topics of one table as the brokers have them now. Not thread-safe.

    `topics` has the ids of the topics that landed. Methods raise LandingFailure if the landing
    cannot continue, and client errors if the brokers do not answer.
    """

    def __init__(
        self, cluster: Cluster, topics: Mapping[str, bytes], *, read_committed: bool
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._read_committed = read_committed

    def ends(self) -> Offsets:
        """The end offset of each partition at the isolation level of the landing."""
        partitions = self._cluster.retry(self._partitions)
        return self._offsets(partitions, LATEST, read_committed=self._read_committed)

    def held_back(self, ends: Offsets) -> list[OffsetRange]:
        """The records between `ends` and the ends of the logs that open transactions hold back.

        The last stable offsets are requested again after the log ends, so that records written
        between two requests do not count. If all logs end at `ends`, one request is sent.
        """
        if not self._read_committed:
            return []
        log_ends = self._offsets(ends, LATEST)
        behind = [partition for partition, end in ends.items() if end < log_ends[partition]]
        stable = self._offsets(behind, LATEST, read_committed=True) if behind else {}
        found = (OffsetRange(tp, max(end, ends[tp]), log_ends[tp]) for tp, end in stable.items())
        return [records for records in found if records.size > 0]

    def check_end_offsets(self, landed: Mapping[TopicPartition, int], ends: Offsets) -> Offsets:
        """Raise LandingFailure if a log ends before the landed offsets.

        Returns `ends`, or the landed offset where an open transaction holds the end back.
        """
        short = [partition for partition, end in ends.items() if end < landed.get(partition, 0)]
        if short:
            check_log(landed, {}, self._offsets(short, LATEST))
        return {partition: max(end, landed.get(partition, 0)) for partition, end in ends.items()}

    def check_start_offsets(self, landed: Mapping[TopicPartition, int], ends: Offsets) -> None:
        """Raise LandingFailure if a log starts after the landed offsets.

        Only partitions with records to land are checked.
        """
        waiting = [partition for partition, end in ends.items() if end > landed.get(partition, 0)]
        if waiting:
            check_log(landed, self._offsets(waiting, EARLIEST), ends)

    def _partitions(self) -> list[TopicPartition]:
        metadata = self._cluster.fetch_metadata(self._topics)
        for name, refused in metadata.errors.items():
            if refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise topic_deleted(name, is_one=len(self._topics) == 1)
            raise refused
        for topic in metadata.topics.values():
            check_topic_id(topic.name, self._topics[topic.name], topic.id)
        return [
            partition_of(topic.name, index)
            for topic in metadata.topics.values()
            for index in topic.partitions
        ]

    def _offsets(
        self, partitions: Iterable[TopicPartition], mark: int, *, read_committed: bool = False
    ) -> Offsets:
        wanted = dict.fromkeys(partitions, mark)
        found = list_offsets(self._cluster, wanted, read_committed=read_committed)
        return {partition: entry.offset for partition, entry in sorted(found.items())}


def topic_deleted(topic: str, *, is_one: bool = True) -> LandingFailure:
    """The failure for a topic that is missing although the table has landed it.

    `is_one` says whether the table has this topic only.
    """
    advice = (
        f"remove the table from the file, or create the topic again and continue with it: {RESUME}"
        if is_one
        else "to go on with the others, take it out of `topics`, or out of what `topic_pattern`"
        " matches"
    )
    return LandingFailure(
        FailureKind.TOPIC_DELETED, f"the topic {topic!r} no longer exists; {advice}"
    )


def check_topic_id(topic: str, expected: bytes, found: bytes) -> None:
    """Raise LandingFailure if the topic was created again: its offsets mean other records."""
    if NO_TOPIC_ID in (expected, found) or expected == found:
        return
    raise LandingFailure(
        FailureKind.TOPIC_DELETED,
        f"the topic {topic!r} was deleted and created again: the table has records of the one with"
        f" the id {format_topic_id(expected)}, the one now is {format_topic_id(found)}; to continue"
        f" with that one: {RESUME}, or land it in a table of another name",
    )


def check_log(
    landed: Mapping[TopicPartition, int],
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> None:
    """Compare the next offsets to land with the start and end offsets of the logs, if known.

    An example with numbers. The table has t-0 up to 500, exclusive. A log from 500 to 700 is fine,
    and so is one from 0 to 500. A log from 600 to 700 has lost the offsets 500 to 599. A log that
    ends at 400 is not the one that landed: its next records get offsets that the table already has.
    """
    short = {tp: end for tp, end in ends.items() if end < landed.get(tp, 0)}
    if short:
        reasons = [
            f"{tp} ends at offset {end}, and the table has it up to {landed[tp]}"
            for tp, end in sorted(short.items())
        ]
        raise LandingFailure(
            FailureKind.DATA_LOSS,
            f"{_some(reasons)}: the broker has lost the records between, and will reuse their"
            f" offsets; to continue at its end: {RESUME}",
        )
    late = {tp: start for tp, start in begins.items() if start > landed.get(tp, 0)}
    if late:
        reasons = [
            f"{tp} no longer has all of the offsets {landed.get(tp, 0)} to {ends[tp] - 1}: it"
            f" begins at {start}, and {landed.get(tp, 0)} to {start - 1} are lost"
            for tp, start in sorted(late.items())
        ]
        raise LandingFailure(
            FailureKind.DATA_LOSS,
            f"{_some(reasons)}. Retention or deleted records took them before they landed; to"
            f" continue without them: {RESUME}",
        )


def data_loss(error: OffsetsLost) -> LandingFailure:
    """The failure of a task whose offsets were deleted after the batch was planned."""
    partition, available = error.partition, error.available
    try:
        check_log(
            {partition: error.wanted.start},
            {partition: available.start},
            {partition: max(available.stop, error.wanted.start)},
        )
    except LandingFailure as failure:
        return failure
    return LandingFailure(FailureKind.DATA_LOSS, str(error))


def _some(reasons: list[str]) -> str:
    more = len(reasons) - _MAX_NAMED
    return "; ".join(reasons[:_MAX_NAMED]) + (f"; and {more} more partitions" if more > 0 else "")
