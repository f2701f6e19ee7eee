"""The segments of a log that expire by retention.ms and retention.bytes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sawlog.storage.log_config import LogConfig


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """The settings of a topic that decide about retention.

    With retention_bytes=1000 and segments of 400, 400 and 700 bytes the first one expires: the
    other two hold at least 1000 bytes, the last one alone does not.
    """

    deletes: bool  # whether cleanup.policy includes "delete"
    retention_ms: int  # negative: no limit
    retention_bytes: int  # negative: no limit

    @classmethod
    def of(cls, config: LogConfig) -> "RetentionPolicy":
        deletes = "delete" in config.cleanup_policy
        return cls(deletes, config.retention_ms, config.retention_bytes)

    def expired(self, sizes: Sequence[int], newest_ms: Iterable[int], now_ms: int) -> int:
        """How many of the oldest segments expire.

        `newest_ms` is the timestamp of the newest record of each segment, oldest segment first; it
        is consumed only as far as needed.
        """
        if not self.deletes:
            return 0
        return max(self._oversized(sizes), self._outdated(newest_ms, now_ms))

    def _oversized(self, sizes: Sequence[int]) -> int:
        if self.retention_bytes < 0:
            return 0
        surplus = sum(sizes) - self.retention_bytes
        count = 0
        for size in sizes:
            surplus -= size
            if surplus < 0:
                break
            count += 1
        return count

    def _outdated(self, newest_ms: Iterable[int], now_ms: int) -> int:
        if self.retention_ms < 0:
            return 0
        count = 0
        for newest in newest_ms:
            if newest >= now_ms - self.retention_ms:
                break
            count += 1
        return count
