"""AddRaftVoterRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class Listener(Message):
    name: str = field("string", "0+", default="")
    host: str = field("string", "0+", default="")
    port: int = field("uint16", "0+", default=0)


class AddRaftVoterRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-1", "0+", api_key=80)

    cluster_id: str | None = field("string", "0+", default="", nullable="0+")
    timeout_ms: int = field("int32", "0+", default=0)
    voter_id: int = field("int32", "0+", default=0)
    voter_directory_id: bytes = field("uuid", "0+", default=NO_UUID)
    listeners: list[Listener] = field("[]struct", "0+", default_factory=list, of=Listener)
    ack_when_committed: bool = field("bool", "1+", default=True)
