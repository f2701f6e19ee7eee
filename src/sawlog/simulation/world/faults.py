"""The faults of a run: a list that the seed alone decides, so that faults can be left out of it.

A run that fails is repeated with fewer faults, to tell a shorter story.
"""

from dataclasses import dataclass
from enum import Enum
from random import Random as Generator

from sawlog.core.ids import NodeId


class FaultKind(Enum):
    KILL = "kill"
    POWER_LOSS = "power loss"
    POWER_LOSS_OF_ALL = "power loss of all"
    STOP = "clean stop"
    PAUSE = "pause"
    EMPTY_DISK = "empty disk"
    FULL_DISK = "full disk"
    FAILED_FSYNC = "failed fsync"
    SLOW_DISK = "slow disk"
    CLOCK_JUMP = "clock jump"
    SUSPENDED_SESSION = "suspended session"
    EXPIRED_SESSION = "expired session"
    STORE_DOWN = "store down"
    CUT_ONE_WAY = "one-way cut"
    CUT_TWO_WAY = "two-way cut"
    ISOLATION = "isolation"
    SLOW_NETWORK = "slow network"
    LOSSY_NETWORK = "lossy network"
    REASSIGNMENT = "reassignment"
    NEW_PARTITION = "new partition"
    FLIPPED_BIT = "flipped bit"
    TOPIC_REPLACEMENT = "deletion and creation of a topic"
    PREFERRED_ELECTION = "preferred election"
    CONFIG_CHANGE = "config change"


@dataclass(frozen=True, slots=True)
class Fault:
    """`amount` is the offset of a clock jump, the other broker of a cut, whether the machine of a
    failed fsync is restarted (1) or only the process (0), or the choice of partition and replicas
    of a reassignment, or of the bit to flip, or of the config to change."""

    at_ms: int
    kind: FaultKind
    node: NodeId
    duration_ms: int
    amount: int = 0

    def __str__(self) -> str:
        if self.kind in (FaultKind.REASSIGNMENT, FaultKind.NEW_PARTITION, *OPERATIONS):
            return f"{self.kind.value} through broker {self.node}"
        return f"{self.kind.value} of broker {self.node} for {self.duration_ms} ms"


DURATIONS_MS = (50, 300, 1_000, 3_000, 8_000)
GAPS_MS = (20, 100, 300, 1_000, 3_000)
FIRST_FAULT_MS = 500
OPERATION_GAPS_MS = (50, 300, 1_000, 2_000)
OPERATIONS = (
    FaultKind.TOPIC_REPLACEMENT,
    FaultKind.PREFERRED_ELECTION,
    FaultKind.CONFIG_CHANGE,
)
"""What an administrator does besides the other faults, planned apart from them."""
NOT_PLANNED = frozenset({FaultKind.FLIPPED_BIT, *OPERATIONS})
"""A flipped bit is a fault of scenarios only: a leader does not learn from consumers that a batch
is corrupt."""


def plan_faults(seed: int, brokers: int, duration_ms: int) -> list[Fault]:
    """Draw the faults of a run. Each run has some kinds only, so that rare combinations occur."""
    generator = Generator(seed * 7_919 + 13)
    planned = [kind for kind in FaultKind if kind not in NOT_PLANNED]
    kinds = [kind for kind in planned if generator.random() < 0.4] or planned
    faults: list[Fault] = []
    at_ms = FIRST_FAULT_MS
    while at_ms < duration_ms:
        kind = generator.choice(kinds)
        node = NodeId(generator.randrange(1, brokers + 1))
        other = (int(node) + generator.randrange(max(1, brokers - 1))) % brokers + 1
        amount = other
        if kind is FaultKind.CLOCK_JUMP:
            amount = generator.choice((-3_600_000, -5_000, 5_000, 3_600_000))
        elif kind is FaultKind.FAILED_FSYNC:
            amount = generator.randrange(2)
        elif kind is FaultKind.REASSIGNMENT:
            amount = generator.randrange(1 << 16)
        duration = generator.choice(DURATIONS_MS)
        faults.append(Fault(at_ms, kind, node, duration, amount))
        at_ms += generator.choice(GAPS_MS)
    return sorted(faults + _plan_operations(seed, brokers, duration_ms), key=lambda f: f.at_ms)


def _plan_operations(seed: int, brokers: int, duration_ms: int) -> list[Fault]:
    """Draw the operations of an administrator; a third of the runs has none of a kind."""
    generator = Generator(seed * 6_007 + 17)
    kinds = [kind for kind in OPERATIONS if generator.random() < 0.67]
    operations: list[Fault] = []
    at_ms = FIRST_FAULT_MS
    while kinds and at_ms < duration_ms:
        node = NodeId(generator.randrange(1, brokers + 1))
        amount = generator.randrange(1 << 16)
        operations.append(Fault(at_ms, generator.choice(kinds), node, 0, amount))
        at_ms += generator.choice(OPERATION_GAPS_MS)
    return operations
