"""One request under way: what the header said, and the one way to answer it.

A handler returns its response, or keeps the request and calls `reply` later; either way the
response is encoded here, for the version that was asked in.
"""

from collections.abc import Callable
from typing import Any

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

Handler = Callable[[Any, "Request", Any], Any]
"""(broker, request, message) -> response, or None where it will be given by `request.reply`."""


class Api:
    """One API as this broker serves it: versions, handler, and codecs as they come into use."""

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

    def __init__(
        self,
        key: ApiKey,
        load: Callable[[], Handler],
    ) -> None:
        self.key = key
        self.handle: Handler = self._first
        self._load = load
        self.min_version, self.max_version = valid_versions(key)
        self._has_records = key is ApiKey.FETCH
        self._decoders: dict[int, Callable[[memoryview, int], tuple[Any, int]]] = {}
        self._encoders: dict[int, tuple[Callable[[Any], Any], int]] = {}

    def _first(self, broker: Any, request: "Request", message: Any) -> Any:
        """The first request loads its handler; those after it meet that handler itself."""
        self.handle = self._load()
        return self.handle(broker, request, message)

    def decode(self, version: int, frame: memoryview, position: int) -> Any:
        try:
            decode = self._decoders[version]
        except KeyError:
            decode = self._decoders[version] = decoder(request_class(self.key), version)
        return decode(frame, position)[0]

    def frame(self, version: int, correlation_id: int, response: Any) -> list[Part]:
        """The response as it goes on the wire, file slices in their places."""
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


class Request:
    """What a handler sees of a request besides its message."""

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

    def reply(self, response: Any) -> None:
        self._exchange.answer(self.api.frame(self.api_version, self._correlation_id, response))

    def reply_in_version(self, version: int, response: Any) -> None:
        """For the one API that answers in another version than it was asked (ApiVersions)."""
        self._exchange.answer(self.api.frame(version, self._correlation_id, response))

    def reply_nothing(self) -> None:
        """Produce with acks=0: the client waits for no answer."""
        self._exchange.answer(())

    def close(self, reason: str) -> None:
        self._exchange.close(reason)
