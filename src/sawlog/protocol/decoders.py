"""Compiles the decoder of a message in a version into a single function.

Adjacent fields of fixed size, and the length or count that follows them, are read with one
`unpack_from`. Whatever the bytes, the function returns a message or raises MalformedFrame, and
allocates no more than a small multiple of the frame.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sawlog.core.errors import MalformedFrame
from sawlog.protocol.codec_source import Source
from sawlog.protocol.layout import FIXED, FieldLayout, StructLayout, fused
from sawlog.protocol.schema import Field, Message
from sawlog.protocol.wire_primitives import (
    MAX_ELEMENTS,
    MAX_REQUEST_ELEMENTS,
    MAX_STRING_BYTES,
    continue_uvarint,
    read_tag,
    skip_tags,
)


def compile_decoder(layout: StructLayout, version: int) -> Callable[[memoryview, int], Any]:
    return _DecoderCompiler(layout, version).compile()


class _DecoderCompiler:
    """In the compiled code `b` is the buffer, `p` the position, `end` the buffer's length, `left`
    the number of elements still allowed, and `n` the last length or count."""

    def __init__(self, layout: StructLayout, version: int) -> None:
        self.layout = layout
        self.title = f"{layout.cls.__name__} v{version}"
        self.keeps_views = layout.has_records
        self.run: list[tuple[str, str]] = []
        self.names = 0
        self.source = Source(
            MalformedFrame=MalformedFrame,
            continue_uvarint=continue_uvarint,
            read_tag=read_tag,
            skip_tags=skip_tags,
            unpack_from=struct.unpack_from,
            new=object.__new__,
            errors=(IndexError, struct.error, UnicodeDecodeError),
        )

    def compile(self) -> Callable[[memoryview, int], Any]:
        source = self.source
        with source.block("def decode(b, p):"):
            is_request = self.layout.cls.SCHEMA.kind == "request"
            limit = MAX_REQUEST_ELEMENTS if is_request else MAX_ELEMENTS
            source.add("end = len(b)", f"left = {limit}")
            if not self.keeps_views:
                source.add("b = b.tobytes()")
            with source.block("try:"):
                message = self.struct(self.layout)
                self.flush()
                source.add(f"return {message}, p")
            with source.block("except MalformedFrame as error:"):
                source.add(f"raise MalformedFrame(f'{self.title}: {{error}}') from None")
            with source.block("except errors as error:"):
                source.add(f"raise MalformedFrame(f'{self.title}: {{error}}') from None")
        return source.function("decode", f"decoder of {self.title}")

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}_{self.names}"

    def read(self, code: str, target: str) -> None:
        """Add a fixed field to the run that the next `flush` reads at once."""
        self.run.append((code, target))

    def flush(self) -> None:
        if not self.run:
            return
        codes = ">" + "".join(code for code, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        if codes == ">B":
            self.source.add(f"{targets} = b[p]", "p += 1")
        else:
            unpack = self.source.constant(fused(codes).unpack_from)
            comma = "," if len(self.run) == 1 else ""
            self.source.add(f"{targets}{comma} = {unpack}(b, p)")
            self.source.add(f"p += {struct.calcsize(codes)}")
        self.run.clear()

    def reject_if(self, condition: str, reason: str) -> None:
        with self.source.block(f"if {condition}:"):
            self.source.add(f"raise MalformedFrame({reason})")

    def struct(self, layout: StructLayout) -> str:
        """Emit code that reads a struct; return the name of its variable."""
        variable = self.name("o")
        self.source.add(f"{variable} = new({self.source.constant(layout.cls)})")
        for absent in layout.absent:
            self.default(f"{variable}.{absent.name}", absent)
        for each in layout.tagged:
            self.default(f"{variable}.{each.name}", each.field)
        for each in layout.present:
            self.value(each, f"{variable}.{each.name}")
        if layout.is_flexible:
            self.tags(layout, variable)
        return variable

    def default(self, target: str, field: Field) -> None:
        if field.factory is None:
            self.source.add(f"{target} = {self.source.constant(field.default)}")
        elif field.of is None or field.factory is list:
            self.source.add(f"{target} = []")
        else:
            self.source.add(f"{target} = {self.default_struct(field.of)}")

    def default_struct(self, cls: type[Message]) -> str:
        variable = self.name("o")
        self.source.add(f"{variable} = new({self.source.constant(cls)})")
        for field in cls.FIELDS:
            self.default(f"{variable}.{field.name}", field)
        return variable

    def value(self, layout: FieldLayout, target: str) -> None:
        if layout.is_array:
            self.array(layout, target)
        elif layout.kind in FIXED:
            self.read(FIXED[layout.kind][0], target)
        elif layout.struct is not None:
            self.nested(layout, layout.struct, target)
        else:
            self.blob(layout, target)

    def nested(self, layout: FieldLayout, struct_layout: StructLayout, target: str) -> None:
        if not layout.is_nullable:
            self.source.add(f"{target} = {self.struct(struct_layout)}")
            return
        self.read("b", "n")
        self.flush()
        # A null marker precedes the struct; in a tagged field null is 0 or below.
        is_null = "n <= 0" if layout.is_tagged else "n < 0"
        with self.source.block(f"if {is_null}:"):
            self.source.add(f"{target} = None")
        with self.source.block("else:"):
            variable = self.struct(struct_layout)
            self.flush()
            self.source.add(f"{target} = {variable}")

    def length(self, layout: FieldLayout) -> None:
        """Emit code that reads a length or count into `n`; negative for null."""
        self.read("B" if layout.is_compact else layout.length_code, "n")
        self.flush()
        if layout.is_compact:
            with self.source.block("if n > 127:"):
                self.source.add("n, p = continue_uvarint(b, p, n)")
            self.source.add("n -= 1")

    @contextmanager
    def unless_null(self, layout: FieldLayout, target: str) -> Iterator[None]:
        """Emit the handling of null; the code emitted inside is for other values."""
        if not layout.is_nullable:
            self.reject_if("n < 0", f"'{layout.name} must not be null'")
            yield
            return
        with self.source.block("if n < 0:"):
            self.source.add(f"{target} = None")
        with self.source.block("else:"):
            yield

    def blob(self, layout: FieldLayout, target: str) -> None:
        """Emit code for a string, bytes or records; lengths are checked before copying."""
        self.length(layout)
        taken = "b[p:q]"
        if layout.kind != "records" and self.keeps_views:
            taken += ".tobytes()"
        if layout.kind == "string":
            taken += ".decode()"
        with self.unless_null(layout, target):
            self.source.add("q = p + n")
            condition = "q > end"
            if layout.kind == "string" and layout.is_compact:
                condition += f" or n > {MAX_STRING_BYTES}"
            self.reject_if(
                condition, f"f'{layout.name}: invalid length {{n}}, {{end - p}} bytes are left'"
            )
            self.source.add(f"{target} = {taken}", "p = q")

    def array(self, layout: FieldLayout, target: str) -> None:
        self.length(layout)
        element = layout.element
        size = max(1, element.minimum_size)
        with self.unless_null(layout, target):
            self.source.add("left -= n")
            self.reject_if(
                f"n * {size} > end - p or left < 0",
                f"f'{layout.name}: too many elements, {{n}} in {{end - p}} bytes'",
            )
            if element.kind == "uuid":
                copy = ".tobytes()" if self.keeps_views else ""
                self.source.add(f"{target} = [b[i:i + 16]{copy} for i in range(p, p + n * 16, 16)]")
                self.source.add("p += n * 16")
            elif element.kind in FIXED:
                code, size = FIXED[element.kind]
                self.source.add(f"{target} = list(unpack_from(f'>{{n}}{code}', b, p))")
                self.source.add(f"p += n * {size}")
            else:
                self.elements(element, target)

    def elements(self, element: FieldLayout, target: str) -> None:
        """Emit a loop over elements that are structs or have a length of their own."""
        variable = self.name("a")
        self.source.add(f"{target} = {variable} = []")
        with self.source.block("for _ in range(n):"):
            if element.struct is None:
                item = self.name("e")
                self.blob(element, item)
            else:
                item = self.struct(element.struct)
                self.flush()
            self.source.add(f"{variable}.append({item})")

    def tags(self, layout: StructLayout, variable: str) -> None:
        """Emit code for the tagged fields at the end of a struct; usually there are none."""
        self.read("B", "n")
        self.flush()
        with self.source.block("if n:"):
            with self.source.block("if n > 127:"):
                self.source.add("n, p = continue_uvarint(b, p, n)")
            self.source.add("left -= n")
            self.reject_if(
                "n * 2 > end - p or left < 0",
                "f'too many tagged fields, {n} in {end - p} bytes'",
            )
            if not layout.tagged:
                self.source.add("p = skip_tags(b, p, n)")
                return
            tag, stop = self.name("tag"), self.name("stop")
            self.source.add(f"{tag} = -1")
            with self.source.block("for _ in range(n):"):
                self.source.add(f"{tag}, p, {stop} = read_tag(b, p, {tag})")
                self.known_tags(layout, variable, tag, stop)

    def known_tags(self, layout: StructLayout, variable: str, tag: str, stop: str) -> None:
        keyword = "if"
        for each in layout.tagged:
            with self.source.block(f"{keyword} {tag} == {each.field.tag}:"):
                self.value(each, f"{variable}.{each.name}")
                self.flush()
                self.reject_if(f"p != {stop}", f"'{each.name}: its size differs from its tag'")
            keyword = "elif"
        with self.source.block("else:"):
            self.source.add(f"p = {stop}")
