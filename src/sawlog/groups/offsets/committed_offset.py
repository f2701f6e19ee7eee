"""A committed offset."""

from typing import NamedTuple

from sawlog.protocol.schema import NO_UUID

NO_TIME = -1


class CommittedOffset(NamedTuple):
    """The next offset that a group reads in one partition."""

    offset: int
    leader_epoch: int  # -1: unknown
    metadata: str
    commit_ms: int
    expire_ms: int = (
        NO_TIME  # set by clients before OffsetCommit 5; else offsets.retention.minutes applies
    )
    topic_id: bytes = NO_UUID  # NO_UUID: committed before topics had ids
