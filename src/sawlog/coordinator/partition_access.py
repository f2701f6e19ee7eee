"""The two sides of a partition that a coordinator sees: one to write records, one to load them.

They are modelled on Kafka's PartitionWriter and CoordinatorLoader. The coordinator knows nothing
else of the partition's log or of its replication.
"""

from collections.abc import Callable
from typing import Protocol

from sawlog.core.errors import KafkaError
from sawlog.core.ids import ProducerId, TopicPartition
from sawlog.storage.transaction_verification import VerificationGuard

OnCommitted = Callable[[KafkaError | None], None]
"""Called with None once the offset is committed, else with the error that prevents it."""


class PartitionWriter(Protocol):
    """Appends record batches to a partition that this broker leads."""

    @property
    def max_batch_bytes(self) -> int:
        """The topic's max.message.bytes."""
        ...

    def append(
        self,
        batch: memoryview,
        *,
        is_awaited: bool,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> int:
        """Append one batch and return the log end offset after it; KafkaError if nothing was
        written. With `is_awaited` a call of `when_committed` follows: the flush starts at once.
        The first batch of a transaction needs a `guard`; `transaction_version` is that of a marker.
        """
        ...

    def begin_verification(
        self, producer_id: ProducerId, producer_epoch: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """Return the guard for a transaction that begins in this partition; None if it is open here
        already. KafkaError if the producer is fenced."""
        ...

    def when_committed(self, offset: int, action: OnCommitted) -> None:
        """Call `action` once when the high watermark reaches `offset`, at once if it has."""
        ...


class PartitionReader(Protocol):
    """Reads a partition's log from its start, committed or not."""

    @property
    def name(self) -> TopicPartition: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int:
        """The log end offset."""
        ...

    def read(self, offset: int, max_bytes: int, *, limit_offset: int) -> bytes | None:
        """Return bytes that start with the batch that holds `offset`, None if there is none below
        `limit_offset`.

        The first batch is complete even if it is larger than `max_bytes`; the last one may be cut.
        KafkaError if the log cannot be read.
        """
        ...
