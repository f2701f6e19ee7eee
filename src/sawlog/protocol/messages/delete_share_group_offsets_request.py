"""DeleteShareGroupOffsetsRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class DeleteShareGroupOffsetsRequestTopic(Message):
    topic_name: str = field("string", "0+", default="")


class DeleteShareGroupOffsetsRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0", "0+", api_key=92)

    group_id: str = field("string", "0+", default="")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(
        "[]struct", "0+", default_factory=list, of=DeleteShareGroupOffsetsRequestTopic
    )
