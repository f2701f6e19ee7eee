"""Start positions of a consumer, and the policy for offsets that its log does not have."""

from enum import Enum
from typing import NamedTuple

from sawlog.client.admin.list_offsets import EARLIEST, LATEST


class OffsetReset(Enum):
    """The policy if there is no committed offset, or the log does not have the offset.

    As auto.offset.reset in Kafka's clients. The default is EARLIEST in a group and FAIL otherwise.
    """

    FAIL = "fail"
    EARLIEST = "earliest"
    LATEST = "latest"


class AtOffset(NamedTuple):
    offset: int


class AtTime(NamedTuple):
    """The first record with this timestamp or a later one; the end if there is none."""

    timestamp_ms: int


AT_EARLIEST = AtTime(EARLIEST)
AT_LATEST = AtTime(LATEST)

Start = AtOffset | AtTime

RESET_STARTS = {OffsetReset.EARLIEST: AT_EARLIEST, OffsetReset.LATEST: AT_LATEST}
