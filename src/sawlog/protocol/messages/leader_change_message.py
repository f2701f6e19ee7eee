"""LeaderChangeMessage: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import NO_UUID, Message, Schema, field


class Voter(Message):
    voter_id: int = field("int32", "0+", default=0)
    voter_directory_id: bytes = field("uuid", "1+", default=NO_UUID)


class LeaderChangeMessage(Message):
    SCHEMA: ClassVar[Schema] = Schema("data", "0-1", "0+")

    version: int = field("int16", "0+", default=0)
    leader_id: int = field("int32", "0+", default=0)
    voters: list[Voter] = field("[]struct", "0+", default_factory=list, of=Voter)
    granting_voters: list[Voter] = field("[]struct", "0+", default_factory=list, of=Voter)
