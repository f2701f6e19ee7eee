"""What a log knows of its idempotent producers, and the snapshot file that keeps it.

Promise: a (producer id, epoch, sequence) is appended once. A batch is checked against its
producer's last five; the same batch again is found out and its old offset returned. The state is
a function of the log's batches in order: rebuilt from them it equals the live one.
"""

from collections.abc import Mapping
from typing import NamedTuple

from sawlog.protocol.batches import BatchHeader

BATCHES_KEPT = 5
NO_EPOCH = -1
NO_OFFSET = -1
SEQUENCES = 2**31


class CorruptSnapshot(Exception):
    """Bytes that are no snapshot; the state is rebuilt from an older one and the log."""


class BatchRange(NamedTuple):
    """One appended batch of a producer: sequences and offsets, both ends included."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerState:
    """One producer id: its epoch and its last batches, oldest first, all of that epoch."""

    __slots__ = ("batches", "coordinator_epoch", "current_txn_first_offset", "epoch", "timestamp")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[BatchRange] = []
        self.timestamp = -1
        self.coordinator_epoch = -1
        self.current_txn_first_offset = NO_OFFSET


class ProducerStates:
    """All producers of one log, in the order in which they first wrote."""

    __slots__ = ("_states", "changed")

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self.changed = False  # since the last snapshot

    @property
    def states(self) -> Mapping[int, ProducerState]:
        return self._states

    def __len__(self) -> int:
        return len(self._states)

    def check(self, header: BatchHeader) -> BatchRange | None:
        """Before an append: the old range if the batch is a duplicate; KafkaError if it is not
        the producer's next one. Changes nothing."""
        raise NotImplementedError

    def update(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
        """After an append, or while the log is replayed: takes note of the batch."""
        raise NotImplementedError

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers whose last batch is older than that; returns how many."""
        raise NotImplementedError

    def clear(self) -> None:
        self._states.clear()
        self.changed = True

    def encode(self) -> bytes:
        """The snapshot file, Kafka's version 1."""
        raise NotImplementedError

    def load(self, data: bytes) -> None:
        """Replaces everything by what a snapshot file says; CorruptSnapshot, nothing changed."""
        raise NotImplementedError
