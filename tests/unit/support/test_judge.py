"""The judge of groups finds what it looks for: so its silence means something."""

import time
from datetime import UTC, datetime

from support.readers.journal import (
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
    holdings,
    read_offsets,
)
from support.readers.judge import commits_of_the_fenced, overlaps, put_out, unread


def event(at: float, member: str, what: str, *partitions: int, since: float = 0.0) -> Event:
    return Event(at, member, what, dict.fromkeys(partitions), since)


def test_two_owners_at_once_are_found() -> None:
    events = [event(1, "anna", ASSIGNED, 0, 1), event(2, "ben", ASSIGNED, 1)]
    assert len(overlaps(events)) == 1
    assert overlaps([*events[:1], event(1.5, "anna", REVOKED, 1), *events[1:]]) == []


def test_what_a_dead_member_had_is_nobodys() -> None:
    events = [event(1, "anna", ASSIGNED, 0), event(3, "ben", ASSIGNED, 0)]
    for end in (DIED, CLOSED):
        assert overlaps([*events, event(2, "anna", end)]) == []
        assert len(overlaps([*events, event(4, "anna", end)])) == 1


def test_a_stopped_member_may_believe_what_it_likes_and_no_other() -> None:
    events = [event(1, "anna", ASSIGNED, 0), event(5, "ben", ASSIGNED, 0)]
    late = event(7, "anna", LOST, 0)
    assert len(overlaps([*events, late])) == 1
    assert overlaps([*events, late, event(2, "anna", PAUSED)]) == []
    assert len(overlaps([*events, late, event(6, "anna", PAUSED)])) == 1


def test_one_who_was_stopped_again_as_soon_as_it_went_on_knows_no_more_than_before() -> None:
    events = [event(1, "anna", ASSIGNED, 0), event(5, "ben", ASSIGNED, 0)]
    events += [event(2, "anna", PAUSED), event(6, "anna", RESUMED), event(6, "anna", PAUSED)]
    assert overlaps([*events, event(9, "anna", LOST, 0)]) == []


def test_one_who_was_put_out_may_believe_what_it_likes_from_then_on() -> None:
    second = datetime.fromtimestamp(time.time(), UTC).isoformat()
    now = time.monotonic()
    anna = event(now - 9, "anna", ASSIGNED, 0)._replace(stamp=("anna-7", 3))
    events = [anna, event(now + 5, "ben", ASSIGNED, 0), event(now + 7, "anna", LOST, 0)]
    line = (
        f'time={second} level=info logger=x event="member removed" group=g member=anna-7'
        ' epoch=3 reason=""'
    )
    assert len(overlaps(events)) == 1
    assert overlaps([*events, *put_out(events, "g", ["else", line])]) == []
    assert put_out(events, "another", [line]) == []
    early = [anna, event(now - 2, "ben", ASSIGNED, 0), event(now + 7, "anna", LOST, 0)]
    assert len(overlaps([*early, *put_out(early, "g", [line])])) == 1


def test_what_one_was_given_before_it_was_put_out_may_be_heard_after_that() -> None:
    second = datetime.fromtimestamp(time.time(), UTC).isoformat()
    now = time.monotonic()
    line = (
        f'time={second} level=info logger=x event="member removed" group=g member=anna-7'
        ' generation=3 reason=""'
    )
    ben = [event(now + 1, "ben", ASSIGNED, 0), event(now + 9, "ben", REVOKED, 0)]
    for epoch, wrong in ((3, 0), (4, 1)):
        anna = event(now + 5, "anna", ASSIGNED, 0)._replace(stamp=("anna-7", epoch))
        events = [*ben, anna, event(now + 7, "anna", LOST, 0)]
        assert len(overlaps([*events, *put_out(events, "g", [line])])) == wrong


def test_one_who_has_a_partition_for_long_is_held_against_all_who_come() -> None:
    events = [event(1, "anna", ASSIGNED, 0)]
    events += [event(2, "ben", ASSIGNED, 0), event(3, "ben", REVOKED, 0)]
    events += [event(4, "carla", ASSIGNED, 0), event(5, "carla", REVOKED, 0)]
    assert len(overlaps(events)) == 2


def test_a_commit_after_another_was_given_the_partition_is_found() -> None:
    events = [event(1, "anna", ASSIGNED, 0), event(2, "ben", ASSIGNED, 0)]
    fenced = event(4, "anna", COMMITTED, 0, since=3)
    begun_before = event(4, "anna", COMMITTED, 0, since=1.5)
    assert len(commits_of_the_fenced([*events, fenced])) == 1
    assert commits_of_the_fenced([*events, begun_before]) == []
    assert commits_of_the_fenced([*events, event(4, "ben", COMMITTED, 0, since=3)]) == []


def test_records_that_nobody_read_are_found() -> None:
    events = [Event(1, "anna", READ, {0: (0, 4), 1: (2, 3)}), Event(2, "ben", READ, {0: (3, 6)})]
    assert read_offsets(events) == {0: [0, 1, 2, 3, 4, 3, 4, 5, 6], 1: [2, 3]}
    assert unread(events, {0: 7, 1: 4}) == {1: [0, 1]}


def test_who_has_what_is_told_by_their_own_account() -> None:
    events = [event(1, "anna", JOINED), event(2, "anna", ASSIGNED, 0, 1), event(3, "ben", JOINED)]
    assert holdings(events) == {"anna": {0, 1}, "ben": set()}
    events += [event(4, "anna", LOST, 1), event(5, "ben", CLOSED)]
    assert holdings(events) == {"anna": {0}}
