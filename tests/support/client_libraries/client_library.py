"""The interface that the conformance tests use for every Kafka client library."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

GUARD_S = 60
"""The timeout of every client call in a test."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Row(NamedTuple):
    """A record to produce, or one that was consumed."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 1_700_000_000_000
    partition: int = 0


class RecordMetadata(NamedTuple):
    """The partition and offset of a produced record, from the broker's response."""

    partition: int
    offset: int


class BrokerError(Exception):
    """An error code of the broker, as the library reports it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class ClientLibrary(Protocol):
    """One client library, connected to one broker."""

    def produce(
        self,
        topic: str,
        rows: Sequence[Row],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[RecordMetadata]:
        """Send all rows and wait for their metadata; raise BrokerError for the first error."""
        ...

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Row]:
        """Read `count` records from `offset` on, with an assigned partition."""
        ...

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        """The first offset at or after a timestamp, or None."""
        ...

    def bounds(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """The earliest and the latest offset of the partition."""
        ...
