"""Message classes: one `field(...)` per line, which is also the schema.

A subclass of `Message` behaves like a slots dataclass. It is not one because `dataclass` takes half
a millisecond per class, and hundreds of messages would dominate the broker's start; here `__init__`
is generated on first use. Only the codec knows which field exists in which version.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, dataclass_transform

from sawlog.core.ports import Part
from sawlog.protocol.codec_source import Source

Records = Part | None
"""Record batches; a decoded message has a view of the frame."""

NO_UUID = bytes(16)

LAST_VERSION = 0x7FFF


def parse_versions(text: str) -> range:
    """Parse a range of versions: `"3+"`, `"0-12"`, `"4"`, `"none"` or an empty text."""
    if text in {"", "none"}:
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), LAST_VERSION + 1)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


class Field:
    """One field over all versions; the attributes are those of Kafka's message definitions."""

    __slots__ = (
        "default",
        "factory",
        "flexible",
        "ignorable",
        "kind",
        "name",
        "nullable",
        "of",
        "tag",
        "tagged",
        "versions",
    )

    name: str
    kind: str
    versions: str
    default: Any
    factory: Callable[[], Any] | None
    of: "type[Message] | None"
    nullable: str
    tag: int
    tagged: str
    ignorable: bool
    flexible: str | None


def field(
    kind: str,
    versions: str,
    *,
    default: Any = None,
    default_factory: Callable[[], Any] | None = None,
    of: "type[Message] | None" = None,
    nullable: str = "",
    tag: int = -1,
    tagged: str = "",
    ignorable: bool = False,
    flexible: str | None = None,
) -> Any:
    """Declare a field. `kind` is a wire type or `struct`, after `[]` for arrays; `of` its class."""
    new = Field()
    new.kind = kind
    new.versions = versions
    new.default = default
    new.factory = default_factory
    new.of = of
    new.nullable = nullable
    new.tag = tag
    new.tagged = tagged
    new.ignorable = ignorable
    new.flexible = flexible
    return new


class Schema(NamedTuple):
    """The properties of a whole message; nested structs have none."""

    kind: str
    versions: str
    flexible: str
    api_key: int = -1


@dataclass_transform(field_specifiers=(field,))
class MessageType(type):
    """Turns the declared fields into slots, and lists them in order as `FIELDS`."""

    FIELDS: tuple[Field, ...]

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]
    ) -> "MessageType":
        fields = {key: value for key, value in namespace.items() if isinstance(value, Field)}
        for key, value in fields.items():
            value.name = key
            del namespace[key]
        namespace["__slots__"] = tuple(fields)
        namespace["FIELDS"] = tuple(fields.values())
        return super().__new__(mcs, name, bases, namespace)


class Message(metaclass=MessageType):
    """Base class of messages and their structs: data without methods."""

    SCHEMA: ClassVar[Schema]

    def __init__(self, *values: Any, **named: Any) -> None:
        cls = type(self)
        cls.__init__ = _compile_init(cls)  # type: ignore[method-assign]
        cls.__init__(self, *values, **named)

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in type(self).FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in type(self).FIELDS)
        return f"{type(self).__name__}({values})"


def _compile_init(cls: type[Message]) -> Callable[..., None]:
    """Generate `__init__` with a parameter per field; mutable defaults are not shared."""
    source = Source(absent=_ABSENT)
    parameters = ["self"]
    body = []
    for declared in cls.FIELDS:
        name = declared.name
        if declared.factory is None:
            parameters.append(f"{name}={source.constant(declared.default)}")
            body.append(f"self.{name} = {name}")
        else:
            parameters.append(f"{name}=absent")
            make = "[]" if declared.factory is list else f"{source.constant(declared.factory)}()"
            body.append(f"self.{name} = {make} if {name} is absent else {name}")
    with source.block(f"def __init__({', '.join(parameters)}):"):
        source.add(*body or ["pass"])
    return source.function("__init__", f"{cls.__qualname__}.__init__")


_ABSENT = object()
