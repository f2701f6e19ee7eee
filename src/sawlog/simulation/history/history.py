"""What the clients of a simulation saw: writes with their outcomes, polls, commits of offsets.

The checks of this folder judge it when the run is over. A write without a clear answer is neither a
success nor a failure.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from sawlog.simulation.cluster_profile import Cleanup

UNKNOWN_OFFSET = -1
ACKS_ALL = -1


class Outcome(Enum):
    """Whether a write is in the log: yes, no, or nobody knows."""

    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Write:
    """One value that a producer sent; `offset` is known only of an acknowledged one.

    `may_repeat` is for clients that send a value again without a sequence number: librdkafka does
    so even with no retries, when a deposed leader has appended the value and answers
    NOT_LEADER_OR_FOLLOWER (`tests/conformance/test_confluent.py`). Such a value may be in the log
    twice. No simulated producer does that.
    """

    producer: str
    partition: int
    value: bytes
    acks: int
    is_idempotent: bool
    began_ms: int
    outcome: Outcome = Outcome.UNKNOWN
    offset: int = UNKNOWN_OFFSET
    ended_ms: int = -1
    may_repeat: bool = False
    key: bytes = b"k"


@dataclass(frozen=True, slots=True)
class Poll:
    """The records of one Fetch response for one partition, from the consumer's position on.

    `group` is the group whose committed offset the consumer started from, if it is in one.
    """

    consumer: str
    partition: int
    position: int
    records: tuple[tuple[int, bytes], ...]
    group: str = ""


@dataclass(frozen=True, slots=True)
class OffsetRead:
    """The committed offset that a group member was told, and the lowest one that it may be."""

    member: str
    partition: int
    offset: int
    at_least: int


@dataclass(slots=True)
class History:
    writes: list[Write] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    offset_reads: list[OffsetRead] = field(default_factory=list)
    producer_ids: list[int] = field(default_factory=list)
    out_of_range: list[Poll] = field(default_factory=list)
    """Polls whose position the leader refused, though it has served the records below it."""
    corrupt_responses: int = 0
    """Fetch responses with a batch that did not match its CRC."""
    cleanup: Cleanup = Cleanup.NONE
    start_offsets: dict[int, int] = field(default_factory=dict)
    """By partition: the highest log start offset of a replica, if records were deleted."""
    last_reads: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)
    """By partition: everything in the log, read from the start after all faults have healed."""
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    """By group and partition: the highest acknowledged commit."""
    on_acknowledged: Callable[[Write], None] | None = None
    """Called with each write in the event that acknowledges it."""

    @property
    def is_compacted(self) -> bool:
        return self.cleanup is Cleanup.COMPACTION

    def count(self, outcome: Outcome) -> int:
        return sum(write.outcome is outcome for write in self.writes)

    @property
    def records_read(self) -> int:
        return sum(len(poll.records) for poll in self.polls)
