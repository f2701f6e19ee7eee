"""When a batch begins: at once where a full one waits, else when the last began long enough ago.

So a backlog goes as fast as it can, and a trickle makes one commit per `every`. Time is passed in.
"""

from sawlog.pipeline.landing.configuration.pipeline_config import CommitBounds


class BatchTrigger:
    """Of one table. The first batch begins at once."""

    def __init__(self, bounds: CommitBounds) -> None:
        self._bounds = bounds
        self._began_s: float | None = None

    def is_due(self, waiting_rows: int, waiting_bytes: float, now_s: float) -> bool:
        """Whether what waits makes a batch now. Nothing makes none."""
        if waiting_rows <= 0:
            return False
        if waiting_rows >= self._bounds.rows or waiting_bytes >= self._bounds.fetched_bytes:
            return True
        return self.remaining_s(now_s) <= 0

    def started(self, now_s: float) -> None:
        self._began_s = now_s

    def remaining_s(self, now_s: float) -> float:
        """How long a small batch still waits."""
        if self._began_s is None:
            return 0.0
        return max(0.0, self._began_s + self._bounds.every_s - now_s)
