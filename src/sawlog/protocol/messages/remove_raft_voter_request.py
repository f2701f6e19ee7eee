"""RemoveRaftVoterRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class RemoveRaftVoterRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=81)

    cluster_id: str | None = field("string", "0+", default="", nullable="0+")
    voter_id: int = field("int32", "0+", default=0)
    voter_directory_id: bytes = field("uuid", "0+", default=NO_UUID)
