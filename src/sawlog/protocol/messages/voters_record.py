"""VotersRecord: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class Endpoint(Message):
    name: str = field("string", "0+", default="")
    host: str = field("string", "0+", default="")
    port: int = field("uint16", "0+", default=0)


class KRaftVersionFeature(Message):
    min_supported_version: int = field("int16", "0+", default=0)
    max_supported_version: int = field("int16", "0+", default=0)


class Voter(Message):
    voter_id: int = field("int32", "0+", default=0)
    voter_directory_id: bytes = field("uuid", "0+", default=NO_UUID)
    endpoints: list[Endpoint] = field("[]struct", "0+", default_factory=list, of=Endpoint)
    kraft_version_feature: KRaftVersionFeature = field(
        "struct", "0+", default_factory=KRaftVersionFeature, of=KRaftVersionFeature
    )


class VotersRecord(Message):
    SCHEMA: ClassVar[Schema] = Schema("data", "0", "0+")

    version: int = field("int16", "0+", default=0)
    voters: list[Voter] = field("[]struct", "0+", default_factory=list, of=Voter)
