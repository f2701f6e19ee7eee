"""UpdateRaftVoterRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class Listener(Message):
    name: str = field("string", "0+", default="")
    host: str = field("string", "0+", default="")
    port: int = field("uint16", "0+", default=0)


class KRaftVersionFeature(Message):
    min_supported_version: int = field("int16", "0+", default=0)
    max_supported_version: int = field("int16", "0+", default=0)


class UpdateRaftVoterRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=82)

    cluster_id: str | None = field("string", "0+", default="", nullable="0+")
    current_leader_epoch: int = field("int32", "0+", default=0)
    voter_id: int = field("int32", "0+", default=0)
    voter_directory_id: bytes = field("uuid", "0+", default=NO_UUID)
    listeners: list[Listener] = field("[]struct", "0+", default_factory=list, of=Listener)
    kraft_version_feature: KRaftVersionFeature = field(
        "struct", "0+", default_factory=KRaftVersionFeature, of=KRaftVersionFeature
    )
