"""Bytes to messages and back: `decoder` and `encoder` of a message class in a version.

Both are compiled on first use and kept. Decoding raises MalformedFrame and nothing else, whatever
the bytes; bytes after the message are left alone, as Kafka does. Encoding raises NotEncodable,
UnsupportedField where the version lacks a field that has a value and may not be dropped.
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
    """A function from a buffer and a position to the message there and where it ends.

    Strings and bytes are copies; record batches are views into the buffer.
    """
    found = _decoders.get((cls, version))
    if found is None:
        found = _decoders[cls, version] = compile_decoder(lay_out(cls, version), version)
    return found


def encoder(cls: type[M], version: int) -> Callable[[M], bytes]:
    """A function from a message to its bytes; batches in files are read and copied."""
    found = _encoders.get((cls, version))
    if found is None:
        layout = lay_out(cls, version)
        found = _encoders[cls, version] = compile_encoder(layout, version, in_parts=False)
    return found


def parts_encoder(cls: type[M], version: int) -> Callable[[M], list[Part]]:
    """A function from a message to its parts: file slices and views as they are, and between
    them the bytes around, joined."""
    found = _parts_encoders.get((cls, version))
    if found is None:
        layout = lay_out(cls, version)
        found = _parts_encoders[cls, version] = compile_encoder(layout, version, in_parts=True)
    return found


def decode(cls: type[M], version: int, buffer: Buffer) -> M:
    return decoder(cls, version)(memoryview(buffer), 0)[0]


def encode(message: Message, version: int) -> bytes:
    return encoder(type(message), version)(message)
