"""The roles of a replica, and the table of all changes between them.

An event carries the leader epoch that it belongs to. Within one epoch a partition has one leader:
a leader never becomes a follower, nor a follower the leader, without a newer epoch. An event that
the table does not have raises IllegalTransition and changes nothing.
"""

from enum import Enum


class Role(Enum):
    IDLE = "idle"
    """Neither role: the partition has no leader, or none is known yet. It serves nothing."""
    FOLLOWER = "follower"
    LEADER = "leader"
    CLOSED = "closed"
    """The partition is deleted, its replica is removed, or the broker stops."""


class Event(Enum):
    LEAD = "lead"
    """The image names this broker as the leader."""
    FOLLOW = "follow"
    """The image names another broker as the leader."""
    LOSE_LEADER = "lose leader"
    """The image names no leader."""
    CLOSE = "close"


class IllegalTransition(Exception):
    """The event is not possible in this role and epoch."""


_SAME_EPOCH = {
    (Role.IDLE, Event.LEAD): Role.LEADER,
    (Role.IDLE, Event.FOLLOW): Role.FOLLOWER,
    (Role.IDLE, Event.LOSE_LEADER): Role.IDLE,
    (Role.IDLE, Event.CLOSE): Role.CLOSED,
    (Role.FOLLOWER, Event.FOLLOW): Role.FOLLOWER,
    (Role.FOLLOWER, Event.LOSE_LEADER): Role.IDLE,
    (Role.FOLLOWER, Event.CLOSE): Role.CLOSED,
    (Role.LEADER, Event.LEAD): Role.LEADER,
    (Role.LEADER, Event.LOSE_LEADER): Role.IDLE,
    (Role.LEADER, Event.CLOSE): Role.CLOSED,
}

_NEW_EPOCH = _SAME_EPOCH | {
    (Role.FOLLOWER, Event.LEAD): Role.LEADER,
    (Role.LEADER, Event.FOLLOW): Role.FOLLOWER,
}


def next_role(role: Role, event: Event, *, is_new_epoch: bool) -> Role:
    """Return the role after `event`; IllegalTransition if it is not possible."""
    after = (_NEW_EPOCH if is_new_epoch else _SAME_EPOCH).get((role, event))
    if after is None:
        epoch = "a newer" if is_new_epoch else "the same"
        raise IllegalTransition(f"a {role.value} replica cannot {event.value} in {epoch} epoch")
    return after
