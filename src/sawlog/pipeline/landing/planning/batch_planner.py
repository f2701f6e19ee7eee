"""Plans the next batch: where the topic ends, within the commit bounds.

It runs in the Python worker beside the driver, and asks the brokers at every call, so that
new partitions are found and a topic that was created again is noticed.
"""

import time
from collections.abc import Callable, Mapping

from sawlog.client.admin.record_sizes import record_bytes
from sawlog.client.errors import UNANSWERED
from sawlog.client.net.cluster import Cluster
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.landing.configuration.pipeline_config import CommitBounds
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.landing.planning.batch_trigger import BatchTrigger
from sawlog.pipeline.landing.topic_check import TopicState
from sawlog.pipeline.source.batch_planning import Limits, plan_batch
from sawlog.pipeline.source.offset_json import Offsets

MISSING_S = 10.0  # how long a starting cluster may not know a topic
_POLL_S = 0.2


class BatchPlanner:
    """Plans the batches of one table. Not thread-safe."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        topic_id: bytes,
        bounds: CommitBounds,
        *,
        read_committed: bool,
        monotonic_s: Callable[[], float] = time.monotonic,
        sleep_s: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = cluster
        self._topic_state = TopicState(cluster, topic, topic_id, read_committed=read_committed)
        self._limits = Limits(max_records=bounds.rows, max_bytes=bounds.fetched_bytes)
        self._read_committed = read_committed
        self._monotonic_s = monotonic_s
        self._sleep_s = sleep_s
        self._trigger = BatchTrigger(bounds)
        self._record_bytes: dict[TopicPartition, float] = {}
        self._missing_since_s: float | None = None

    def close(self) -> None:
        self._cluster.close()

    def ends(self) -> Offsets:
        """The end offset of each partition. Raises an error if the brokers do not answer."""
        return self._topic_state.ends()

    def next_batch(self, starts: Mapping[TopicPartition, int]) -> Offsets:
        """The end offsets of the next batch; `starts` if none is due, after a short wait."""
        try:
            ends = self._topic_state.check_end_offsets(starts, self._known_ends(starts))
            now_s = self._monotonic_s()
            if not self._is_due(starts, ends, now_s):
                return self._nothing(starts)
            planned = self.bounded(starts, ends)
        except UNANSWERED:
            return self._nothing(starts)
        except KafkaError as error:
            if not error.is_retriable:
                raise
            return self._nothing(starts)
        self._trigger.started(now_s)
        return planned

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
        self._record_bytes |= record_bytes(
            self._cluster, waiting, read_committed=self._read_committed
        )
        planned = plan_batch(begins, ends, self._limits, record_bytes=self._record_bytes)
        return {**starts, **planned}

    def _known_ends(self, starts: Mapping[TopicPartition, int]) -> Offsets:
        try:
            ends = self.ends()
        except LandingFailure as failure:
            if failure.kind is not FailureKind.TOPIC_DELETED or self._is_gone_for_good():
                raise
            return dict(starts)
        self._missing_since_s = None
        return ends

    def _is_gone_for_good(self) -> bool:
        """False while a starting broker may not yet know the topic."""
        now_s = self._monotonic_s()
        if self._missing_since_s is None:
            self._missing_since_s = now_s
        return now_s - self._missing_since_s > MISSING_S

    def _is_due(self, starts: Mapping[TopicPartition, int], ends: Offsets, now_s: float) -> bool:
        waiting = {tp: max(0, end - starts.get(tp, 0)) for tp, end in ends.items()}
        heaviest = max(self._record_bytes.values(), default=0.0)
        weight = sum(
            rows * self._record_bytes.get(partition, heaviest)
            for partition, rows in waiting.items()
        )
        return self._trigger.is_due(sum(waiting.values()), weight, now_s)

    def _nothing(self, starts: Mapping[TopicPartition, int]) -> Offsets:
        self._sleep_s(_POLL_S)
        return dict(starts)
