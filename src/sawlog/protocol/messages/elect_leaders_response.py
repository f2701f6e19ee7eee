"""ElectLeadersResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class PartitionResult(Message):
    partition_id: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")


class ReplicaElectionResult(Message):
    topic: str = field("string", "0+", default="")
    partition_result: list[PartitionResult] = field(
        "[]struct", "0+", default_factory=list, of=PartitionResult
    )


class ElectLeadersResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-2", "2+", api_key=43)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = field(
        "[]struct", "0+", default_factory=list, of=ReplicaElectionResult
    )
