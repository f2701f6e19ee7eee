"""Encodes and decodes messages: a `decoder` and an `encoder` for a message class in a version.

Both are compiled on first use and cached. Decoding raises only MalformedFrame, whatever the bytes;
bytes after the message are ignored, as in Kafka. Encoding raises NotEncodable; UnsupportedField if
a field with a value does not exist in the version and may not be ignored.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from sawlog.core.ports import Buffer, Part
from sawlog.protocol.decoders import compile_decoder
from sawlog.protocol.encoders import compile_encoder
from sawlog.protocol.layout import UnsupportedVersion, lay_out
from sawlog.protocol.schema import Message
from sawlog.protocol.wire_primitives import NotEncodable, UnsupportedField

__all__ = [
    "NotEncodable",
    "UnsupportedField",
    "UnsupportedVersion",
    "decode",
    "decoder",
    "encode",
    "encoder",
    "parts_encoder",
]

M = TypeVar("M", bound=Message)

_decoders: dict[tuple[type[Message], int], Callable[[memoryview, int], Any]] = {}
_encoders: dict[tuple[type[Message], int], Callable[[Any], bytes]] = {}
_parts_encoders: dict[tuple[type[Message], int], Callable[[Any], list[Part]]] = {}


def decoder(cls: type[M], version: int) -> Callable[[memoryview, int], tuple[M, int]]:
    """Return a function that decodes the message at a position of a buffer, and returns its end.

    Strings and bytes are copied; record batches are views of the buffer.
    """
    found = _decoders.get((cls, version))
    if found is None:
        found = _decoders[cls, version] = compile_decoder(lay_out(cls, version), version)
    return found


def encoder(cls: type[M], version: int) -> Callable[[M], bytes]:
    """Return a function that encodes a message; batches in files are read and copied."""
    found = _encoders.get((cls, version))
    if found is None:
        layout = lay_out(cls, version)
        found = _encoders[cls, version] = compile_encoder(layout, version, in_parts=False)
    return found


def parts_encoder(cls: type[M], version: int) -> Callable[[M], list[Part]]:
    """Return a function that encodes a message as parts: file slices and views are not copied."""
    found = _parts_encoders.get((cls, version))
    if found is None:
        layout = lay_out(cls, version)
        found = _parts_encoders[cls, version] = compile_encoder(layout, version, in_parts=True)
    return found


def decode(cls: type[M], version: int, buffer: Buffer) -> M:
    return decoder(cls, version)(memoryview(buffer), 0)[0]


def encode(message: Message, version: int) -> bytes:
    return encoder(type(message), version)(message)
