"""How far groups are behind, how fast they read and what is written meanwhile, and when they will
have caught up.

A rate needs two measurements. What cannot be known is None, and an `Outlook` says why.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from sawlog.client.admin import Admin
from sawlog.client.cluster import Cluster
from sawlog.client.errors import Refusals
from sawlog.client.groups import GroupAdmin, GroupDescription, GroupMember
from sawlog.client.offsets import LATEST
from sawlog.core.ids import TopicPartition


class Outlook(Enum):
    """When the end will be reached if all goes on as it did between two measurements."""

    CAUGHT_UP = "caught up"
    CATCHING_UP = "catching up"
    NEVER = "never (more is written than read)"
    NO_COMMITS = "unknown (no commits meanwhile)"
    MEASURED_ONCE = "unknown (measured once)"
    OFFSET_SET = "unknown (the offset was set meanwhile)"
    NO_OFFSET = "unknown (no offset)"


@dataclass(frozen=True, slots=True)
class Position:
    """One partition of one group: where the group is and where the log ends, as far as known."""

    committed: int | None
    end: int | None
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        """Below zero where the log is shorter than the group remembers it."""
        if self.committed is None or self.end is None:
            return None
        return self.end - self.committed


@dataclass(frozen=True, slots=True)
class Measurement:
    """All partitions that a group has committed offsets of, or is assigned."""

    group: GroupDescription
    at_s: float  # on a clock of its own
    positions: dict[TopicPartition, Position]


@dataclass(frozen=True, slots=True)
class Pace:
    """Records a second, and where that leads; `catch_up_s` is known of those that get there."""

    lag: int | None
    consumed_per_s: float | None
    produced_per_s: float | None
    outlook: Outlook
    catch_up_s: float | None


def measure(
    cluster: Cluster,
    admin: GroupAdmin,
    groups: Iterable[str],
    monotonic_s: Callable[[], float] = time.monotonic,
) -> tuple[dict[str, Measurement], Refusals]:
    """Where the groups are now. Offsets are read before ends, so that no lag is below zero that
    is not so in truth.
    """
    described, refusals = admin.describe_groups(groups)
    committed, refused = admin.committed_offsets(described)
    refusals |= refused
    owners = {
        group: _owners(description)
        for group, description in described.items()
        if group not in refused
    }
    wanted = {group: owners[group].keys() | committed[group].keys() for group in owners}
    ends = end_offsets(cluster, set[TopicPartition]().union(*wanted.values()))
    at_s = monotonic_s()
    return {
        group: Measurement(
            described[group],
            at_s,
            {
                partition: Position(
                    committed[group][partition].offset if partition in committed[group] else None,
                    ends.get(partition),
                    owners[group].get(partition),
                )
                for partition in sorted(wanted[group])
            },
        )
        for group in owners
    }, refusals


def end_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Of those that exist and have a leader now."""
    wanted = sorted(set(partitions))
    topics, _ = Admin(cluster).describe_topics(dict.fromkeys(topic for topic, _ in wanted))
    led = {
        TopicPartition(topic.name, partition.index)
        for topic in topics
        for partition in topic.partitions.values()
        if partition.leader >= 0
    }
    found = Admin(cluster).list_offsets({each: LATEST for each in wanted if each in led})
    return {partition: entry.offset for partition, entry in found.items()}


def pace(before: Position | None, after: Position, seconds: float) -> Pace:
    """Of one partition between two measurements; `before` is None where there was none."""
    consumed = produced = None
    if before is not None and seconds > 0:
        consumed = _rate(before.committed, after.committed, seconds)
        produced = _rate(before.end, after.end, seconds)
    return _pace(after.lag, consumed, produced, is_first=before is None or seconds <= 0)


def total_pace(
    before: Mapping[TopicPartition, Position],
    after: Mapping[TopicPartition, Position],
    seconds: float,
) -> Pace:
    """Of all partitions whose lag is known. The group is there when its last member is, and a
    member reads its partitions in turns, so that its sums tell better than each of them.
    """
    by_member: dict[str, list[Pace]] = defaultdict(list)
    for partition, now in after.items():
        if now.lag is not None:
            owner = "" if now.member is None else now.member.id
            by_member[owner].append(pace(before.get(partition), now, seconds))
    is_first = seconds <= 0 or not before.keys() & after.keys()
    members = [_sum(paces, is_first) for paces in by_member.values()]
    total = _sum([each for paces in by_member.values() for each in paces], is_first)
    last = max(members, key=_distance, default=total)
    return replace(total, outlook=last.outlook, catch_up_s=last.catch_up_s)


def _sum(paces: list[Pace], is_first: bool) -> Pace:
    lag = sum(max(0, each.lag or 0) for each in paces) if paces else None
    measured = [each for each in paces if each.consumed_per_s is not None]
    consumed = sum(each.consumed_per_s or 0.0 for each in measured) if measured else None
    produced = sum(each.produced_per_s or 0.0 for each in measured) if measured else None
    return _pace(lag, consumed, produced, is_first=is_first)


def _distance(found: Pace) -> tuple[int, float]:
    """The further, the worse: never before unknown, unknown before late, late before soon."""
    if found.catch_up_s is not None:
        return 0, found.catch_up_s
    return (2 if found.outlook is Outlook.NEVER else 1), 0.0


def _pace(
    lag: int | None, consumed: float | None, produced: float | None, *, is_first: bool
) -> Pace:
    outlook = _outlook(lag, consumed, produced, is_first)
    catch_up_s = 0.0 if outlook is Outlook.CAUGHT_UP else None
    if lag and consumed and produced is not None and outlook is Outlook.CATCHING_UP:
        catch_up_s = lag / (consumed - produced)
    return Pace(lag, consumed, produced, outlook, catch_up_s)


def _outlook(
    lag: int | None, consumed: float | None, produced: float | None, is_first: bool
) -> Outlook:
    if lag is None:
        return Outlook.NO_OFFSET
    if lag <= 0:
        return Outlook.CAUGHT_UP
    if is_first:
        return Outlook.MEASURED_ONCE
    if consumed is None or produced is None:
        return Outlook.OFFSET_SET
    if consumed == 0:
        return Outlook.NO_COMMITS
    return Outlook.CATCHING_UP if consumed > produced else Outlook.NEVER


def _rate(before: int | None, after: int | None, seconds: float) -> float | None:
    """None where it moved back or was not there: then it was set, and is no rate."""
    if before is None or after is None or after < before:
        return None
    return (after - before) / seconds


def _owners(group: GroupDescription) -> dict[TopicPartition, GroupMember]:
    return {partition: member for member in group.members for partition in member.assigned or ()}
