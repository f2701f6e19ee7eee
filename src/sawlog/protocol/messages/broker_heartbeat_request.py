"""BrokerHeartbeatRequest: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class BrokerHeartbeatRequest(Message):
    SCHEMA: ClassVar[Schema] = Schema("request", "0-2", "0+", api_key=63)

    broker_id: int = field("int32", "0+", default=0)
    broker_epoch: int = field("int64", "0+", default=-1)
    current_metadata_offset: int = field("int64", "0+", default=0)
    want_fence: bool = field("bool", "0+", default=False)
    want_shut_down: bool = field("bool", "0+", default=False)
    offline_log_dirs: list[bytes] = field("[]uuid", "1+", default_factory=list, tag=0, tagged="1+")
    cordoned_log_dirs: list[bytes] | None = field(
        "[]uuid", "2+", default=None, nullable="2+", tag=1, tagged="2+"
    )
