"""The origin of an append, as Kafka's AppendOrigin."""

from enum import Enum


class AppendOrigin(Enum):
    """Where an appended batch comes from, which decides what it may be.

    CLIENT: data, with checked sequence numbers and producer epochs. COORDINATOR: data, of which the
    producer epoch is checked, and transaction markers. Both begin a transaction only with the guard
    of its verification. REPLICATION: anything, because the leader has checked it.
    """

    CLIENT = 0
    REPLICATION = 1
    COORDINATOR = 2
