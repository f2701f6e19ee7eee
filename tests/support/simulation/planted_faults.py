"""Faults that provoke planted bugs and the histories of Kafka."""

from sawlog.core.ids import NodeId
from sawlog.simulation.world.faults import Fault, FaultKind

DURATION_MS = 14_000
ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def repeated(kind: FaultKind, *, every_ms: int = 2_000, duration_ms: int = 300) -> list[Fault]:
    """The same fault again and again, on one broker after the other."""
    return [
        Fault(
            1_000 + place * every_ms, kind, NodeId(place % 3 + 1), duration_ms, (place + 1) % 3 + 1
        )
        for place in range((DURATION_MS - 2_000) // every_ms)
    ]


DIVERGENCE = [Fault(1_000, FaultKind.ISOLATION, ONE, 9_000)]
"""A leader appends alone, without a session, while another one is elected."""

LONE_EPOCH = [
    Fault(980, FaultKind.CUT_TWO_WAY, ONE, 9_000, 2),
    Fault(980, FaultKind.CUT_TWO_WAY, ONE, 9_000, 3),
    Fault(1_000, FaultKind.EXPIRED_SESSION, TWO, 0),
    Fault(1_100, FaultKind.ISOLATION, ONE, 9_000),
]
"""Broker 1 is elected while it is cut off: no other broker gets a record of its epoch."""

DEAF_FOLLOWERS = [
    fault
    for place in range(6)
    for fault in (
        Fault(1_000 + 2_000 * place, FaultKind.SUSPENDED_SESSION, NodeId(place % 3 + 1), 1_500),
        Fault(1_200 + 2_000 * place, FaultKind.KILL, NodeId((place + 1) % 3 + 1), 50),
    )
]
"""A leader restarts at once and leads again; a follower does not hear of the new epoch."""


OLD_WATERMARKS = [
    Fault(1_000, FaultKind.KILL, THREE, 7_500),
    Fault(8_400, FaultKind.POWER_LOSS, ONE, 200),
    Fault(8_400, FaultKind.POWER_LOSS, TWO, 250),
]
"""A follower comes back behind the others, after its session; then these restart with their
watermark checkpoints."""
LOST_ANSWERS = [
    fault
    for place in range(7)
    for fault in (
        Fault(1_060 + 1_800 * place, FaultKind.EXPIRED_SESSION, NodeId(place % 3 + 1), 0),
        Fault(
            1_080 + 1_806 * place, FaultKind.SUSPENDED_SESSION, NodeId((place + 1) % 3 + 1), 1_500
        ),
        Fault(
            1_084 + 1_803 * place, FaultKind.SUSPENDED_SESSION, NodeId((place + 2) % 3 + 1), 1_500
        ),
        Fault(
            1_120 + 1_806 * place,
            FaultKind.CUT_TWO_WAY,
            NodeId(place % 3 + 1),
            1_000,
            (place + 1) % 3 + 1,
        ),
    )
]
"""A broker rejoins in-sync sets while their leaders lose the connections to the store."""

MISSED_REPLACEMENT = [
    Fault(1_000, FaultKind.TOPIC_REPLACEMENT, TWO, 0),
    Fault(3_000, FaultKind.KILL, ONE, 3_000),
    Fault(3_200, FaultKind.TOPIC_REPLACEMENT, TWO, 0),
]
"""A topic is created, deleted and created again; broker 1 is down meanwhile."""

SLEEPING_LEADERS = [
    fault
    for place in range(6)
    for fault in (
        Fault(1_000 + 2_000 * place, FaultKind.PAUSE, NodeId(place % 3 + 1), 1_500),
        Fault(2_440 + 2_000 * place, FaultKind.EXPIRED_SESSION, NodeId((place + 1) % 3 + 1), 0),
    )
]
"""A leader is paused while the controller changes its in-sync sets."""

EMPTY_AT_THE_EXPIRY = [Fault(1_000, FaultKind.EMPTY_DISK, ONE, 5_994)]
"""A broker registers with an empty disk as its session expires, before the controller reacts."""
