"""Plans the next batch of one table: where its topics end, within the commit bounds."""

from collections.abc import Mapping

from sawlog.client.admin.record_sizes import record_bytes
from sawlog.client.net.cluster import Cluster
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.landing.configuration.pipeline_config import CommitBounds
from sawlog.pipeline.landing.topic_check import TopicState
from sawlog.pipeline.source.batch_planning import Limits, OffsetRange, plan_batch
from sawlog.pipeline.source.offset_json import Offsets


class BatchPlanner:
    """Plans batches with the connections of `cluster`, for one thread; `topics` has their ids.

    `record_bytes` has the estimated size of a record of each partition that was planned so far.
    """

    def __init__(
        self,
        cluster: Cluster,
        topics: Mapping[str, bytes],
        bounds: CommitBounds,
        *,
        read_committed: bool,
    ) -> None:
        self._cluster = cluster
        self._topic_state = TopicState(cluster, topics, read_committed=read_committed)
        self._limits = Limits(max_records=bounds.rows, max_bytes=bounds.fetched_bytes)
        self._read_committed = read_committed
        self.record_bytes: dict[TopicPartition, float] = {}

    def ends(self) -> Offsets:
        """The end offset of each partition. Raises an error if the brokers do not answer."""
        return self._topic_state.ends()

    def check_ends(self, starts: Mapping[TopicPartition, int]) -> Offsets:
        """The end offsets now, none before `starts`. Raises LandingFailure if a log ends there."""
        return self._topic_state.check_end_offsets(starts, self.ends())

    def held_back(self, ends: Offsets) -> list[OffsetRange]:
        """The records after `ends` that open transactions hold back."""
        return self._topic_state.held_back(ends)

    def bounded(self, starts: Mapping[TopicPartition, int], ends: Offsets) -> Offsets:
        """The part of the records before `ends` that one batch may have.

        Raises LandingFailure if some of them are lost.
        """
        ends = self._topic_state.check_end_offsets(starts, ends)
        self._topic_state.check_start_offsets(starts, ends)
        begins = {partition: starts.get(partition, 0) for partition in ends}
        waiting = {
            partition: begins[partition]
            for partition in ends
            if begins[partition] < ends[partition]
        }
        self.record_bytes |= record_bytes(
            self._cluster, waiting, read_committed=self._read_committed
        )
        planned = plan_batch(begins, ends, self._limits, record_bytes=self.record_bytes)
        return {**starts, **planned}


def backlog(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    record_bytes: Mapping[TopicPartition, float],
) -> tuple[int, float]:
    """The number of offsets between, and their bytes.

    A partition whose record size is unknown counts with the largest known one.
    """
    waiting = {tp: max(0, end - starts.get(tp, 0)) for tp, end in ends.items()}
    heaviest = max(record_bytes.values(), default=0.0)
    weight = sum(rows * record_bytes.get(tp, heaviest) for tp, rows in waiting.items())
    return sum(waiting.values()), weight
