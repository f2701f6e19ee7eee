"""A client that sends raw requests and records each with its response as a step.

A request may stay open while other clients send theirs: that is how group members rebalance.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sawlog.protocol.apis import ApiKey, request_class
from support.protocol.wire import GUARD_S, Wire
from transcripts.plain_values import Names, build, plain_request, plain_response
from transcripts.steps import Differs, Request, Step, api_named

CLOSED = "<closed>"
NEVER_ANSWERED = "<no response>"
PENDING = "<waits>"
NO_RESPONSE_DUE = "<no response by protocol>"
NO_RESPONSE_TIMEOUT_S = 10
KAFKA_FAILS = "Kafka's handler fails unexpectedly; Sawlog returns the error that applies"

Keep = Callable[[dict[str, Any]], Any]


def everything(response: dict[str, Any]) -> Any:
    return response


class ScriptClient:
    """One connection with a name; all clients of a transcript share its steps and names of ids."""

    def __init__(
        self, address: tuple[str, int], names: Names, steps: list[Step], name: str = ""
    ) -> None:
        self._address = address
        self._wire: Wire | None = None
        self._pending: tuple[str, int] | None = None
        self.name = name
        self.names = names
        self.steps = steps

    @property
    def wire(self) -> Wire:
        if self._wire is None:
            self._wire = Wire(*self._address)
        return self._wire

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        self._pending = None

    def request(
        self,
        title: str,
        api: str,
        version: int,
        fields: Mapping[str, Any] | None = None,
        *,
        keep: Keep = everything,
        differs: Differs | None = None,
    ) -> Any:
        """Send a request and return its response, or None if the broker closed the connection.

        `keep` reduces the response to the part that the scenario determines.
        """
        fields = fields or {}
        response = self.request_unrecorded(api, version, fields)
        self._record(title, self._plain(api, version, fields), response, keep, differs)
        return response

    def request_unrecorded(self, api: str, version: int, fields: Mapping[str, Any]) -> Any:
        """Send a request without recording a step; ids in the response get their names."""
        key = api_named(api)
        response = self.wire.ask(build(request_class(key), fields), version)
        self._received(key, response)
        return response

    def send(self, title: str, api: str, version: int, fields: Mapping[str, Any]) -> None:
        """Send a request that the broker holds back; `receive` is the step of its response."""
        self.wire.send(build(request_class(api_named(api)), fields), version)
        self._pending = (api, version)
        self._append(title, self._plain(api, version, fields), PENDING)

    def receive(
        self, title: str, *, keep: Keep = everything, differs: Differs | None = None
    ) -> Any:
        """Receive the response to the request that `send` sent."""
        api, version, response = self.receive_unrecorded()
        request = Request(api, version, {}, "completes")
        self._record(title, request, response, keep, differs)
        return response

    def receive_unrecorded(self) -> tuple[str, int, Any]:
        assert self._pending is not None
        api, version = self._pending
        self._pending = None
        response = self.wire.receive(api_named(api), version)
        self._received(api_named(api), response)
        return api, version, response

    def has_response(self, within_s: float) -> bool:
        """True if a response has arrived or arrives in time."""
        return self.wire.has_bytes(within_s)

    def request_unanswered_by_kafka(
        self, title: str, api: str, version: int, fields: Mapping[str, Any], differs: Differs
    ) -> None:
        """Send a request that Kafka never answers because its handler fails. Sawlog answers."""
        self.wire.patience_s(NO_RESPONSE_TIMEOUT_S)
        try:
            self.request(title, api, version, fields, differs=differs)
            self.wire.patience_s(GUARD_S)
        except TimeoutError:
            self._append(title, self._plain(api, version, fields), NEVER_ANSWERED, differs)
            self.close()

    def send_without_response(
        self, title: str, api: str, version: int, fields: Mapping[str, Any]
    ) -> None:
        """Send a request that has no response by protocol; the next request shows its effect."""
        self.wire.send(build(request_class(api_named(api)), fields), version)
        self._append(title, self._plain(api, version, fields), NO_RESPONSE_DUE)

    def send_frame(
        self, title: str, frame: bytes, *, raw: bool = False, differs: Differs | None = None
    ) -> bytes | None:
        """Send bytes that may not be a valid request; the response is recorded in hexadecimal."""
        (self.wire.send_bytes if raw else self.wire.send_frame)(frame)
        response = self.wire.receive_frame()
        shown = CLOSED if response is None else response.hex()
        self._append(title, f"frame {frame[:64].hex()}", shown, differs)
        if response is None:
            self.close()
        return response

    def _plain(self, api: str, version: int, fields: Mapping[str, Any]) -> Request:
        return Request(api, version, plain_request(fields, self.names))

    def _record(
        self, title: str, request: Request, response: Any, keep: Keep, differs: Differs | None
    ) -> None:
        shown: Any = CLOSED
        if response is not None:
            shown = keep(plain_response(response, request.version, self.names))
        self._append(title, request, shown, differs)

    def _append(
        self, title: str, request: Request | str, response: Any, differs: Differs | None = None
    ) -> None:
        self.steps.append(Step(title, request, response, differs, self.name))

    def _received(self, api: ApiKey, response: Any) -> None:
        if response is None:
            self.close()
        else:
            self._name_ids(api, response)

    def _name_ids(self, api: ApiKey, response: Any) -> None:
        if api is ApiKey.INIT_PRODUCER_ID and response.producer_id >= 0:
            self.names.add_number("producer_id", response.producer_id)
        elif api is ApiKey.FETCH and response.session_id:
            self.names.add_number("session_id", response.session_id)
        elif api in {ApiKey.METADATA, ApiKey.CREATE_TOPICS}:
            for topic in response.topics:
                if any(topic.topic_id) and topic.name is not None:
                    self.names.add_topic(topic.topic_id, topic.name)
        elif api in {ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT} and response.member_id:
            self.names.add_member(response.member_id, self.name)
