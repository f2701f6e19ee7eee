"""Telling a consumer group how far a job is, so that Kafka's ordinary tools show its lag.

Nothing depends on it: what a job has done is known elsewhere. So it never fails a batch and never
holds one up for long; what goes wrong is said once.
"""

import logging
import time
from collections.abc import Callable, Mapping

from sawlog.client.admin.groups import GroupAdmin
from sawlog.client.errors import ClientError
from sawlog.client.net.cluster import Cluster
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicPartition

PUBLISH_TIMEOUT_MS = 5_000
_PAUSE_MS = 30_000.0  # after a failure, which may have cost the whole time-out
_logger = logging.getLogger(__name__)


class Publisher:
    """For one group; `cluster` should have a short time-out (PUBLISH_TIMEOUT_MS)."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        *,
        monotonic_ms: Callable[[], float] = lambda: time.monotonic() * 1_000,
    ) -> None:
        self._admin = GroupAdmin(cluster)
        self._group = group
        self._monotonic_ms = monotonic_ms
        self._not_before_ms = 0.0
        self._has_warned = False

    def publish(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Whether the group has these offsets now: the next record of each partition."""
        if not offsets or self._monotonic_ms() < self._not_before_ms:
            return False
        try:
            refused = self._admin.commit_offsets(self._group, offsets)
        except (KafkaError, ClientError) as error:
            self._failed(error)
            self._not_before_ms = self._monotonic_ms() + _PAUSE_MS
            return False
        for partition, reason in refused.items():
            self._failed(f"{partition}: {reason}")
            return False
        self._has_warned = False
        return True

    def _failed(self, reason: object) -> None:
        if not self._has_warned:
            _logger.warning(
                "the progress was not published to the group %r (%s); the job goes on, its lag is"
                " shown wrong",
                self._group,
                reason,
            )
        self._has_warned = True
