"""A dialogue with a broker: asks in raw requests, and keeps what was asked and answered.

The same script runs against Apache Kafka, which is how the recordings come about, and against
Sawlog, whose answers must then be the same. Where they cannot be, the step says why and how.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sawlog.core.errors import ErrorCode
from sawlog.protocol.apis import ApiKey, request_class
from support.wire import GUARD_S, Wire
from transcripts.plain import Names, build, plain_request, plain_response

RECORDINGS = Path(__file__).parent / "kafka-4.3.0"
LINE = 100
NOT_YET = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}
KAFKA_FAILS = "Kafka's handler fails unexpectedly; Sawlog says what is wrong"
CLOSED = "<closed>"
SILENT = "<no answer>"
SILENCE_S = 10
LATEST = -1


class Differs(NamedTuple):
    """Where Sawlog's answer is not Kafka's on purpose: the reason, and its values by path."""

    reason: str
    values: Mapping[str, Any]

    def applied_to(self, answer: Any) -> Any:
        """Kafka's answer with Sawlog's values in it."""
        for path, value in self.values.items():
            if not path:
                return value
            *way, last = path.split(".")
            place = answer
            for key in way:
                place = place[int(key)] if isinstance(place, list) else place[key]
            if isinstance(place, list):
                place[int(last)] = value
            else:
                place[last] = value
        return answer


class Step(NamedTuple):
    title: str
    request: str
    answer: Any
    differs: Differs | None


def api_named(name: str) -> ApiKey:
    """`CreateTopics` to ApiKey.CREATE_TOPICS."""
    spelled = "".join(f"_{letter}" if letter.isupper() else letter for letter in name)
    return ApiKey[spelled.removeprefix("_").upper()]


class Dialogue:
    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._wire: Wire | None = None
        self.names = Names(host, port)
        self.steps: list[Step] = []

    @property
    def wire(self) -> Wire:
        if self._wire is None:
            self._wire = Wire(*self._address)
        return self._wire

    def hang_up(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def ask(
        self,
        title: str,
        api: str,
        version: int,
        fields: Mapping[str, Any] | None = None,
        *,
        keep: Callable[[dict[str, Any]], Any] = lambda answer: answer,
        differs: Differs | None = None,
    ) -> Any:
        """One step: the response, or None where the connection was closed. `keep` is what the
        recording keeps of the answer, where not all of it belongs to the script."""
        fields = fields or {}
        response = self.quietly(api, version, fields)
        request = f"{api} v{version} {json.dumps(plain_request(fields, self.names))}"
        answer: Any = CLOSED
        if response is not None:
            answer = keep(plain_response(response, version, self.names))
        self.steps.append(Step(title, request, answer, differs))
        return response

    def ask_in_vain(
        self, title: str, api: str, version: int, fields: Mapping[str, Any], differs: Differs
    ) -> None:
        """A request that Kafka never answers: the handler dies of it. Sawlog does answer."""
        self.wire.patience_s(SILENCE_S)
        try:
            self.ask(title, api, version, fields, differs=differs)
            self.wire.patience_s(GUARD_S)
        except TimeoutError:
            request = f"{api} v{version} {json.dumps(plain_request(fields, self.names))}"
            self.steps.append(Step(title, request, SILENT, differs))
            self.hang_up()

    def unanswered(self, title: str, api: str, version: int, fields: Mapping[str, Any]) -> None:
        """A request that gets no answer by the protocol; what comes behind it shows its effect."""
        self.wire.send(build(request_class(api_named(api)), fields), version)
        request = f"{api} v{version} {json.dumps(plain_request(fields, self.names))}"
        self.steps.append(Step(title, request, None, None))

    def quietly(self, api: str, version: int, fields: Mapping[str, Any]) -> Any:
        """Asks without keeping; ids in the answer are learnt."""
        key = api_named(api)
        response = self.wire.ask(build(request_class(key), fields), version)
        if response is None:
            self.hang_up()
        else:
            self._learn(key, response)
        return response

    def frame(self, title: str, frame: bytes, *, raw: bool = False) -> bytes | None:
        """A step of bytes that may be no request at all; keeps the answer in hexadecimal."""
        (self.wire.send_bytes if raw else self.wire.send_frame)(frame)
        answer = self.wire.receive_frame()
        self.steps.append(
            Step(title, frame[:64].hex(), CLOSED if answer is None else answer.hex(), None)
        )
        if answer is None:
            self.hang_up()
        return answer

    def _learn(self, api: ApiKey, response: Any) -> None:
        if api is ApiKey.INIT_PRODUCER_ID and response.producer_id >= 0:
            self.names.learn("producer_id", response.producer_id)
        elif api is ApiKey.FETCH and response.session_id:
            self.names.learn("session_id", response.session_id)
        elif api in {ApiKey.METADATA, ApiKey.CREATE_TOPICS}:
            for topic in response.topics:
                if any(topic.topic_id) and topic.name is not None:
                    self.names.learn_topic(topic.topic_id, topic.name)

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
        """Asks again until the broker's metadata shows a change; Sawlog's does at once."""
        for _ in range(10_000):
            if condition():
                return
        raise AssertionError("the broker does not come to the state that the script waits for")


def as_text(steps: list[Step]) -> str:
    """The recording: one line a step where it fits, else nested."""
    entries = [
        {"step": step.title, "request": step.request, "answer": step.answer} for step in steps
    ]
    return _pretty(entries, 0) + "\n"


def _pretty(value: Any, depth: int) -> str:
    line = json.dumps(value, ensure_ascii=False)
    if depth * 2 + len(line) <= LINE or not isinstance(value, dict | list) or not value:
        return line
    indent = "  " * (depth + 1)
    if isinstance(value, dict):
        inner = [f"{json.dumps(key)}: {_pretty(each, depth + 1)}" for key, each in value.items()]
        opening, closing = "{", "}"
    else:
        inner = [_pretty(each, depth + 1) for each in value]
        opening, closing = "[", "]"
    body = ",\n".join(indent + each for each in inner)
    return f"{opening}\n{body}\n{'  ' * depth}{closing}"
