"""When a batch starts: at once if a full one is available, else `every` after the last start.

So a backlog lands at full speed, and a trickle makes one commit per `every`. Time is passed in.
"""

from sawlog.pipeline.landing.configuration.pipeline_config import CommitBounds


class BatchTrigger:
    """The trigger of one table. The first batch starts at once."""

    def __init__(self, bounds: CommitBounds) -> None:
        self._bounds = bounds
        self._began_s: float | None = None

    def is_due(self, waiting_rows: int, waiting_bytes: float, now_s: float) -> bool:
        """Whether a batch of this size starts now; an empty one never does."""
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
