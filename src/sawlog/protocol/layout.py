"""The layout of a message in one version: its fields and their encoding.

The codec compilers read layouts instead of version ranges.
"""

import struct
from functools import cache
from typing import NamedTuple

from sawlog.protocol.schema import Field, Message, parse_versions

FIXED = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
"""The `struct` codes and sizes of the types with a fixed size."""


class UnsupportedVersion(ValueError):
    """The message does not have this version."""


class FieldLayout(NamedTuple):
    """One field that exists in the version."""

    field: Field
    kind: str
    is_array: bool
    is_nullable: bool
    is_compact: bool
    is_tagged: bool
    struct: "StructLayout | None"

    @property
    def name(self) -> str:
        return self.field.name

    @property
    def element(self) -> "FieldLayout":
        """The layout of an array's element."""
        return self._replace(is_array=False, is_nullable=False)

    @property
    def length_code(self) -> str:
        """The `struct` code of a length or count that is not compact."""
        return "h" if self.kind == "string" and not self.is_array else "i"

    @property
    def minimum_size(self) -> int:
        if self.is_array or self.kind in {"string", "bytes", "records"}:
            return 1 if self.is_compact else 2 if self.length_code == "h" else 4
        if self.struct is None:
            return FIXED[self.kind][1]
        return 1 if self.is_nullable else self.struct.minimum_size


class StructLayout(NamedTuple):
    """A struct in one version: `tagged` fields are sorted by tag, `absent` ones do not exist."""

    cls: type[Message]
    present: tuple[FieldLayout, ...]
    tagged: tuple[FieldLayout, ...]
    absent: tuple[Field, ...]
    is_flexible: bool

    @property
    def minimum_size(self) -> int:
        return sum(each.minimum_size for each in self.present) + self.is_flexible

    @property
    def has_records(self) -> bool:
        return any(
            each.kind == "records" or (each.struct is not None and each.struct.has_records)
            for each in self.present
        )


def lay_out(cls: type[Message], version: int) -> StructLayout:
    """Return the layout of a message; UnsupportedVersion if it does not have the version."""
    if version not in parse_versions(cls.SCHEMA.versions):
        raise UnsupportedVersion(
            f"{cls.__name__} has versions {cls.SCHEMA.versions}, not {version}"
        )
    return _lay_out_struct(cls, version, version in parse_versions(cls.SCHEMA.flexible))


def _lay_out_struct(cls: type[Message], version: int, is_flexible: bool) -> StructLayout:
    present: list[FieldLayout] = []
    tagged: list[FieldLayout] = []
    absent: list[Field] = []
    for field in cls.FIELDS:
        if version not in parse_versions(field.versions):
            absent.append(field)
            continue
        layout = _lay_out_field(field, version, is_flexible)
        (tagged if layout.is_tagged else present).append(layout)
    tagged.sort(key=lambda each: each.field.tag)
    return StructLayout(cls, tuple(present), tuple(tagged), tuple(absent), is_flexible)


def _lay_out_field(field: Field, version: int, is_flexible: bool) -> FieldLayout:
    nested = None if field.of is None else _lay_out_struct(field.of, version, is_flexible)
    if field.flexible is not None:
        is_flexible = version in parse_versions(field.flexible)
    return FieldLayout(
        field,
        field.kind.removeprefix("[]"),
        field.kind.startswith("[]"),
        version in parse_versions(field.nullable),
        is_flexible,
        version in parse_versions(field.tagged),
        nested,
    )


@cache
def fused(codes: str) -> struct.Struct:
    """Return the Struct for a run of fields, shared by all codecs."""
    return struct.Struct(codes)
