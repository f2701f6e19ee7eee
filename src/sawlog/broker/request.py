"""One API with its codecs, and one request of it that waits for its response.

A handler returns its response, or keeps the request and calls `reply` later; either way the
response is encoded here, in the version of the request.
"""

from typing import TYPE_CHECKING, Any, TypeVar

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ports import Client, Exchange, FileSlice, Part
from sawlog.protocol import headers
from sawlog.protocol.apis import (
    ApiKey,
    request_class,
    response_class,
    response_header_version,
    valid_versions,
)
from sawlog.protocol.codec import decoder, encoder, parts_encoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from sawlog.broker.components import Components
    from sawlog.protocol.schema import Message

    M = TypeVar("M", bound=Message)
    R = TypeVar("R", bound=Message)
    Handler = Callable[[Components, "Request", M], R | None]
    """Takes a context, the request and its message; returns the response, or None if the handler
    calls `request.reply` itself."""
    AnyHandler = Handler[Any, Any]
    """The handler of an API that is known only by its key, which decides on the message type."""

logger = EventLogger(__name__)


class Api:
    """One served API: its versions, its handler, and its codecs, each compiled on first use."""

    __slots__ = (
        "_decoders",
        "_encoders",
        "_has_records",
        "_load",
        "handle",
        "key",
        "max_version",
        "min_version",
    )

    def __init__(self, key: ApiKey, load: "Callable[[], AnyHandler]") -> None:
        """`load` imports the handler; it is called with the first request."""
        self.key = key
        self.handle: AnyHandler = self._load_and_handle
        self._load = load
        self.min_version, self.max_version = valid_versions(key)
        self._has_records = key is ApiKey.FETCH
        self._decoders: dict[int, Callable[[memoryview, int], tuple[Message, int]]] = {}
        self._encoders: dict[int, tuple[Callable[[Any], Any], int]] = {}

    def _load_and_handle(
        self, context: "Components", request: "Request", message: "Message"
    ) -> "Message | None":
        self.handle = self._load()
        response: Message | None = self.handle(context, request, message)
        return response

    def decode(self, version: int, frame: memoryview, position: int) -> "Message":
        try:
            decode = self._decoders[version]
        except KeyError:
            decode = self._decoders[version] = decoder(request_class(self.key), version)
        return decode(frame, position)[0]

    def frame(self, version: int, correlation_id: int, response: "Message") -> list[Part]:
        """Encode a response frame; records stay slices of their files."""
        try:
            encode, header_version = self._encoders[version]
        except KeyError:
            make = parts_encoder if self._has_records else encoder
            encode = make(response_class(self.key), version)
            header_version = response_header_version(self.key, version)
            self._encoders[version] = (encode, header_version)
        if not self._has_records:
            body = encode(response)
            return [headers.response_prefix(correlation_id, header_version, len(body)) + body]
        parts: list[Part] = encode(response)
        length = 0
        for part in parts:
            length += part.length if isinstance(part, FileSlice) else len(part)
        parts.insert(0, headers.response_prefix(correlation_id, header_version, length))
        return parts

    def error_response(self, code: ErrorCode) -> "Message | None":
        """Return a response with `code` at its top level; None if this API has no such field."""
        response = response_class(self.key)()
        if not hasattr(response, "error_code"):
            return None
        setattr(response, "error_code", int(code))  # noqa: B010 (the type has no such field)
        return response


class Request:
    """A request with its header; each is answered exactly once."""

    __slots__ = ("_correlation_id", "_exchange", "api", "api_version", "client_id")

    def __init__(
        self,
        exchange: Exchange,
        api: Api,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        self._exchange = exchange
        self.api = api
        self._correlation_id = correlation_id
        self.api_version = api_version
        self.client_id = client_id

    @property
    def client(self) -> Client:
        return self._exchange.client

    def reply(self, response: "Message") -> None:
        self._exchange.answer(self.api.frame(self.api_version, self._correlation_id, response))

    def reply_in_version(self, version: int, response: "Message") -> None:
        """Reply in another version than the request's, as only ApiVersions does (KIP-511)."""
        self._exchange.answer(self.api.frame(version, self._correlation_id, response))

    def reply_nothing(self) -> None:
        """Finish a request without a response (Produce with acks=0)."""
        self._exchange.answer(())

    def fail(self, error: Exception) -> None:
        """Reply with the error's code, or close the connection if the response has no place for it.

        An error that is not a KafkaError is a bug: it is logged, and the client gets
        UNKNOWN_SERVER_ERROR.
        """
        api = self.api
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        if isinstance(error, KafkaError):
            code = error.code
        else:
            logger.exception("request failed", api=api.key.name, version=self.api_version)
        response = api.error_response(code)
        if response is None:
            self.close(f"{api.key.name} failed: {error}")
        else:
            self.reply(response)

    def close(self, reason: str) -> None:
        self._exchange.close(reason)
