"""Protobuf messages for tests, built without protoc."""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass

_TYPES = {
    name.removeprefix("TYPE_").lower(): number for name, number in FieldDescriptorProto.Type.items()
}


def message(
    name: str, *fields: FieldDescriptorProto, **more: Any
) -> descriptor_pb2.DescriptorProto:
    """A message; `more` are nested types, enums and oneofs."""
    return descriptor_pb2.DescriptorProto(name=name, field=fields, **more)


def field(name: str, number: int, type_: str, **more: Any) -> FieldDescriptorProto:
    """A field; a type with a dot in front is that of a message, with `=` in front of an enum.

    `repeated` stands before the type: `repeated int32`.
    """
    is_repeated = type_.startswith("repeated ")
    type_ = type_.removeprefix("repeated ")
    label = (
        FieldDescriptorProto.LABEL_REPEATED if is_repeated else FieldDescriptorProto.LABEL_OPTIONAL
    )
    made = FieldDescriptorProto(name=name, number=number, label=label, **more)
    if type_.startswith("."):
        made.type, made.type_name = FieldDescriptorProto.TYPE_MESSAGE, type_
    elif type_.startswith("="):
        made.type, made.type_name = FieldDescriptorProto.TYPE_ENUM, type_[1:]
    else:
        made.type = _TYPES[type_]
    return made


def optional(name: str, number: int, type_: str, oneof: int) -> FieldDescriptorProto:
    """A field of proto3 with the word `optional`; its message needs a oneof for it."""
    return field(name, number, type_, proto3_optional=True, oneof_index=oneof)


def oneofs(*names: str) -> list[descriptor_pb2.OneofDescriptorProto]:
    return [descriptor_pb2.OneofDescriptorProto(name=name) for name in names]


def map_field(
    owner: str, name: str, number: int, key: str, value: str
) -> tuple[FieldDescriptorProto, descriptor_pb2.DescriptorProto]:
    """A map: its field, and the entry that its message needs as a nested type."""
    entry = message(f"{name.title()}Entry", field("key", 1, key), field("value", 2, value))
    entry.options.map_entry = True
    return field(name, number, f"repeated {owner}.{entry.name}"), entry


def proto_file(
    name: str, package: str, *messages: descriptor_pb2.DescriptorProto, **more: Any
) -> FileDescriptorProto:
    """A file of proto3; `more` are dependencies and enums."""
    return FileDescriptorProto(
        name=name, package=package, syntax="proto3", message_type=messages, **more
    )


def message_class(type_name: str, *files: FileDescriptorProto) -> Any:
    """The class of a message of these files, each behind those it imports."""
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(type_name))


def descriptor_set(*files: FileDescriptorProto) -> bytes:
    """What `protoc --include_imports --descriptor_set_out` writes."""
    return descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()
