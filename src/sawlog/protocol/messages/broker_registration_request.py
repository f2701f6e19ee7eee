"""BrokerRegistrationRequest: written by tools/generate_messages.py, not by hand."""

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


class BrokerRegistrationRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-4", "0+", api_key=62)

    broker_id: int = field("int32", "0+", default=0)
    cluster_id: str = field("string", "0+", default="")
    incarnation_id: bytes = field("uuid", "0+", default=NO_UUID)
    listeners: list[Listener] = field("[]struct", "0+", default_factory=list, of=Listener)
    features: list[Feature] = field("[]struct", "0+", default_factory=list, of=Feature)
    rack: str | None = field("string", "0+", default="", nullable="0+")
    is_migrating_zk_broker: bool = field("bool", "1+", default=False)
    log_dirs: list[bytes] = field("[]uuid", "2+", default_factory=list, ignorable=True)
    previous_broker_epoch: int = field("int64", "3+", default=-1, ignorable=True)
