"""AlterReplicaLogDirsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class AlterReplicaLogDirTopic(Message):
    name: str = field("string", "0+", default="")
    partitions: list[int] = field("[]int32", "0+", default_factory=list)


class AlterReplicaLogDir(Message):
    path: str = field("string", "0+", default="")
    topics: list[AlterReplicaLogDirTopic] = field(
        "[]struct", "0+", default_factory=list, of=AlterReplicaLogDirTopic
    )


class AlterReplicaLogDirsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "1-2", "2+", api_key=34)

    dirs: list[AlterReplicaLogDir] = field(
        "[]struct", "0+", default_factory=list, of=AlterReplicaLogDir
    )
