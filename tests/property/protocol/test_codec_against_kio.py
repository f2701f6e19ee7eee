"""The codec against kio, another implementation of the protocol, in both directions."""

from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from io import BytesIO
from random import Random
from typing import Any
from uuid import UUID

import pytest
from kio.index import UnknownEntity, load_entity_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from sawlog.protocol.codec import decode, encode
from sawlog.protocol.layout import FieldLayout, StructLayout, lay_out
from sawlog.protocol.schema import NO_UUID, Message
from support.protocol.messages import all_messages, random_message, versions_of
from tools.generate_messages import OWN_TAG

VALUES_PER_VERSION = 5
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def kio_class(cls: type[Message], version: int) -> Any:
    kind = cls.SCHEMA.kind
    name = cls.__module__.rpartition(".")[2].replace("kraft", "k_raft")
    if kind in {"request", "response"}:
        name = name.removesuffix(f"_{kind}")
    return load_entity_schema(name, version, EntityType[kind])


def from_kio(layout: StructLayout, entity: Any) -> Message:
    """Convert a message of kio."""
    message = layout.cls()
    for field in (*layout.present, *layout.tagged):
        if field.field.tag >= OWN_TAG:
            continue  # kio rejects tags that it does not know
        value = getattr(entity, kio_name(field.name, entity))
        setattr(message, field.name, plain(field, value))
    return message


def forget_own_fields(layout: StructLayout, message: Any) -> None:
    """Reset the fields that only Sawlog knows, in the message and in all its structs."""
    for field in (*layout.present, *layout.tagged):
        value = getattr(message, field.name)
        if field.field.tag >= OWN_TAG:
            setattr(message, field.name, field.field.default)
        elif field.struct is not None and value is not None:
            for each in value if field.is_array else [value]:
                forget_own_fields(field.struct, each)


def kio_name(name: str, entity: Any) -> str:
    """Return kio's name of a field: without the unit of a time, and some renamed."""
    theirs = {each.name for each in fields(entity)}
    spellings = (
        name,
        name.removesuffix("_ms"),
        f"{name}_",
        name.replace("kraft", "k_raft"),
        name.removesuffix("_or_member_epoch"),  # these two were renamed in Kafka 4.4
        name.removesuffix("_legacy"),
    )
    return next(spelling for spelling in spellings if spelling in theirs)


def plain(field: FieldLayout, value: Any) -> Any:
    if isinstance(value, tuple):
        return [plain(field.element, each) for each in value]
    if is_dataclass(value):
        assert field.struct is not None
        return from_kio(field.struct, value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, timedelta):
        return value // MILLISECOND
    if isinstance(value, datetime):
        return (value - EPOCH) // MILLISECOND
    if isinstance(value, UUID):
        return value.bytes
    if value is None and field.kind == "uuid" and not field.is_array:
        return NO_UUID
    if value is None and field.kind == "int64":
        return -1  # kio's null timestamp
    return value


NEWER = {
    "AbortedTxn": 0,
    "ApiVersionsRequest": 5,
    "ApiVersionsResponse": 5,
    "DeleteGroupsRequest": 3,
    "DeleteGroupsResponse": 3,
    "StreamsGroupDescribeRequest": 1,
    "StreamsGroupDescribeResponse": 1,
    "StreamsGroupHeartbeatRequest": 1,
    "StreamsGroupHeartbeatResponse": 1,
    "StreamsGroupTopologyDescriptionUpdateRequest": 0,
    "StreamsGroupTopologyDescriptionUpdateResponse": 0,
    "TxnOffsetCommitRequest": 6,
    "TxnOffsetCommitResponse": 6,
    "UnregisterControllerRequest": 0,
    "UnregisterControllerResponse": 0,
}
"""The first version of Kafka 4.4 of each message that kio does not know yet."""

KNOWN_TO_KIO = [cls for cls in all_messages() if not cls.SCHEMA.kind.startswith("coordinator-")]


@pytest.mark.parametrize("cls", KNOWN_TO_KIO, ids=lambda cls: cls.__name__)
def test_messages_round_trip_through_kio(cls: type[Message]) -> None:
    for version in versions_of(cls):
        layout = lay_out(cls, version)
        if version >= NEWER.get(cls.__name__, version + 1):
            with pytest.raises(UnknownEntity):
                kio_class(cls, version)
            continue
        theirs = kio_class(cls, version)
        read, write = entity_reader(theirs), entity_writer(theirs)
        random = Random(f"{cls.__name__} {version}")
        for _ in range(VALUES_PER_VERSION):
            message = random_message(cls, version, random)
            forget_own_fields(layout, message)
            encoded = encode(message, version)
            entity, size = read(encoded, 0)
            assert size == len(encoded)
            assert from_kio(layout, entity) == message
            written = BytesIO()
            write(written, entity)
            assert decode(cls, version, written.getvalue()) == message
