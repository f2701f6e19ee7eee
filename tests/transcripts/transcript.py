"""A transcript in the making: clients that send raw requests to one broker, and their steps.

The same scenario runs against Apache Kafka, which makes the recording, and against Sawlog, whose
responses must be equal to it. Where they differ on purpose, the step says why and how.
"""

import time
from collections.abc import Callable

from sawlog.core.errors import ErrorCode
from support.protocol.wire import GUARD_S
from transcripts.plain_values import Names
from transcripts.script_client import ScriptClient

NOT_LED_YET = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}
LATEST = -1


class Transcript(ScriptClient):
    """The client of a scenario, and the named clients that it opens, such as group members."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__((host, port), Names(host, port), [])
        self._clients: list[ScriptClient] = []

    def open_client(self, name: str) -> ScriptClient:
        """A client with a connection of its own; its steps are part of this transcript."""
        client = ScriptClient(self._address, self.names, self.steps, name)
        self._clients.append(client)
        return client

    def close(self) -> None:
        super().close()
        for client in self._clients:
            client.close()

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Create a topic, wait until its partitions have a leader, and return its id."""
        settings = [
            {"name": key.replace("_", "."), "value": value} for key, value in configs.items()
        ]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        fields = {"topics": [{**topic, "configs": settings}]}
        response = self.request_unrecorded("CreateTopics", 7, fields)
        assert response.topics[0].error_code == 0, response
        self.wait_until_led(name, partitions)
        return bytes(response.topics[0].topic_id)

    def wait_until_led(self, name: str, partitions: int = 1) -> None:
        """Kafka answers CreateTopics before its broker leads the partitions."""
        wanted = [{"partition_index": index, "timestamp": LATEST} for index in range(partitions)]
        request = {"replica_id": -1, "topics": [{"name": name, "partitions": wanted}]}

        def is_led() -> bool:
            (topic,) = self.request_unrecorded("ListOffsets", 5, request).topics
            return not any(each.error_code in NOT_LED_YET for each in topic.partitions)

        self.wait_until(is_led)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Poll until the broker shows a change; Sawlog mostly does at once."""
        deadline_s = time.monotonic() + GUARD_S
        while not condition():
            assert time.monotonic() < deadline_s, f"the condition is not met after {GUARD_S} s"
