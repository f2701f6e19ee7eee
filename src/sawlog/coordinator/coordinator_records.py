"""The records of a coordinator's topic, in Kafka's own form.

A key is the number of its kind (two bytes) and a key message in version 0; a value is its version
(two bytes) and a value message in that version. A record without a value says that what the key
names is gone.
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


Pair = tuple[bytes, bytes | None]
"""Key and value of a record as they are written."""

QuickEncode = Callable[[Any, Any, int], Pair | None]
"""Key, value and version of an entry whose kind is written by the thousand, as the general way
would write them; None where that has to do it."""


class UnknownRecord(Exception):
    """A kind or version that this coordinator does not know, written by somebody newer."""


class RecordFormat:
    """The kinds of records of one topic: which value belongs to which key."""

    def __init__(
        self,
        *kinds: tuple[type[Message], type[Message]],
        quick: Mapping[type[Message], QuickEncode] | None = None,
    ) -> None:
        self._kinds = {key.SCHEMA.api_key: (key, value) for key, value in kinds}
        self._quick = dict(quick or {})

    def encode(self, entry: Entry) -> Pair:
        """UNKNOWN_SERVER_ERROR where a text is longer than records can hold."""
        key, value, version = entry
        cls = type(key)
        quick = self._quick.get(cls)
        try:
            if quick is not None and (pair := quick(key, value, version)) is not None:
                return pair
            encoded_key = _SHORT.pack(cls.SCHEMA.api_key) + encoder(cls, _KEY_VERSION)(key)
            if value is None:
                return encoded_key, None
            return encoded_key, _SHORT.pack(version) + encoder(type(value), version)(value)
        except NotEncodable as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error

    def decode(self, key: bytes | None, value: bytes | None) -> Entry:
        """UnknownRecord where it is of no known kind; MalformedFrame where it is damaged."""
        if key is None or len(key) < _SHORT.size:
            raise MalformedFrame("a coordinator's record without a key")
        (kind,) = _SHORT.unpack_from(key)
        classes = self._kinds.get(kind)
        if classes is None:
            raise UnknownRecord(f"kind {kind}")
        key_class, value_class = classes
        message = decoder(key_class, _KEY_VERSION)(memoryview(key), _SHORT.size)[0]
        if value is None:
            return Entry(message, None)
        if len(value) < _SHORT.size:
            raise MalformedFrame(f"a {value_class.__name__} without a version")
        (version,) = _SHORT.unpack_from(value)
        try:
            decode = decoder(value_class, version)
        except UnsupportedVersion as error:
            raise UnknownRecord(f"{value_class.__name__} in version {version}") from error
        return Entry(message, decode(memoryview(value), _SHORT.size)[0], version)
