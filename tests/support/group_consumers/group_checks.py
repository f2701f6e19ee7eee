"""Checks of the invariants of a group, from the events of its members.

A member owns a partition from its assignment callback to the end of its revocation callback, or to
its death. A member that was paused, or that the broker removed for its silence, does not know that
it lost its partitions: another member may own them, but its own commits must be refused.
"""

import re
import time
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from sawlog.coordinator.partition_for import partition_for
from sawlog.groups.group_records import GROUP_RECORDS
from sawlog.protocol.messages.offset_commit_key import OffsetCommitKey
from support.client_libraries.confluent_library import Confluent
from support.group_consumers.event_journal import (
    ASSIGNED,
    CLOSED,
    COMMITTED,
    DIED,
    FAILED,
    LOST,
    PAUSED,
    READ,
    REFUSED,
    REMOVED,
    REVOKED,
    Event,
    read_offsets,
)

GROUP_TOPIC = "__consumer_offsets"
GROUP_PARTITIONS = 50


class Ownership(NamedTuple):
    """The time in which a member owned a partition.

    From `uncertain_from` on it was paused or removed, and another member may own the partition.
    """

    partition: int
    member: str
    start: float
    end: float
    uncertain_from: float
    identity: tuple[str, int]


def ownerships(events: list[Event], end: float = float("inf")) -> list[Ownership]:
    open_since: dict[tuple[str, int], Event] = {}
    uncertain: dict[str, list[Event]] = {}
    found: list[Ownership] = []

    def close(member: str, partition: int, at: float) -> None:
        event = open_since.pop((member, partition), None)
        known = uncertain.get(member, ())
        if event is None or any(_is_stale_assignment(each, event) for each in known):
            return
        uncertain_from = min((each.at for each in known if each.at >= event.at), default=at)
        found.append(Ownership(partition, member, event.at, at, uncertain_from, event.identity))

    for event in sorted(events, key=lambda each: each.at):
        if event.kind == ASSIGNED:
            for partition in event.partitions:
                close(event.member, partition, event.at)  # assigned again without a revocation
                open_since[event.member, partition] = event
        elif event.kind in (REVOKED, LOST):
            for partition in event.partitions:
                close(event.member, partition, event.at)
        elif event.kind in (DIED, CLOSED):
            for member, partition in list(open_since):
                if member == event.member:
                    close(member, partition, event.at)
        elif event.kind in (PAUSED, REMOVED):
            uncertain.setdefault(event.member, []).append(event)
    for member, partition in list(open_since):
        close(member, partition, end)
    return sorted(found, key=lambda each: (each.partition, each.start))


def _is_stale_assignment(uncertainty: Event, assigned: Event) -> bool:
    """True for an assignment of an older epoch that the client handles after its removal."""
    member_id, epoch = uncertainty.identity
    is_of_that_member = uncertainty.kind == REMOVED and member_id == assigned.identity[0]
    return is_of_that_member and uncertainty.at < assigned.at and assigned.identity[1] <= epoch


_REMOVED_LINE = re.compile(
    r"time=(\S+) .*event=\"member removed\" group=(\S+) member=(\"[^\"]*\"|\S+)"
    r" (?:epoch|generation)=(-?\d+)"
)


def removals(events: list[Event], group: str, output: Iterable[str]) -> list[Event]:
    """REMOVED events of the group's members, from the log lines of the broker."""
    ahead_s = time.time() - time.monotonic()
    names = {event.identity[0]: event.member for event in events if event.identity[0]}
    found: list[Event] = []
    for line in output:
        match = _REMOVED_LINE.match(line)
        if match is not None and match[2] == group:
            member = names.get(match[3].strip('"'))
            if member is not None:
                at = datetime.fromisoformat(match[1]).timestamp() - ahead_s
                identity = match[3].strip('"'), int(match[4])
                found.append(Event(at, member, REMOVED, {}, identity=identity))
    return found


def overlaps(events: list[Event], tolerance_s: float = 0.0) -> list[str]:
    """Pairs of ownerships of one partition that overlap in time."""
    wrong: list[str] = []
    previous: Ownership | None = None
    for ownership in ownerships(events):
        if previous is None or previous.partition != ownership.partition:
            previous = ownership
            continue
        certain_end = min(previous.end, previous.uncertain_from)
        if previous.member != ownership.member and ownership.start + tolerance_s < certain_end:
            wrong.append(f"{previous} and {ownership}")
        if ownership.end >= previous.end or previous.uncertain_from < previous.end:
            previous = ownership
    return wrong


def fenced_commits(events: list[Event]) -> list[str]:
    """Commits that succeeded although another member owned the partition by then."""
    owners = ownerships(events)
    wrong: list[str] = []
    for event in events:
        if event.kind != COMMITTED:
            continue
        for partition in event.partitions:
            latest = max(
                (
                    each
                    for each in owners
                    if each.partition == partition and each.start < event.since
                ),
                key=lambda each: each.start,
                default=None,
            )
            if latest is not None and latest.member != event.member:
                wrong.append(f"{event} while {latest}")
    return wrong


def failures(events: list[Event]) -> list[str]:
    return [f"{event.member}: {event.message}" for event in events if event.kind == FAILED]


def unread(events: list[Event], ends: dict[int, int]) -> dict[int, list[int]]:
    """The first ten offsets of each partition that no member processed."""
    found = read_offsets(events)
    missing = {
        partition: sorted(set(range(end)) - set(found.get(partition, ())))[:10]
        for partition, end in ends.items()
    }
    return {partition: some for partition, some in missing.items() if some}


def reads_below_commits(events: list[Event], tolerance_s: float = 0.0) -> list[str]:
    """Assignments after which a member began below an offset whose commit had succeeded before."""
    committed: dict[int, list[tuple[float, int]]] = defaultdict(list)
    began: dict[tuple[str, int], float] = {}
    wrong: list[str] = []
    for event in sorted(events, key=lambda each: each.at):
        for partition, value in event.partitions.items():
            key = (event.member, partition)
            if event.kind == COMMITTED:
                committed[partition].append((event.at, value))
            elif event.kind == ASSIGNED:
                began[key] = event.at - tolerance_s
            elif event.kind == READ and key in began:
                assigned_at = began.pop(key)
                before = (offset for at, offset in committed[partition] if at < assigned_at)
                at_least = max(before, default=0)
                if value[0] < at_least:
                    wrong.append(f"{event} after the commit of {at_least}")
    return wrong


def decreasing_commits(
    library: Confluent,
    group: str,
    topic: str,
    events: list[Event],
    group_partitions: int = GROUP_PARTITIONS,
) -> list[str]:
    """Commits in `__consumer_offsets` that are below the one before, with the members' events."""
    partition = partition_for(group, group_partitions)
    _, end = library.bounds(GROUP_TOPIC, partition)
    last: dict[int, int] = {}
    wrong: list[str] = []
    for row in library.consume(GROUP_TOPIC, end, partition=partition):
        key, value, _ = GROUP_RECORDS.decode(row.key, row.value)
        if isinstance(key, OffsetCommitKey) and (key.group, key.topic) == (group, topic):
            offset = -1 if value is None else value.offset
            if offset < last.get(key.partition, 0):
                both = (last[key.partition], offset)
                related = [
                    event
                    for event in events
                    if event.kind in (COMMITTED, REFUSED)
                    and event.partitions.get(key.partition) in both
                ]
                wrong.append(
                    f"{topic}-{key.partition}: {both[0]}, then {both[1]}; events: {related}"
                )
            last[key.partition] = offset
    return wrong
