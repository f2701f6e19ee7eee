"""What a running pipeline tells whoever watches it."""

from typing import NamedTuple, Protocol

from sawlog.core.ids import TopicPartition


class LandedBatch(NamedTuple):
    """One batch that became a version."""

    version: int
    rows: int
    bad_rows: int
    fetched_bytes: int
    files: int
    file_bytes: int
    seconds: float
    ends: dict[TopicPartition, int]


class Events(Protocol):
    """Called from the threads of all tables."""

    def said(self, table: str, text: str) -> None:
        """Something that somebody should know: a wait, a new beginning, an end."""

    def landed(self, table: str, batch: LandedBatch, done: int) -> None:
        """A batch became a version; `done` offsets of the topic are in the table now."""

    def measured(self, table: str, done: int, ends: int) -> None:
        """How many offsets of the topic are in the table, and how many there are."""
