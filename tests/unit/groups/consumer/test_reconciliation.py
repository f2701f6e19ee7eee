"""The state table of a member: every state with every heartbeat, and the steps."""

from collections.abc import Mapping
from typing import Any

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicId
from sawlog.groups.consumer.consumer_member import (
    STABLE,
    UNKNOWN,
    UNRELEASED,
    UNREVOKED,
    ConsumerMember,
    MemberState,
)
from sawlog.groups.consumer.reconciliation import (
    OUTCOMES,
    STEPS,
    Event,
    Heartbeat,
    Obstacle,
    reconcile,
)

T, U = TopicId(b"t" * 16), TopicId(b"u" * 16)
EPOCH, TARGET_EPOCH, GIVEN = 5, 7, 3


def held(*indexes: int, epoch: int = GIVEN) -> dict[int, int]:
    return dict.fromkeys(indexes, epoch)


def member(state: MemberState = STABLE, **fields: Any) -> ConsumerMember:
    fields.setdefault("assigned", {T: held(0, 1)})
    return ConsumerMember("m", EPOCH, EPOCH - 1, state, **fields)


def heartbeat(
    target: Mapping[TopicId, set[int]] | None = None,
    *,
    epoch: int = TARGET_EPOCH,
    changed: bool = False,
    owned: Mapping[TopicId, list[int]] | None = None,
    others: Mapping[TopicId, set[int]] | None = None,
    reads: tuple[TopicId, ...] = (T, U),
) -> Heartbeat:
    held_by_others = others or {}
    return Heartbeat(
        epoch,
        {topic: frozenset(indexes) for topic, indexes in (target or {T: {0, 1}}).items()},
        changed,
        None if owned is None else list(owned.items()),
        lambda topic: dict.fromkeys(held_by_others.get(topic, ()), "other"),
        lambda topic: topic in reads,
    )


# The table


def test_every_state_handles_every_heartbeat() -> None:
    assert set(STEPS) == set(MemberState)
    assert all(rows[-1][0] is Event.HEARTBEAT for rows in STEPS.values())
    assert set(OUTCOMES) == set(Obstacle)


STAYS, ADVANCES, TRIMS, FENCED = "stays", "advances", "trims", "fenced"

# (new target, new subscription, what it reports) -> for each state
NOTHING_SAID, STILL_HAS, HAS_REVOKED, HAS_NOTHING = None, [0, 1, 2], [0, 1], []
CASES = [
    # newer, changed, owned: stable, unrevoked, unreleased, unknown
    (False, False, NOTHING_SAID, STAYS, STAYS, ADVANCES, FENCED),
    (False, False, STILL_HAS, STAYS, STAYS, ADVANCES, FENCED),
    (False, False, HAS_REVOKED, STAYS, ADVANCES, ADVANCES, FENCED),
    (False, False, HAS_NOTHING, STAYS, ADVANCES, ADVANCES, ADVANCES),
    (False, True, NOTHING_SAID, TRIMS, TRIMS, ADVANCES, FENCED),
    (False, True, STILL_HAS, TRIMS, TRIMS, ADVANCES, FENCED),
    (False, True, HAS_REVOKED, TRIMS, ADVANCES, ADVANCES, FENCED),
    (False, True, HAS_NOTHING, TRIMS, ADVANCES, ADVANCES, ADVANCES),
    (True, False, NOTHING_SAID, ADVANCES, STAYS, ADVANCES, FENCED),
    (True, False, STILL_HAS, ADVANCES, STAYS, ADVANCES, FENCED),
    (True, False, HAS_REVOKED, ADVANCES, ADVANCES, ADVANCES, FENCED),
    (True, False, HAS_NOTHING, ADVANCES, ADVANCES, ADVANCES, ADVANCES),
    (True, True, NOTHING_SAID, ADVANCES, TRIMS, ADVANCES, FENCED),
    (True, True, STILL_HAS, ADVANCES, TRIMS, ADVANCES, FENCED),
    (True, True, HAS_REVOKED, ADVANCES, ADVANCES, ADVANCES, FENCED),
    (True, True, HAS_NOTHING, ADVANCES, ADVANCES, ADVANCES, ADVANCES),
]


@pytest.mark.parametrize(
    ("state", "column"), [(STABLE, 3), (UNREVOKED, 4), (UNRELEASED, 5), (UNKNOWN, 6)]
)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_state_and_heartbeat_gives_the_step_of_the_table(
    state: MemberState, column: int, case: tuple[Any, ...]
) -> None:
    """The member owns 0 and 1, and must revoke 2 if it is unrevoked; it no longer subscribes to
    topic u, of which it owns partition 9; the target has 3 in place of 1."""
    newer, changed, owned, expected = case[0], case[1], case[2], case[column]
    revoking = {T: held(2)} if state is UNREVOKED else {}
    before = member(state, assigned={T: held(0, 1), U: held(9)}, revoking=revoking)
    now = heartbeat(
        {T: {0, 3}, U: {9}},
        epoch=TARGET_EPOCH if newer else EPOCH,
        changed=changed,
        owned=None if owned is None else {T: owned},
        reads=(T,),
    )
    if owned == []:
        now = now._replace(owned=[])
    if expected == FENCED:
        with pytest.raises(KafkaError) as refused:
            reconcile(before, now)
        assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
        return
    after = reconcile(before, now)
    took = set(after.assigned.get(T, ()))
    if expected == STAYS:
        assert after is before
    elif expected == TRIMS:
        assert took == {0, 1}
        assert U not in after.assigned
        assert after.epoch == EPOCH
    else:
        assert took in ({0}, {0, 3})
        assert U not in after.assigned


# Steps


def test_a_member_advances_to_a_target_that_it_owns_already() -> None:
    after = reconcile(member(), heartbeat())
    assert (after.epoch, after.previous_epoch, after.state) == (TARGET_EPOCH, EPOCH, STABLE)
    assert after.assigned == {T: held(0, 1)}


def test_a_member_must_revoke_before_it_gets_new_partitions() -> None:
    after = reconcile(member(), heartbeat({T: {1, 2}}))
    assert (after.epoch, after.previous_epoch, after.state) == (EPOCH, EPOCH, UNREVOKED)
    assert after.assigned == {T: held(1)}
    assert after.revoking == {T: held(0)}


def test_partitions_that_are_not_reported_need_no_revocation() -> None:
    after = reconcile(member(), heartbeat({T: {1, 2}}, owned={T: [1]}))
    assert (after.epoch, after.state) == (TARGET_EPOCH, STABLE)
    assert after.assigned == {T: {1: GIVEN, 2: TARGET_EPOCH}}
    assert after.revoking == {}


def test_free_partitions_are_assigned_at_once_and_owned_ones_later() -> None:
    first = reconcile(member(), heartbeat({T: {0, 1, 2, 3}}, others={T: {3}}))
    assert (first.epoch, first.state) == (TARGET_EPOCH, UNRELEASED)
    assert set(first.assigned[T]) == {0, 1, 2}
    still = reconcile(first, heartbeat({T: {0, 1, 2, 3}}, others={T: {3}}))
    assert still == first._replace(previous_epoch=TARGET_EPOCH)
    last = reconcile(still, heartbeat({T: {0, 1, 2, 3}}))
    assert (last.epoch, last.state) == (TARGET_EPOCH, STABLE)
    assert set(last.assigned[T]) == {0, 1, 2, 3}


def test_a_member_may_get_back_a_partition_that_it_is_revoking() -> None:
    before = member(UNREVOKED, assigned={T: held(0)}, revoking={T: held(1)})
    after = reconcile(before, heartbeat({T: {0, 1}}, owned={T: [0]}, others={T: {1}}))
    assert (after.epoch, after.state) == (TARGET_EPOCH, STABLE)
    assert after.assigned == {T: {0: GIVEN, 1: TARGET_EPOCH}}


def test_a_member_may_have_to_revoke_more_after_a_revocation() -> None:
    before = member(UNREVOKED, assigned={T: held(0, 1)}, revoking={T: held(2)})
    after = reconcile(before, heartbeat({T: {0}}, owned={T: [0, 1]}))
    assert (after.epoch, after.state) == (EPOCH, UNREVOKED)
    assert (after.assigned, after.revoking) == ({T: held(0)}, {T: held(1)})


def test_targets_in_unsubscribed_topics_are_ignored() -> None:
    after = reconcile(member(), heartbeat({T: {0, 1}, U: {0}}, reads=(T,)))
    assert after.assigned == {T: held(0, 1)}
    assert after.state is STABLE


def test_partitions_of_unsubscribed_topics_are_revoked_in_the_same_epoch() -> None:
    before = member(assigned={T: held(0), U: held(1)})
    now = heartbeat({T: {0}, U: {1}}, epoch=EPOCH, changed=True, reads=(U,))
    after = reconcile(before, now)
    assert (after.epoch, after.state) == (EPOCH, UNREVOKED)
    assert (after.assigned, after.revoking) == ({U: held(1)}, {T: held(0)})


def test_unsubscribing_adds_to_the_partitions_to_revoke() -> None:
    before = member(UNREVOKED, assigned={T: held(0), U: held(1)}, revoking={T: held(2)})
    after = reconcile(before, heartbeat(epoch=EPOCH, changed=True, reads=()))
    assert after.state is UNREVOKED
    assert (after.assigned, after.revoking) == ({}, {T: held(0, 2), U: held(1)})


def test_unreported_partitions_of_unsubscribed_topics_are_dropped() -> None:
    before = member(assigned={T: held(0), U: held(1)})
    after = reconcile(before, heartbeat(epoch=EPOCH, changed=True, reads=(U,), owned={U: [1]}))
    assert (after.epoch, after.previous_epoch, after.state) == (EPOCH, EPOCH, STABLE)
    assert (after.assigned, after.revoking) == ({U: held(1)}, {})


def test_a_wider_subscription_changes_nothing_before_the_next_target() -> None:
    before = member()
    assert reconcile(before, heartbeat(epoch=EPOCH, changed=True)) is before


def test_a_member_in_an_unknown_state_advances_if_it_owns_nothing() -> None:
    before = member(UNKNOWN, assigned={T: held(0)})
    after = reconcile(before, heartbeat({T: {1}})._replace(owned=[]))
    assert (after.epoch, after.state) == (TARGET_EPOCH, STABLE)
    assert set(after.assigned[T]) == {1}
