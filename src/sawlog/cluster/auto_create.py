"""Creates topics that clients use before they exist, with a bound on those under way.

A request can name a thousand unknown topics. The broker creates some of them and reports the others
as unknown; the client asks again, and the next ones are created.
"""

from collections.abc import Callable

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger, ThrottledLogger
from sawlog.core.ports import Clock

MAX_PARTITIONS_UNDER_WAY = 100
"""Over all requests: so many are created within some tenths of a second."""

Create = Callable[[str, Callable[[KafkaError | None], None]], int]
"""Plan a topic (KafkaError) and start its creation; return the number of its partitions."""


class AutoCreate:
    """Invariant: `_under_way` has the topics that are being created, with their partitions."""

    def __init__(self, clock: Clock, create: Create) -> None:
        self._create = create
        self._under_way: dict[str, int] = {}
        # Clients ask again and again for a topic that cannot be created.
        self._logger = ThrottledLogger(EventLogger("sawlog.cluster.auto_create"), clock)

    def create(self, name: str) -> None:
        """Start to create the topic, unless that is under way or too many others are."""
        under_way = sum(self._under_way.values())
        if name in self._under_way or under_way >= MAX_PARTITIONS_UNDER_WAY:
            return

        def done(error: KafkaError | None) -> None:
            self._under_way.pop(name, None)
            if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                self._logger.warning(
                    "topic cannot be auto-created", topic=name, reason=error.message
                )

        try:
            self._under_way[name] = self._create(name, done)
        except KafkaError as error:
            done(error)
