"""Topics that are made because somebody asked for them, and not for more than so many at once.

A request can name a thousand unknown topics; the broker makes some of them and leaves the others to
the next request, which comes because they are told as unknown.
"""

from collections.abc import Callable

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Clock

MAX_PARTITIONS_AT_ONCE = 100
"""Under way, over all requests: as many are made within some tenths of a second."""
REPORT_MS = 1_000
logger = EventLogger("sawlog.cluster.auto_create")

Make = Callable[[str, Callable[[KafkaError | None], None]], int]
"""Plans the topic (KafkaError) and begins to make it; returns the number of its partitions."""


class AutoCreate:
    """Invariant: `_under_way` holds the topics being made, with their partitions."""

    def __init__(self, clock: Clock, make: Make) -> None:
        self._clock = clock
        self._make = make
        self._under_way: dict[str, int] = {}
        self._reported_ms: int | None = None
        self._unreported = 0

    def make(self, name: str) -> None:
        """Nothing, where it is being made already or too many others are."""
        if name in self._under_way or sum(self._under_way.values()) >= MAX_PARTITIONS_AT_ONCE:
            return

        def done(error: KafkaError | None) -> None:
            self._under_way.pop(name, None)
            if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                self._report(name, error)

        try:
            self._under_way[name] = self._make(name, done)
        except KafkaError as error:
            done(error)

    def _report(self, name: str, error: KafkaError) -> None:
        """Once a second: clients ask again and again for what cannot be made."""
        now_ms = self._clock.monotonic_ms()
        if self._reported_ms is not None and now_ms - self._reported_ms < REPORT_MS:
            self._unreported += 1
            return
        logger.warning(
            "topic not made on demand", topic=name, reason=error.message, others=self._unreported
        )
        self._reported_ms, self._unreported = now_ms, 0
