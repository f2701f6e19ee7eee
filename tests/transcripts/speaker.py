"""One who speaks to a broker in raw requests, and what was said: steps, with the answers.

A request may wait for its answer while others speak: that is how members of a group meet.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sawlog.protocol.apis import ApiKey, request_class
from support.protocol.wire import GUARD_S, Wire
from transcripts.plain import Names, build, plain_request, plain_response
from transcripts.steps import Differs, Request, Step, api_named

CLOSED = "<closed>"
SILENT = "<no answer>"
WAITS = "<waits>"
SENT = "<no response by protocol>"
SILENCE_S = 10
KAFKA_FAILS = "Kafka's handler fails unexpectedly; Sawlog says what is wrong"

Keep = Callable[[dict[str, Any]], Any]


def everything(answer: dict[str, Any]) -> Any:
    return answer


class HeartbeatThread:
    """A connection with a name; the steps and the names of ids are those of the whole script."""

    def __init__(
        self, address: tuple[str, int], names: Names, steps: list[Step], name: str = ""
    ) -> None:
        self._address = address
        self._wire: Wire | None = None
        self._begun: tuple[str, int] | None = None
        self.name = name
        self.names = names
        self.steps = steps

    @property
    def wire(self) -> Wire:
        if self._wire is None:
            self._wire = Wire(*self._address)
        return self._wire

    def hang_up(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        self._begun = None

    # Asking

    def ask(
        self,
        title: str,
        api: str,
        version: int,
        fields: Mapping[str, Any] | None = None,
        *,
        keep: Keep = everything,
        differs: Differs | None = None,
    ) -> Any:
        """One step: the response, or None where the connection was closed. `keep` is what the
        recording keeps of the answer, where not all of it belongs to the script."""
        fields = fields or {}
        response = self.quietly(api, version, fields)
        self._note(title, self._written(api, version, fields), version, response, keep, differs)
        return response

    def begin(self, title: str, api: str, version: int, fields: Mapping[str, Any]) -> None:
        """A step whose answer comes when others have done their part: `hear` is that step."""
        self.wire.send(build(request_class(api_named(api)), fields), version)
        self._begun = (api, version)
        self.steps.append(Step(title, self._written(api, version, fields), WAITS, None, self.name))

    def hear(self, title: str, *, keep: Keep = everything, differs: Differs | None = None) -> Any:
        """The answer to what was begun."""
        api, version, response = self.take()
        request = Request(api, version, {}, "is answered")
        self._note(title, request, version, response, keep, differs)
        return response

    def take(self) -> tuple[str, int, Any]:
        """The answer to what was begun, which the recording does not keep."""
        assert self._begun is not None
        api, version = self._begun
        self._begun = None
        response = self.wire.receive(api_named(api), version)
        self._heard(api_named(api), response)
        return api, version, response

    def has_news(self, within_s: float) -> bool:
        """Is an answer there, or does one come in time?"""
        return self.wire.has_bytes(within_s)

    def quietly(self, api: str, version: int, fields: Mapping[str, Any]) -> Any:
        """Asks without keeping; ids in the answer are learnt."""
        key = api_named(api)
        response = self.wire.ask(build(request_class(key), fields), version)
        self._heard(key, response)
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
            request = self._written(api, version, fields)
            self.steps.append(Step(title, request, SILENT, differs, self.name))
            self.hang_up()

    def unanswered(self, title: str, api: str, version: int, fields: Mapping[str, Any]) -> None:
        """A request that gets no answer by the protocol; what comes behind it shows its effect."""
        self.wire.send(build(request_class(api_named(api)), fields), version)
        self.steps.append(Step(title, self._written(api, version, fields), SENT, None, self.name))

    def frame(self, title: str, frame: bytes, *, raw: bool = False) -> bytes | None:
        """A step of bytes that may be no request at all; keeps the answer in hexadecimal."""
        (self.wire.send_bytes if raw else self.wire.send_frame)(frame)
        answer = self.wire.receive_frame()
        said = CLOSED if answer is None else answer.hex()
        self.steps.append(Step(title, f"frame {frame[:64].hex()}", said, None, self.name))
        if answer is None:
            self.hang_up()
        return answer

    # Keeping

    def _written(self, api: str, version: int, fields: Mapping[str, Any]) -> Request:
        return Request(api, version, plain_request(fields, self.names))

    def _note(
        self,
        title: str,
        request: Request,
        version: int,
        response: Any,
        keep: Keep,
        differs: Differs | None,
    ) -> None:
        answer: Any = CLOSED
        if response is not None:
            answer = keep(plain_response(response, version, self.names))
        self.steps.append(Step(title, request, answer, differs, self.name))

    def _heard(self, api: ApiKey, response: Any) -> None:
        if response is None:
            self.hang_up()
        else:
            self._learn(api, response)

    def _learn(self, api: ApiKey, response: Any) -> None:
        if api is ApiKey.INIT_PRODUCER_ID and response.producer_id >= 0:
            self.names.learn("producer_id", response.producer_id)
        elif api is ApiKey.FETCH and response.session_id:
            self.names.learn("session_id", response.session_id)
        elif api in {ApiKey.METADATA, ApiKey.CREATE_TOPICS}:
            for topic in response.topics:
                if any(topic.topic_id) and topic.name is not None:
                    self.names.learn_topic(topic.topic_id, topic.name)
        elif api in {ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT} and response.member_id:
            self.names.learn_member(response.member_id, self.name)
