"""Compiles the encoder of a message in a version into a single function, as `decoders` does.

Adjacent fields of fixed size, and the length or count that follows them, are written with one
`pack`. The result is one bytes object, or parts in which record batches are not copied.
"""

import struct
from collections.abc import Callable
from typing import Any

from sawlog.core.ports import FileSlice
from sawlog.protocol.codec_source import Source
from sawlog.protocol.layout import FIXED, FieldLayout, StructLayout, fused
from sawlog.protocol.schema import Field
from sawlog.protocol.wire_primitives import NotEncodable, UnsupportedField, string_length, uvarint


def compile_encoder(layout: StructLayout, version: int, *, in_parts: bool) -> Callable[[Any], Any]:
    return _EncoderCompiler(layout, version, in_parts=in_parts).compile()


class _EncoderCompiler:
    """In the compiled code `write` appends bytes to `out`, `v` is the value being written and `n`
    its length or count on the wire."""

    def __init__(self, layout: StructLayout, version: int, *, in_parts: bool) -> None:
        self.layout = layout
        self.title = f"{layout.cls.__name__} v{version}"
        self.in_parts = in_parts
        self.run: list[tuple[str, str]] = []
        self.names = 0
        self.source = Source(
            FileSlice=FileSlice,
            NotEncodable=NotEncodable,
            UnsupportedField=UnsupportedField,
            join=b"".join,
            pack=struct.pack,
            string_length=string_length,
            uvarint=uvarint,
            errors=(struct.error, AttributeError, TypeError),
        )

    def compile(self) -> Callable[[Any], Any]:
        source = self.source
        with source.block("def encode(m):"):
            source.add("out = []", "write = out.append")
            if self.in_parts:
                source.add("parts = []")
            with source.block("try:"):
                self.struct(self.layout, "m")
                self.flush()
                if self.in_parts:
                    with source.block("if out:"):
                        source.add("parts.append(join(out))")
                    source.add("return parts")
                else:
                    source.add("return join(out)")
            with source.block("except errors as error:"):
                source.add(f"raise NotEncodable(f'{self.title}: {{error}}') from error")
        kind = "parts encoder" if self.in_parts else "encoder"
        return source.function("encode", f"{kind} of {self.title}")

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}_{self.names}"

    def packed(self, run: list[tuple[str, str]]) -> None:
        """Emit the write of a run of fields; a pad byte has no expression and writes zero."""
        codes = ">" + "".join(code for code, _ in run)
        values = ", ".join(value for _, value in run if value)
        if codes.strip(">x"):
            self.source.add(f"write({self.source.constant(fused(codes).pack)}({values}))")
        elif run:
            self.source.add(f"write({bytes(len(run))!r})")

    def flush(self) -> None:
        self.packed(self.run)
        self.run = []

    def struct(self, layout: StructLayout, variable: str) -> None:
        for absent in layout.absent:
            if not absent.ignorable:
                self.reject_unless_default(absent, f"{variable}.{absent.name}")
        for each in layout.present:
            self.value(each, f"{variable}.{each.name}")
        if layout.is_flexible:
            self.tags(layout, variable)

    def reject_unless_default(self, field: Field, expression: str) -> None:
        with self.source.block(f"if {self.differs(field, expression)}:"):
            self.source.add(f"raise UnsupportedField('{self.title} has no field {field.name}')")

    def differs(self, field: Field, expression: str) -> str:
        """Return a condition that is true if the value is not the field's default."""
        if field.factory is None:
            if field.default is None:
                return f"{expression} is not None"
            return f"{expression} != {self.source.constant(field.default)}"
        if field.of is None or field.factory is list:
            return f"({expression} is None or {expression})" if field.nullable else expression
        nested = (self.differs(each, f"{expression}.{each.name}") for each in field.of.FIELDS)
        return f"({' or '.join(nested)})"

    def value(self, layout: FieldLayout, expression: str) -> None:
        if layout.is_array:
            self.array(layout, expression)
        elif layout.kind in FIXED:
            self.run.append((FIXED[layout.kind][0], expression))
        elif layout.kind == "records":
            self.records(layout, expression)
        elif layout.struct is not None:
            self.nested(layout, layout.struct, expression)
        else:
            self.blob(layout, expression)

    def nested(self, layout: FieldLayout, struct_layout: StructLayout, expression: str) -> None:
        variable = self.name("s")
        self.source.add(f"{variable} = {expression}")
        if not layout.is_nullable:
            self.struct(struct_layout, variable)
            return
        self.flush()
        with self.source.block(f"if {variable} is None:"):
            self.packed([("b", "0" if layout.is_tagged else "-1")])
        with self.source.block("else:"):
            self.run.append(("b", "1"))
            self.struct(struct_layout, variable)
            self.flush()

    def measure(self, layout: FieldLayout, length: str, empty: str, *preparation: str) -> None:
        """Emit code that sets `n` to the length on the wire, and a null `v` to `empty`."""
        present = [*preparation, f"n = {length} + 1" if layout.is_compact else f"n = {length}"]
        if not layout.is_nullable:
            self.source.add(*present)
            return
        with self.source.block("if v is None:"):
            self.source.add(f"v = {empty}", "n = 0" if layout.is_compact else "n = -1")
        with self.source.block("else:"):
            self.source.add(*present)

    def length(self, layout: FieldLayout) -> None:
        """Emit the write of `n` together with the run before it."""
        if not layout.is_compact:
            self.run.append((layout.length_code, "n"))
            self.flush()
            return
        with self.source.block("if n < 128:"):
            self.packed([*self.run, ("B", "n")])
        with self.source.block("else:"):
            self.flush()
            is_string = layout.kind == "string" and not layout.is_array
            self.source.add(f"write({'string_length' if is_string else 'uvarint'}(n))")

    def blob(self, layout: FieldLayout, expression: str) -> None:
        self.source.add(f"v = {expression}")
        encode = ("v = v.encode()",) if layout.kind == "string" else ()
        self.measure(layout, "len(v)", "b''", *encode)
        self.length(layout)
        self.source.add("write(v)")

    def records(self, layout: FieldLayout, expression: str) -> None:
        """Emit the write of record batches; file slices and views become parts of their own."""
        self.source.add(f"v = {expression}")
        self.measure(layout, "(v.length if v.__class__ is FileSlice else len(v))", "b''")
        self.length(layout)
        if not self.in_parts:
            self.source.add("write(v.read() if v.__class__ is FileSlice else v)")
            return
        with self.source.block("if v.__class__ is bytes:"):
            self.source.add("write(v)")
        with self.source.block(f"elif n > {1 if layout.is_compact else 0}:"):
            self.source.add("parts.append(join(out))", "out.clear()", "parts.append(v)")

    def array(self, layout: FieldLayout, expression: str) -> None:
        element = layout.element
        self.source.add(f"v = {expression}")
        self.measure(layout, "len(v)", "()")
        self.length(layout)
        if element.kind in FIXED:
            code = FIXED[element.kind][0]
            with self.source.block("if v:"):
                self.source.add(f"write(pack('>' + '{code}' * len(v), *v))")
            return
        variable = self.name("e")
        with self.source.block(f"for {variable} in v:"):
            if element.struct is None:
                self.blob(element, variable)
            else:
                self.struct(element.struct, variable)
            self.flush()

    def tags(self, layout: StructLayout, variable: str) -> None:
        """Emit the tagged fields at the end of a struct that differ from their defaults."""
        if not layout.tagged:
            self.run.append(("x", ""))
            return
        conditions = [self.differs(each.field, f"{variable}.{each.name}") for each in layout.tagged]
        run = self.run
        with self.source.block(f"if {' or '.join(conditions)}:"):
            self.flush()
            self.written_tags(layout, variable, conditions)
        with self.source.block("else:"):
            self.packed([*run, ("x", "")])

    def written_tags(self, layout: StructLayout, variable: str, conditions: list[str]) -> None:
        """Emit each tagged value into a buffer first, because its size precedes it."""
        tags, value_bytes, outer = self.name("tags"), self.name("value_bytes"), self.name("write")
        self.source.add(f"{tags} = []", f"{outer} = write")
        for each, condition in zip(layout.tagged, conditions, strict=True):
            with self.source.block(f"if {condition}:"):
                self.source.add(f"{value_bytes} = []", f"write = {value_bytes}.append")
                self.value(each, f"{variable}.{each.name}")
                self.flush()
                self.source.add(f"{value_bytes} = join({value_bytes})")
                tag = uvarint(each.field.tag)
                self.source.add(
                    f"{tags}.append({tag!r} + uvarint(len({value_bytes})) + {value_bytes})"
                )
        self.source.add(f"write = {outer}", f"write(uvarint(len({tags})))", f"write(join({tags}))")
