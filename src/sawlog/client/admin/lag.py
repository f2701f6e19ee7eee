"""How far groups are behind, how fast they read and what is written meanwhile, and when they will
have caught up.

A rate needs two measurements. What cannot be known is None, and an `Outlook` says why.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from sawlog.client.admin.admin import Admin
from sawlog.client.admin.groups import GroupAdmin, GroupDescription, GroupMember
from sawlog.client.admin.list_offsets import LATEST
from sawlog.client.errors import ErrorsByName
from sawlog.client.net.cluster import Cluster, NoSuchTopic
from sawlog.core.ids import TopicPartition

# Consumers commit now and then, so that two measurements never see quite the pace they read at.
_NEAR_S = 10.0  # a lag of what is written in so long is two commits of the usual distance
_JITTER_S = 1.5  # a commit may come so much sooner or later ...
_JITTER_SHARE = 0.3  # ... though not by more than this of the time measured
_STEADY_SHARE = 0.05  # a lag that changes by less of what is written stays as it is


class LagTrend(Enum):
    """When the end will be reached if all goes on as it did between two measurements.

    KEEPING_UP is of those whose lag changed no more than commits that come now and then explain.
    """

    CAUGHT_UP = "caught up"
    CATCHING_UP = "catching up"
    KEEPING_UP = "keeping up"
    NEVER = "never (more is written than read)"
    NO_COMMITS = "unknown (no commits meanwhile)"
    NO_MEMBERS = "unknown (no members)"
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
class LagForecast:
    """Records a second, and where that leads; `catch_up_s` is known of those that get there."""

    lag: int | None
    consumed_per_s: float | None
    produced_per_s: float | None
    trend: LagTrend
    catch_up_s: float | None


def measure(
    cluster: Cluster,
    admin: GroupAdmin,
    groups: Iterable[str],
    monotonic_s: Callable[[], float] = time.monotonic,
) -> tuple[dict[str, Measurement], ErrorsByName]:
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
    """Of those that exist and have a leader now.

    A topic may be deleted after it was seen: then those that are left are looked for again.
    """
    wanted = sorted(set(partitions))
    names = dict.fromkeys(topic for topic, _ in wanted)
    for _ in names:  # each time one at least is gone for good
        try:
            return _end_offsets(cluster, wanted)
        except NoSuchTopic:
            continue
    return _end_offsets(cluster, wanted)


def _end_offsets(cluster: Cluster, wanted: list[TopicPartition]) -> dict[TopicPartition, int]:
    topics, _ = Admin(cluster).describe_topics(dict.fromkeys(topic for topic, _ in wanted))
    led = {
        TopicPartition(topic.name, partition.index)
        for topic in topics
        for partition in topic.partitions.values()
        if partition.leader >= 0
    }
    found = Admin(cluster).list_offsets({each: LATEST for each in wanted if each in led})
    return {partition: entry.offset for partition, entry in found.items()}


def forecast(
    before: Position | None, after: Position, seconds: float, *, has_members: bool = True
) -> LagForecast:
    """Of one partition between two measurements; `before` is None where there was none.

    Without members nobody is expected to commit, though somebody outside the group may.
    """
    consumed = produced = None
    if before is not None and seconds > 0:
        consumed = _rate(before.committed, after.committed, seconds)
        produced = _rate(before.end, after.end, seconds)
    span_s = seconds if before is not None else 0.0
    return _forecast(after.lag, consumed, produced, span_s, has_members)


def total_forecast(
    before: Mapping[TopicPartition, Position],
    after: Mapping[TopicPartition, Position],
    seconds: float,
    *,
    has_members: bool = True,
) -> LagForecast:
    """Of all partitions whose lag is known. The group is there when its last member is, and a
    member reads its partitions in turns, so that its sums tell better than each of them.
    """
    by_member: dict[str, list[LagForecast]] = defaultdict(list)
    for partition, now in after.items():
        if now.lag is not None:
            owner = "" if now.member is None else now.member.id
            by_member[owner].append(forecast(before.get(partition), now, seconds))
    span_s = seconds if before.keys() & after.keys() else 0.0
    members = [_sum(forecasts, span_s, has_members) for forecasts in by_member.values()]
    everything = [each for forecasts in by_member.values() for each in forecasts]
    total = _sum(everything, span_s, has_members)
    last = max(members, key=_distance, default=total)
    return replace(total, trend=last.trend, catch_up_s=last.catch_up_s)


def _sum(forecasts: list[LagForecast], span_s: float, has_members: bool) -> LagForecast:
    lag = sum(max(0, each.lag or 0) for each in forecasts) if forecasts else None
    measured = [each for each in forecasts if each.consumed_per_s is not None]
    consumed = sum(each.consumed_per_s or 0.0 for each in measured) if measured else None
    produced = sum(each.produced_per_s or 0.0 for each in measured) if measured else None
    return _forecast(lag, consumed, produced, span_s, has_members)


def _distance(found: LagForecast) -> tuple[int, float]:
    """The further, the worse: never before unknown, unknown before late, late before soon."""
    ranks = {
        LagTrend.CAUGHT_UP: 0,
        LagTrend.KEEPING_UP: 1,
        LagTrend.CATCHING_UP: 2,
        LagTrend.NEVER: 4,
    }
    return ranks.get(found.trend, 3), found.catch_up_s or 0.0


def _forecast(
    lag: int | None,
    consumed: float | None,
    produced: float | None,
    span_s: float,
    has_members: bool,
) -> LagForecast:
    """`span_s` is what the rates were measured for: 0 where there was one measurement only."""
    trend = _unmeasured(lag, span_s)
    if trend is None:
        if consumed is None or produced is None:
            trend = LagTrend.OFFSET_SET
        elif consumed == 0:
            trend = LagTrend.NO_COMMITS if has_members else LagTrend.NO_MEMBERS
        else:
            trend = _measured(lag or 0, consumed, produced, span_s)
    catch_up_s = 0.0 if trend is LagTrend.CAUGHT_UP else None
    if lag and consumed and produced is not None and trend is LagTrend.CATCHING_UP:
        catch_up_s = lag / (consumed - produced)
    return LagForecast(lag, consumed, produced, trend, catch_up_s)


def _unmeasured(lag: int | None, span_s: float) -> LagTrend | None:
    """What is known without a rate."""
    if lag is None:
        return LagTrend.NO_OFFSET
    if lag <= 0:
        return LagTrend.CAUGHT_UP
    return LagTrend.MEASURED_ONCE if span_s <= 0 else None


def _measured(lag: int, consumed: float, produced: float, span_s: float) -> LagTrend:
    """A lag that is small, and moves either way, is nobody's concern; of a great one that hardly
    grows, `never` would be more than is known.
    """
    grows_per_s = produced - consumed
    is_near = lag <= produced * _NEAR_S
    jitter = produced * min(_JITTER_S / span_s, _JITTER_SHARE)
    if is_near and abs(grows_per_s) <= jitter:
        return LagTrend.KEEPING_UP
    if grows_per_s < 0:
        return LagTrend.CATCHING_UP
    return LagTrend.KEEPING_UP if grows_per_s <= produced * _STEADY_SHARE else LagTrend.NEVER


def _rate(before: int | None, after: int | None, seconds: float) -> float | None:
    """None where it moved back or was not there: then it was set, and is no rate."""
    if before is None or after is None or after < before:
        return None
    return (after - before) / seconds


def _owners(group: GroupDescription) -> dict[TopicPartition, GroupMember]:
    return {partition: member for member in group.members for partition in member.assigned or ()}
