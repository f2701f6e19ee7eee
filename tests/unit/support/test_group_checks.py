"""The checks of group invariants detect violations."""

import time
from datetime import UTC, datetime

from support.group_consumers.event_journal import (
    ASSIGNED,
    CLOSED,
    COMMITTED,
    DIED,
    JOINED,
    LOST,
    PAUSED,
    READ,
    RESUMED,
    REVOKED,
    Event,
    owned_partitions,
    read_offsets,
)
from support.group_consumers.group_checks import fenced_commits, overlaps, removals, unread


def event(at: float, member: str, kind: str, *partitions: int, since: float = 0.0) -> Event:
    return Event(at, member, kind, dict.fromkeys(partitions), since)


def test_two_owners_at_the_same_time_are_found() -> None:
    events = [event(1, "anna", ASSIGNED, 0, 1), event(2, "ben", ASSIGNED, 1)]
    assert len(overlaps(events)) == 1
    assert overlaps([*events[:1], event(1.5, "anna", REVOKED, 1), *events[1:]]) == []


def test_ownership_ends_with_the_death_of_a_member() -> None:
    events = [event(1, "anna", ASSIGNED, 0), event(3, "ben", ASSIGNED, 0)]
    for end in (DIED, CLOSED):
        assert overlaps([*events, event(2, "anna", end)]) == []
        assert len(overlaps([*events, event(4, "anna", end)])) == 1


def test_only_a_paused_member_may_overlap_with_the_next_owner() -> None:
    events = [event(1, "anna", ASSIGNED, 0), event(5, "ben", ASSIGNED, 0)]
    late = event(7, "anna", LOST, 0)
    assert len(overlaps([*events, late])) == 1
    assert overlaps([*events, late, event(2, "anna", PAUSED)]) == []
    assert len(overlaps([*events, late, event(6, "anna", PAUSED)])) == 1


def test_a_member_paused_again_at_once_stays_uncertain() -> None:
    events = [event(1, "anna", ASSIGNED, 0), event(5, "ben", ASSIGNED, 0)]
    events += [event(2, "anna", PAUSED), event(6, "anna", RESUMED), event(6, "anna", PAUSED)]
    assert overlaps([*events, event(9, "anna", LOST, 0)]) == []


def test_a_removed_member_may_overlap_from_its_removal_on() -> None:
    second = datetime.fromtimestamp(time.time(), UTC).isoformat()
    now = time.monotonic()
    anna = event(now - 9, "anna", ASSIGNED, 0)._replace(identity=("anna-7", 3))
    events = [anna, event(now + 5, "ben", ASSIGNED, 0), event(now + 7, "anna", LOST, 0)]
    line = (
        f'time={second} level=info logger=x event="member removed" group=g member=anna-7'
        ' epoch=3 reason=""'
    )
    assert len(overlaps(events)) == 1
    assert overlaps([*events, *removals(events, "g", ["else", line])]) == []
    assert removals(events, "another", [line]) == []
    early = [anna, event(now - 2, "ben", ASSIGNED, 0), event(now + 7, "anna", LOST, 0)]
    assert len(overlaps([*early, *removals(early, "g", [line])])) == 1


def test_an_assignment_handled_after_the_removal_is_ignored() -> None:
    second = datetime.fromtimestamp(time.time(), UTC).isoformat()
    now = time.monotonic()
    line = (
        f'time={second} level=info logger=x event="member removed" group=g member=anna-7'
        ' generation=3 reason=""'
    )
    ben = [event(now + 1, "ben", ASSIGNED, 0), event(now + 9, "ben", REVOKED, 0)]
    for epoch, wrong in ((3, 0), (4, 1)):
        anna = event(now + 5, "anna", ASSIGNED, 0)._replace(identity=("anna-7", epoch))
        events = [*ben, anna, event(now + 7, "anna", LOST, 0)]
        assert len(overlaps([*events, *removals(events, "g", [line])])) == wrong


def test_a_long_ownership_is_compared_with_all_later_ones() -> None:
    events = [event(1, "anna", ASSIGNED, 0)]
    events += [event(2, "ben", ASSIGNED, 0), event(3, "ben", REVOKED, 0)]
    events += [event(4, "carla", ASSIGNED, 0), event(5, "carla", REVOKED, 0)]
    assert len(overlaps(events)) == 2


def test_a_commit_after_the_assignment_to_another_member_is_found() -> None:
    events = [event(1, "anna", ASSIGNED, 0), event(2, "ben", ASSIGNED, 0)]
    fenced = event(4, "anna", COMMITTED, 0, since=3)
    begun_before = event(4, "anna", COMMITTED, 0, since=1.5)
    assert len(fenced_commits([*events, fenced])) == 1
    assert fenced_commits([*events, begun_before]) == []
    assert fenced_commits([*events, event(4, "ben", COMMITTED, 0, since=3)]) == []


def test_unread_records_are_found() -> None:
    events = [Event(1, "anna", READ, {0: (0, 4), 1: (2, 3)}), Event(2, "ben", READ, {0: (3, 6)})]
    assert read_offsets(events) == {0: [0, 1, 2, 3, 4, 3, 4, 5, 6], 1: [2, 3]}
    assert unread(events, {0: 7, 1: 4}) == {1: [0, 1]}


def test_owned_partitions_follow_the_events_of_each_member() -> None:
    events = [event(1, "anna", JOINED), event(2, "anna", ASSIGNED, 0, 1), event(3, "ben", JOINED)]
    assert owned_partitions(events) == {"anna": {0, 1}, "ben": set()}
    events += [event(4, "anna", LOST, 1), event(5, "ben", CLOSED)]
    assert owned_partitions(events) == {"anna": {0}}
