"""One committed offset, with all that is kept of it."""

from typing import NamedTuple

from sawlog.protocol.schema import NO_UUID

NO_TIME = -1


class Committed(NamedTuple):
    """What a group said of one partition: the next offset that it wants to read."""

    offset: int
    leader_epoch: int  # -1: not told
    metadata: str
    commit_ms: int
    expire_ms: int = NO_TIME  # as an old client wished; else the broker's retention counts
    topic_id: bytes = NO_UUID  # none: committed before topics had ids
