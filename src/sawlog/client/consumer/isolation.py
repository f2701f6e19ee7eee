"""The isolation level of a consumer (isolation.level in Kafka's clients)."""

from typing import Literal, get_args

Isolation = Literal["read_uncommitted", "read_committed"]
"""read_committed leaves out the records of open and aborted transactions: it reads up to the last
stable offset, the first offset of an open transaction. read_uncommitted reads all records up to the
high watermark."""

ISOLATION_LEVELS: tuple[str, ...] = get_args(Isolation)


def reads_committed(isolation: str) -> bool:
    """Return whether the level is read_committed; ValueError if there is no such level."""
    if isolation not in ISOLATION_LEVELS:
        raise ValueError(f"isolation is {' or '.join(ISOLATION_LEVELS)}, not {isolation!r}")
    return isolation == "read_committed"
