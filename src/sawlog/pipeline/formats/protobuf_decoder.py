"""Decodes Protobuf messages of one type to columns, by Google's protobuf (upb, which is compiled).

The type comes from descriptors: those of a file that `protoc --include_imports
--descriptor_set_out` wrote, or those that a schema registry has.
"""

import base64
import binascii
import re
from collections.abc import Collection, Iterable, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from sawlog.pipeline.formats.decoded import Decoded
from sawlog.pipeline.formats.parsed import FormatError
from sawlog.pipeline.formats.protobuf_columns import message_columns
from sawlog.pipeline.registry.registry_client import RegisteredSchema

_KNOWN = re.compile(r"(google/(?:protobuf|type)/[a-z_]+)\.proto")
_MAIN = "sawlog_main.proto"
_ARROW_ERRORS = (pa.ArrowException, OverflowError, TypeError, ValueError)


class ProtobufDecoder:
    """Decodes messages; raises FormatError if a table cannot have the message's columns.

    With `only` the others of its columns are left out; names ignore case.
    """

    def __init__(self, descriptor: Descriptor, only: Collection[str] | None = None) -> None:
        self._class = GetMessageClass(descriptor)
        self._fields = message_columns(descriptor).fields
        if only is not None:
            wanted = {name.lower() for name in only}
            self._fields = [one for one in self._fields if one.name.lower() in wanted]
        self.columns = pa.schema([pa.field(one.name, one.column.type) for one in self._fields])

    def decode(self, payloads: Sequence[bytes]) -> Decoded:
        messages: list[Any] = []
        bad: dict[int, str] = {}
        parse = self._class.FromString
        for row, payload in enumerate(payloads):
            try:
                messages.append(parse(payload))
            except DecodeError as error:
                bad[row] = f"not such a Protobuf message: {error}"
        try:
            return Decoded(self._batch(messages), bad)
        except _ARROW_ERRORS:
            return self._one_by_one(payloads, bad)

    def _one_by_one(self, payloads: Sequence[bytes], bad: dict[int, str]) -> Decoded:
        """Find the messages that have no place in the columns."""
        messages: list[Any] = []
        for row, payload in enumerate(payloads):
            if row in bad:
                continue
            message = self._class.FromString(payload)
            try:
                self._batch([message])
                messages.append(message)
            except _ARROW_ERRORS as error:
                bad[row] = self._reason(message, error)
        return Decoded(self._batch(messages), bad)

    def _reason(self, message: Any, error: Exception) -> str:
        for field in self._fields:
            try:
                field.array([message])
            except _ARROW_ERRORS as wrong:
                return f"field {field.name}: {wrong}"
        return str(error)

    def _batch(self, messages: Sequence[Any]) -> pa.RecordBatch:
        arrays = [field.array(messages) for field in self._fields]
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns)


def message_of_file(data: bytes, message: str) -> Descriptor:
    """A message of a descriptor set; without a name the only one of its last file.

    Raises FormatError.
    """
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(data).file
    except DecodeError as error:
        raise FormatError(
            "not a descriptor set: write it with protoc --include_imports --descriptor_set_out=FILE"
        ) from error
    if not files:
        raise FormatError("the descriptor set has no files")
    pool = _pool(files)
    if not message:
        last = [one.name for one in files[-1].message_type]
        if len(last) != 1:
            raise FormatError(
                f"{files[-1].name} has {len(last)} messages: name one with the option message:"
                f" {', '.join(last[:10])}"
            )
        message = f"{files[-1].package}.{last[0]}".lstrip(".")
    try:
        return pool.FindMessageTypeByName(message)
    except KeyError:
        raise FormatError(f"the descriptor set has no message {message!r}") from None


def message_of_schema(schema: RegisteredSchema, indexes: Sequence[int]) -> Descriptor:
    """The message at a place in a registered file. Raises FormatError."""
    files = [_file(one.text, one.name) for one in schema.references]
    pool = _pool([*files, _file(schema.text, _MAIN)])
    found: Any = None
    types: Sequence[Any] = list(pool.FindFileByName(_MAIN).message_types_by_name.values())
    for index in indexes:
        if index >= len(types):
            raise FormatError(f"the schema has no message at {list(indexes)}")
        found = types[index]
        types = found.nested_types
    return found


def _file(text: str, name: str) -> descriptor_pb2.FileDescriptorProto:
    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError) as error:
        raise FormatError(
            "the registry sends no Protobuf descriptor: it must know format=serialized"
        ) from error
    file.name = name
    return file


def _pool(files: Iterable[descriptor_pb2.FileDescriptorProto]) -> descriptor_pool.DescriptorPool:
    """A pool with these files and those that every installation of Protobuf has."""
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()
    try:
        for file in files:
            for name in file.dependency:
                _add_known(pool, name, added)
            if file.name not in added:
                pool.AddSerializedFile(file.SerializeToString())
                added.add(file.name)
        for name in added:
            pool.FindFileByName(name)  # checks that all types are there
    except (TypeError, KeyError) as error:
        raise FormatError(f"the Protobuf descriptors do not fit together: {error}") from error
    return pool


def _add_known(pool: descriptor_pool.DescriptorPool, name: str, added: set[str]) -> None:
    """Add a file of Google's own, which serializers do not register."""
    match = _KNOWN.fullmatch(name)
    if match is None or name in added:
        return
    try:
        file = import_module(f"{match[1].replace('/', '.')}_pb2").DESCRIPTOR
    except ImportError:
        return  # it may be one of the files that follow
    for other in file.dependencies:
        _add_known(pool, other.name, added)
    pool.AddSerializedFile(file.serialized_pb)
    added.add(name)
