"""Commits the progress of a stream to a consumer group, for monitoring: Kafka's tools show its lag.

Nothing reads these offsets back. So a commit never fails a batch and never delays one for long; an
error is logged once.
"""

import logging
import time
from collections.abc import Callable, Mapping

from sawlog.client.admin.groups import GroupAdmin
from sawlog.client.errors import ClientError
from sawlog.client.net.cluster import Cluster
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicPartition

COMMIT_TIMEOUT_MS = 5_000
_PAUSE_MS = 30_000.0  # pause after a failure, which may have taken the whole timeout
_logger = logging.getLogger(__name__)


class GroupProgress:
    """Commits for one group; `cluster` should have a short timeout (COMMIT_TIMEOUT_MS)."""

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

    def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commit the next offset of each partition; False if that failed."""
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
                "offsets were not committed to the group %r (%s); the stream continues, but its"
                " lag is shown wrong",
                self._group,
                reason,
            )
        self._has_warned = True
