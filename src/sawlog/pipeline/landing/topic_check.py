"""Whether the landing of a table can go on with its topic: one rule for run, check and status.

It cannot where the topic was deleted or created again, where its log ends before what has landed,
and where the log begins behind it: then records are lost. A gap within the log (compaction,
transactions) is no loss.
"""

from collections.abc import Iterable, Mapping

from sawlog.client.admin.list_offsets import EARLIEST, LATEST, list_offsets
from sawlog.client.arrow.offset_range import OffsetsLost
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.errors import ErrorCode
from sawlog.core.ids import NO_TOPIC_ID, TopicPartition, format_topic_id
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.source.offset_json import Offsets

_MOST_NAMED = 3
_ELSEWHERE = "land the topic in a table of another name, which begins where the topic does"


class TopicLog:
    """The topic of one table as the brokers have it now. For one thread.

    `topic_id` is that of the topic whose records the table has. Methods raise LandingFailure where
    the landing cannot go on, and what the client raises where the brokers do not tell.
    """

    def __init__(
        self, cluster: Cluster, topic: str, topic_id: bytes, *, read_committed: bool
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._topic_id = topic_id
        self._read_committed = read_committed

    def ends(self) -> Offsets:
        """Where each partition ends for a reader of this isolation level."""
        partitions = self._cluster.retry(self._partitions)
        return self._offsets(partitions, LATEST, read_committed=self._read_committed)

    def check_end_offsets(self, landed: Mapping[TopicPartition, int], ends: Offsets) -> Offsets:
        """`ends`, or where the table is if only an open transaction keeps readers before that."""
        behind = [partition for partition, end in ends.items() if end < landed.get(partition, 0)]
        if behind:
            check_log(landed, {}, self._offsets(behind, LATEST))
        return {partition: max(end, landed.get(partition, 0)) for partition, end in ends.items()}

    def check_start_offsets(self, landed: Mapping[TopicPartition, int], ends: Offsets) -> None:
        """Asks for those partitions only that have something to land: `ends` are behind them."""
        waiting = [partition for partition, end in ends.items() if end > landed.get(partition, 0)]
        if waiting:
            check_log(landed, self._offsets(waiting, EARLIEST), ends)

    def _partitions(self) -> list[TopicPartition]:
        metadata = self._cluster.fetch_metadata([self._topic])
        for refused in metadata.errors.values():
            if refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise topic_deleted(self._topic)
            raise refused
        (topic,) = metadata.topics.values()
        check_topic_id(self._topic, self._topic_id, topic.id)
        return [partition_of(topic.name, index) for index in topic.partitions]

    def _offsets(
        self, partitions: Iterable[TopicPartition], mark: int, *, read_committed: bool = False
    ) -> Offsets:
        wanted = dict.fromkeys(partitions, mark)
        found = list_offsets(self._cluster, wanted, read_committed=read_committed)
        return {partition: told.offset for partition, told in sorted(found.items())}


def topic_deleted(topic: str) -> LandingFailure:
    """For a table that has records of the topic, or may have."""
    return LandingFailure(
        FailureKind.TOPIC_DELETED,
        f"the topic {topic!r} is no longer there; take the table out of the file, or land a topic"
        " that is there in a table of another name",
    )


def check_topic_id(topic: str, expected: bytes, found: bytes) -> None:
    """Offsets of one topic mean nothing in another of the same name."""
    if NO_TOPIC_ID in (expected, found) or expected == found:
        return
    raise LandingFailure(
        FailureKind.TOPIC_DELETED,
        f"the topic {topic!r} was deleted and created again: the table has records of the one with"
        f" the id {format_topic_id(expected)}, the one now is {format_topic_id(found)}; land it in"
        " a table of another name",
    )


def check_log(
    landed: Mapping[TopicPartition, int],
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> None:
    """Compares the next offsets to land with where the logs begin and end, as far as known.

    An example with numbers. The table has t-0 up to 500, exclusively. A log of 500 to 700 goes on;
    so does one of 0 to 500. A log of 600 to 700 has lost the offsets 500 to 599. A log that ends at
    400 is not the one that landed: the next records get offsets that the table has already.
    """
    short = {tp: end for tp, end in ends.items() if end < landed.get(tp, 0)}
    if short:
        told = [
            f"{tp} ends at offset {end}, and the table has it up to {landed[tp]}"
            for tp, end in sorted(short.items())
        ]
        raise LandingFailure(
            FailureKind.DATA_LOSS,
            f"{_some(told)}: the records between are gone from the broker, and others will get"
            f" their offsets; {_ELSEWHERE}",
        )
    late = {tp: start for tp, start in begins.items() if start > landed.get(tp, 0)}
    if late:
        told = [
            f"{tp} no longer has all of the offsets {landed.get(tp, 0)} to {ends[tp] - 1}: it"
            f" begins at {start}, and {landed.get(tp, 0)} to {start - 1} are lost"
            for tp, start in sorted(late.items())
        ]
        raise LandingFailure(
            FailureKind.DATA_LOSS,
            f"{_some(told)}. Retention or deleted records took them before they landed; to go on"
            f" without them, {_ELSEWHERE}",
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


def _some(told: list[str]) -> str:
    more = len(told) - _MOST_NAMED
    return "; ".join(told[:_MOST_NAMED]) + (f"; and {more} partitions more" if more > 0 else "")
