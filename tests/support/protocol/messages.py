"""Random messages of all classes, for tests of the codec.

Values are often extreme: null, empty, smallest, largest, lengths of two bytes, tagged fields set
and not set. The caller seeds `Random`, so that failures can be repeated.
"""

import pkgutil
from importlib import import_module
from random import Random
from typing import Any

from sawlog.core.errors import ErrorCode
from sawlog.protocol import messages
from sawlog.protocol.layout import FieldLayout, StructLayout, lay_out
from sawlog.protocol.schema import Message, parse_versions

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TEXTS = (
    "",
    "a",
    "topic-with.dots_and-dashes",
    "füße",
    "日本語",
    "\U0001f600",
    "x" * 127,
    "y" * 300,
)
MILLISECONDS = (0, 1, 30_000, 1_700_000_000)


def all_messages() -> list[type[Message]]:
    """Return all top-level message classes, by name."""
    found = []
    for module in pkgutil.iter_modules(messages.__path__, f"{messages.__name__}."):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Message) and hasattr(value, "SCHEMA"):
                found.append(value)
    return sorted(found, key=lambda cls: cls.__name__)


def versions_of(cls: type[Message]) -> range:
    return parse_versions(cls.SCHEMA.versions)


def random_message(cls: type[Message], version: int, random: Random) -> Any:
    """Return a message with random values in the fields of the version, defaults in others."""
    return _random_struct(lay_out(cls, version), random)


def _random_struct(layout: StructLayout, random: Random) -> Message:
    message = layout.cls()
    for field in layout.present:
        setattr(message, field.name, _random_value(field, random))
    for field in layout.tagged:
        if random.random() < 0.6:
            setattr(message, field.name, _random_value(field, random))
    return message


def _random_value(field: FieldLayout, random: Random) -> Any:
    if field.is_nullable and random.random() < 0.25:
        return None
    if field.is_array:
        lengths = (0, 1, 2) if field.struct is not None else (0, 1, 3, 130)
        return [_random_value(field.element, random) for _ in range(random.choice(lengths))]
    if field.struct is not None:
        return _random_struct(field.struct, random)
    return _random_scalar(field, random)


def _random_scalar(field: FieldLayout, random: Random) -> Any:
    match field.kind:
        case "bool":
            return random.random() < 0.5
        case "float64":
            return random.choice((0.0, -1.5, 1e300))
        case "uint16":
            return random.choice((0, 1, 0x7FFF, 0xFFFF))
        case "uint32":
            return random.choice((0, 1, 0xFFFFFFFF))
        case "uuid":
            return random.choice((bytes(16), random.randbytes(16)))
        case "string":
            return random.choice(TEXTS)
        case "bytes" | "records":
            return random.randbytes(random.choice((0, 1, 127, 128, 1000)))
    if field.name.endswith("error_code"):
        return int(random.choice([code for code in ErrorCode if code < 100]))
    if field.name.endswith("_ms") or "time" in field.name:
        return random.choice(MILLISECONDS)
    bits = INTEGER_BITS[field.kind]
    edges = (0, 1, -1, -(1 << bits - 1), (1 << bits - 1) - 1)
    return random.choice((*edges, random.getrandbits(bits - 1)))
