"""ControllerRegistrationRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class Listener(Message):
    name: str = field("string", "0+", default="")
    host: str = field("string", "0+", default="")
    port: int = field("uint16", "0+", default=0)
    security_protocol: int = field("int16", "0+", default=0)


class Feature(Message):
    name: str = field("string", "0+", default="")
    min_supported_version: int = field("int16", "0+", default=0)
    max_supported_version: int = field("int16", "0+", default=0)


class ControllerRegistrationRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=70)

    controller_id: int = field("int32", "0+", default=0)
    incarnation_id: bytes = field("uuid", "0+", default=NO_UUID)
    zk_migration_ready: bool = field("bool", "0+", default=False)
    listeners: list[Listener] = field("[]struct", "0+", default_factory=list, of=Listener)
    features: list[Feature] = field("[]struct", "0+", default_factory=list, of=Feature)
