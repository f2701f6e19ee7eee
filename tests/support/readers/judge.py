"""What must be true of a group whatever happened to its members, judged by their journal.

Times are compared between members of one machine. A member owns a partition from the call that
gives it until the call that takes it has ended; what a dead member had is nobody's; one that was
stopped in the middle, or was silent for so long that the broker put it out (a busy machine does
that, too), cannot know it, and may believe that it owns what another has been given since: but what
it commits then has to be refused.
"""

import re
import time
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from sawlog.coordinator.partition_for import partition_for
from sawlog.groups.group_records import GROUP_RECORDS
from sawlog.protocol.messages.offset_commit_key import OffsetCommitKey
from support.clients.confluent import Confluent
from support.readers.journal import (
    ASSIGNED,
    CLOSED,
    COMMITTED,
    DIED,
    FAILED,
    LOST,
    PAUSED,
    PUT_OUT,
    REFUSED,
    REVOKED,
    Event,
    read_offsets,
)

GROUP_TOPIC = "__consumer_offsets"
GROUP_PARTITIONS = 50


class Tenure(NamedTuple):
    """A member owned a partition from one time to another; `doubtful_from` is when it was stopped
    or put out, and could not know any more."""

    partition: int
    member: str
    start: float
    end: float
    doubtful_from: float
    stamp: tuple[str, int]


def tenures(events: list[Event], end: float = float("inf")) -> list[Tenure]:
    open_since: dict[tuple[str, int], Event] = {}
    doubts: dict[str, list[Event]] = {}
    found: list[Tenure] = []

    def close(member: str, partition: int, at: float) -> None:
        event = open_since.pop((member, partition), None)
        known = doubts.get(member, ())
        if event is None or any(_was_out_already(each, event) for each in known):
            return
        doubtful = min((each.at for each in known if each.at >= event.at), default=at)
        found.append(Tenure(partition, member, event.at, at, doubtful, event.stamp))

    for event in sorted(events, key=lambda each: each.at):
        if event.what == ASSIGNED:
            for partition in event.partitions:
                close(event.member, partition, event.at)  # told again what it had
                open_since[event.member, partition] = event
        elif event.what in (REVOKED, LOST):
            for partition in event.partitions:
                close(event.member, partition, event.at)
        elif event.what in (DIED, CLOSED):
            for member, partition in list(open_since):
                if member == event.member:
                    close(member, partition, event.at)
        elif event.what in (PAUSED, PUT_OUT):
            doubts.setdefault(event.member, []).append(event)
    for member, partition in list(open_since):
        close(member, partition, end)
    return sorted(found, key=lambda each: (each.partition, each.start))


def _was_out_already(doubt: Event, assigned: Event) -> bool:
    """What the broker had sent before it put a member out may be heard after that, by one that was
    stopped meanwhile or waited for the processor: it is of the epoch before, and gives nothing.
    """
    is_of_that_member = doubt.what == PUT_OUT and doubt.stamp[0] == assigned.stamp[0]
    return is_of_that_member and doubt.at < assigned.at and assigned.stamp[1] <= doubt.stamp[1]


_PUT_OUT = re.compile(
    r"time=(\S+) .*event=\"member removed\" group=(\S+) member=(\"[^\"]*\"|\S+)"
    r" (?:epoch|generation)=(-?\d+)"
)


def put_out(events: list[Event], group: str, output: Iterable[str]) -> list[Event]:
    """Who of the group was put out by the broker and when, by the broker's own lines."""
    ahead_s = time.time() - time.monotonic()
    names = {event.stamp[0]: event.member for event in events if event.stamp[0]}
    found: list[Event] = []
    for line in output:
        match = _PUT_OUT.match(line)
        if match is not None and match[2] == group:
            member = names.get(match[3].strip('"'))
            if member is not None:
                at = datetime.fromisoformat(match[1]).timestamp() - ahead_s
                stamp = match[3].strip('"'), int(match[4])
                found.append(Event(at, member, PUT_OUT, {}, stamp=stamp))
    return found


def overlaps(events: list[Event], tolerance_s: float = 0.0) -> list[str]:
    """Where a partition had two owners at once, in words."""
    wrong: list[str] = []
    previous: Tenure | None = None
    for tenure in tenures(events):
        if previous is None or previous.partition != tenure.partition:
            previous = tenure
            continue
        certain_end = min(previous.end, previous.doubtful_from)
        if previous.member != tenure.member and tenure.start + tolerance_s < certain_end:
            wrong.append(f"{previous} and {tenure}")
        if tenure.end >= previous.end or previous.doubtful_from < previous.end:
            previous = tenure
    return wrong


def commits_of_the_fenced(events: list[Event]) -> list[str]:
    """Commits that succeeded though another member had been given the partition before."""
    owners = tenures(events)
    wrong: list[str] = []
    for event in events:
        if event.what != COMMITTED:
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
    return [f"{event.member}: {event.words}" for event in events if event.what == FAILED]


def unread(events: list[Event], ends: dict[int, int]) -> dict[int, list[int]]:
    """The offsets of each partition that nobody processed; the first ten."""
    found = read_offsets(events)
    missing = {
        partition: sorted(set(range(end)) - set(found.get(partition, ())))[:10]
        for partition, end in ends.items()
    }
    return {partition: some for partition, some in missing.items() if some}


def commits_that_went_back(
    library: Confluent, group: str, topic: str, events: list[Event]
) -> list[str]:
    """By the log of commits itself: every commit that was written, in the order of the log; with
    what the members told of those two commits."""
    partition = partition_for(group, GROUP_PARTITIONS)
    _, end = library.bounds(GROUP_TOPIC, partition)
    last: dict[int, int] = {}
    wrong: list[str] = []
    for row in library.consume(GROUP_TOPIC, end, partition=partition):
        key, value, _ = GROUP_RECORDS.decode(row.key, row.value)
        if isinstance(key, OffsetCommitKey) and (key.group, key.topic) == (group, topic):
            offset = -1 if value is None else value.offset
            if offset < last.get(key.partition, 0):
                both = (last[key.partition], offset)
                told = [
                    event
                    for event in events
                    if event.what in (COMMITTED, REFUSED)
                    and event.partitions.get(key.partition) in both
                ]
                wrong.append(f"{topic}-{key.partition}: {both[0]}, then {both[1]}; told: {told}")
            last[key.partition] = offset
    return wrong
