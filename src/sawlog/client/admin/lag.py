"""Lag of groups, the rates at which they read and their topics are written, and a forecast.

A rate needs two measurements. Unknown values are None, and `LagTrend` says why.
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

# Consumers commit in intervals, so rates between two measurements are only approximate.
_NEAR_S = 10.0  # a lag of this many seconds of writes is two default commit intervals
_JITTER_S = 1.5  # a commit may be this much early or late ...
_JITTER_SHARE = 0.3  # ... but not by more than this share of the measured time
_STEADY_SHARE = 0.05  # a lag that changes by less than this share of the writes is steady


class LagTrend(Enum):
    """How the lag develops at the rates between two measurements.

    KEEPING_UP: the lag changed no more than commit intervals explain.
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
    """The committed offset and the end offset of one partition of a group, if known."""

    committed: int | None
    end: int | None
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        """Negative if the log was truncated below the committed offset."""
        if self.committed is None or self.end is None:
            return None
        return self.end - self.committed


@dataclass(frozen=True, slots=True)
class Measurement:
    """The positions of all partitions that a group has committed or is assigned."""

    group: GroupDescription
    at_s: float  # of a monotonic clock
    positions: dict[TopicPartition, Position]


@dataclass(frozen=True, slots=True)
class LagForecast:
    """Records per second and their trend; `catch_up_s` is known if the lag shrinks."""

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
    """Measure groups now.

    Committed offsets are read before end offsets, so that a lag is negative only if the log was
    truncated.
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
    """Return the end offsets of the partitions that exist and have a leader.

    If a topic is deleted meanwhile, the others are looked up again.
    """
    wanted = sorted(set(partitions))
    names = dict.fromkeys(topic for topic, _ in wanted)
    for _ in names:  # each failure means one topic less
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
    """Forecast one partition from two measurements; `before` is None if there is only one.

    A group without members is not expected to commit, though offsets may be committed from
    outside.
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
    """Forecast all partitions whose lag is known.

    The group has caught up when its last member has. A member reads its partitions in turns, so
    the sum per member is more reliable than each partition.
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
    """Sort key: never is worst, then unknown, then a late end, then an early one."""
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
    """`span_s` is the time between the measurements; 0 if there is only one."""
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
    """Return the trend that is known without rates."""
    if lag is None:
        return LagTrend.NO_OFFSET
    if lag <= 0:
        return LagTrend.CAUGHT_UP
    return LagTrend.MEASURED_ONCE if span_s <= 0 else None


def _measured(lag: int, consumed: float, produced: float, span_s: float) -> LagTrend:
    """A small lag that moves within the commit jitter is keeping up, as is a large, steady one."""
    grows_per_s = produced - consumed
    is_near = lag <= produced * _NEAR_S
    jitter = produced * min(_JITTER_S / span_s, _JITTER_SHARE)
    if is_near and abs(grows_per_s) <= jitter:
        return LagTrend.KEEPING_UP
    if grows_per_s < 0:
        return LagTrend.CATCHING_UP
    return LagTrend.KEEPING_UP if grows_per_s <= produced * _STEADY_SHARE else LagTrend.NEVER


def _rate(before: int | None, after: int | None, seconds: float) -> float | None:
    """None if the offset is unknown or moved back: it was reset."""
    if before is None or after is None or after < before:
        return None
    return (after - before) / seconds


def _owners(group: GroupDescription) -> dict[TopicPartition, GroupMember]:
    return {partition: member for member in group.members for partition in member.assigned or ()}
