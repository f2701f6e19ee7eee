"""Where reading begins, and what to do where that is not there."""

from enum import Enum
from typing import NamedTuple

from sawlog.client.admin.list_offsets import EARLIEST, LATEST


class OutOfRange(Enum):
    """What to do where the offset wanted is not, or no longer, there."""

    FAIL = "fail"
    EARLIEST = "earliest"
    LATEST = "latest"


class AtOffset(NamedTuple):
    offset: int


class AtTime(NamedTuple):
    """The first record with this timestamp or a later one; the end where there is none."""

    timestamp_ms: int


AT_EARLIEST = AtTime(EARLIEST)
AT_LATEST = AtTime(LATEST)

Start = AtOffset | AtTime

RESET_STARTS = {OutOfRange.EARLIEST: AT_EARLIEST, OutOfRange.LATEST: AT_LATEST}
