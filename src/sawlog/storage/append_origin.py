"""The origin of an append, as Kafka's AppendOrigin."""

from enum import Enum


class AppendOrigin(Enum):
    """Where an appended batch comes from.

    Only the sequence numbers of client batches are checked: the leader has checked the batches that
    a follower replicates, and coordinators are trusted.
    """

    CLIENT = 0
    REPLICATION = 1
    COORDINATOR = 2
