"""UpdateRaftVoterResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class CurrentLeader(Message):
    leader_id: int = field("int32", "0+", default=-1)
    leader_epoch: int = field("int32", "0+", default=-1)
    host: str = field("string", "0+", default="")
    port: int = field("int32", "0+", default=0)


class UpdateRaftVoterResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0", "0+", api_key=82)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    current_leader: CurrentLeader = field(
        "struct", "0+", default_factory=CurrentLeader, of=CurrentLeader, tag=0, tagged="0+"
    )
