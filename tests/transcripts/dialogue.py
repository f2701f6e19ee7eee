"""A dialogue with a broker: asks in raw requests, and keeps what was asked and answered.

The same script runs against Apache Kafka, which is how the recordings come about, and against
Sawlog, whose answers must then be the same. Where they cannot be, the step says why and how.
"""

import time
from collections.abc import Callable
from pathlib import Path

from sawlog.core.errors import ErrorCode
from support.protocol.wire import GUARD_S
from transcripts.plain import Names
from transcripts.speaker import KAFKA_FAILS, HeartbeatThread
from transcripts.steps import Differs, Step, api_named

__all__ = ["KAFKA_FAILS", "RECORDINGS", "Dialogue", "Differs", "Step", "api_named"]

RECORDINGS = Path(__file__).parent / "kafka-4.3.0"
NOT_YET = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}
LATEST = -1


class Dialogue(HeartbeatThread):
    """The script's own voice, and those of the members that it lets speak."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__((host, port), Names(host, port), [])
        self._speakers: list[HeartbeatThread] = []

    def speaker(self, name: str) -> HeartbeatThread:
        """Somebody else, with a connection of their own."""
        speaker = HeartbeatThread(self._address, self.names, self.steps, name)
        self._speakers.append(speaker)
        return speaker

    def end(self) -> None:
        for each in (self, *self._speakers):
            each.hang_up()

    def create(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """A topic to work with, ready for use; its id."""
        settings = [
            {"name": key.replace("_", "."), "value": value} for key, value in configs.items()
        ]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        answer = self.quietly("CreateTopics", 7, {"topics": [{**topic, "configs": settings}]})
        assert answer.topics[0].error_code == 0, answer
        self.wait_until_led(name, partitions)
        return bytes(answer.topics[0].topic_id)

    def wait_until_led(self, name: str, partitions: int = 1) -> None:
        """Kafka answers CreateTopics before its broker leads the partitions."""
        wanted = [{"partition_index": index, "timestamp": LATEST} for index in range(partitions)]
        request = {"replica_id": -1, "topics": [{"name": name, "partitions": wanted}]}
        self.wait(
            lambda: (
                not any(
                    each.error_code in NOT_YET
                    for each in self.quietly("ListOffsets", 5, request).topics[0].partitions
                )
            )
        )

    def wait(self, condition: Callable[[], bool]) -> None:
        """Asks again until the broker shows a change; Sawlog mostly does at once."""
        deadline_s = time.monotonic() + GUARD_S
        while not condition():
            assert time.monotonic() < deadline_s, "what the script waits for does not come"
