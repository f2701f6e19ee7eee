"""What a Kafka client library does, as the conformance tests see it: one shape for all of them."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

GUARD_S = 60
"""How long a client may take before its test fails; nothing is measured by it."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Row(NamedTuple):
    """A record on its way in or out."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 1_700_000_000_000
    partition: int = 0


class Placed(NamedTuple):
    """Where a broker said that it put a record."""

    partition: int
    offset: int


class Refused(Exception):
    """The broker's error code, as the library passed it on."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Library(Protocol):
    """One client library, connected to one broker."""

    def produce(
        self,
        topic: str,
        rows: Sequence[Row],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[Placed]:
        """Sends all rows and waits; Refused with the first error."""
        ...

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Row]:
        """The next `count` records from an offset of an assigned partition."""
        ...

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        """The first offset at or after a time; None where there is none."""
        ...

    def bounds(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """The earliest and the latest offset."""
        ...
