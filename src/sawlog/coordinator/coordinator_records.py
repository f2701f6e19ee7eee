"""The records of a coordinator's topic, in Kafka's format.

A key is the number of its kind (two bytes) and a key message in version 0; a value is its version
(two bytes) and a value message in that version. A record without a value is a tombstone.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError, MalformedFrame
from sawlog.protocol.codec import UnsupportedVersion, decoder, encoder
from sawlog.protocol.schema import Message
from sawlog.protocol.wire_primitives import NotEncodable

_SHORT = struct.Struct(">h")
_KEY_VERSION = 0


class Entry(NamedTuple):
    """One record as a machine plans and replays it; `version` is that of the value on disk."""

    key: Message
    value: Message | None
    version: int = 0


EncodedRecord = tuple[bytes, bytes | None]
"""Key and value of a record as they are written."""

FastEncoder = Callable[[Any, Any, int], EncodedRecord | None]
"""Encodes (key, value, version) of a frequent kind to the same bytes as the generic encoder; None
if the generic encoder has to do it."""


class UnknownRecord(Exception):
    """A record kind or version that this coordinator does not know, from a newer one."""


class RecordFormat:
    """The kinds of records of one topic: the value message of each key message."""

    def __init__(
        self,
        *kinds: tuple[type[Message], type[Message]],
        fast_encoders: Mapping[type[Message], FastEncoder] | None = None,
    ) -> None:
        self._kinds = {key.SCHEMA.api_key: (key, value) for key, value in kinds}
        self._fast_encoders = dict(fast_encoders or {})

    def encode(self, entry: Entry) -> EncodedRecord:
        """Encode a record; UNKNOWN_SERVER_ERROR if a string is longer than a record can hold."""
        key, value, version = entry
        cls = type(key)
        encode = self._fast_encoders.get(cls)
        try:
            if encode is not None and (encoded := encode(key, value, version)) is not None:
                return encoded
            encoded_key = _SHORT.pack(cls.SCHEMA.api_key) + encoder(cls, _KEY_VERSION)(key)
            if value is None:
                return encoded_key, None
            return encoded_key, _SHORT.pack(version) + encoder(type(value), version)(value)
        except NotEncodable as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error

    def decode(self, key: bytes | None, value: bytes | None) -> Entry:
        """Decode a record; UnknownRecord if its kind or version is unknown, MalformedFrame if it is
        damaged."""
        if key is None or len(key) < _SHORT.size:
            raise MalformedFrame("a coordinator record has no key")
        (kind,) = _SHORT.unpack_from(key)
        classes = self._kinds.get(kind)
        if classes is None:
            raise UnknownRecord(f"kind {kind}")
        key_class, value_class = classes
        message = decoder(key_class, _KEY_VERSION)(memoryview(key), _SHORT.size)[0]
        if value is None:
            return Entry(message, None)
        if len(value) < _SHORT.size:
            raise MalformedFrame(f"a {value_class.__name__} has no version")
        (version,) = _SHORT.unpack_from(value)
        try:
            decode = decoder(value_class, version)
        except UnsupportedVersion as error:
            raise UnknownRecord(f"{value_class.__name__} in version {version}") from error
        return Entry(message, decode(memoryview(value), _SHORT.size)[0], version)
