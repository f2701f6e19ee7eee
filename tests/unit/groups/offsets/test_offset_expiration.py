"""The expiration of offsets and of groups without offsets."""

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.context import Caller
from sawlog.groups.offsets import offset_expiration
from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from support.groups.group_records import classic_group, consumer_group
from support.groups.offsets import MINUTE_MS, START_MS, OffsetsWorld

T0, U0 = ("t", 0), ("u", 0)
RETENTION_MS = 10 * MINUTE_MS
ONE_BYTES = 304
"""The bytes counted for a tombstone of a group whose id is one character."""


def world_of(**lives: int) -> OffsetsWorld:
    """Offsets expire after ten minutes; the check runs every minute."""
    return OffsetsWorld(
        lives or {"t": 1},
        offsets_retention_minutes="10",
        offsets_retention_check_interval_ms=str(MINUTE_MS),
    )


def test_offsets_of_a_simple_group_expire_after_their_commit() -> None:
    world = world_of(t=1, u=1)
    world.commit("g", {T0: 1, U0: 1})
    world.pass_ms(MINUTE_MS)
    world.commit("g", {T0: 2})
    world.pass_ms(RETENTION_MS - MINUTE_MS - 1)
    assert world.fetch("g") == {T0: (2, ""), U0: (1, "")}
    world.pass_ms(1)
    assert world.fetch("g") == {T0: (2, "")}
    world.pass_ms(MINUTE_MS)
    assert world.fetch("g") == {}
    assert world.machine.groups == {}
    rebuilt = world.rebuilt()
    assert rebuilt.groups == {}
    assert rebuilt.offsets.by_group == {}


def test_offsets_of_an_empty_classic_group_expire_after_its_last_member_left() -> None:
    world = world_of()
    world.write(classic_group("g", {}, since_ms=START_MS + 5 * MINUTE_MS))
    world.commit("g", {T0: 1})
    world.pass_ms(RETENTION_MS)
    assert world.fetch("g") == {T0: (1, "")}
    world.pass_ms(5 * MINUTE_MS)
    assert world.machine.groups == {}


def test_without_a_state_timestamp_the_retention_starts_with_the_commit() -> None:
    world = world_of()
    world.write(classic_group("g", {}))
    world.pass_ms(5 * MINUTE_MS)
    world.commit("g", {T0: 1})
    world.pass_ms(RETENTION_MS - 1)
    assert world.fetch("g") == {T0: (1, "")}
    world.pass_ms(1)
    assert world.fetch("g") == {}


def test_offsets_of_subscribed_topics_do_not_expire() -> None:
    for group in ([classic_group("g", {"m": ["t"]})], consumer_group("g", {"m": ["t"]})):
        world = world_of(t=1, u=1)
        world.write(*group)
        world.commit("g", {T0: 1, U0: 1}, member="m", epoch=1)
        world.pass_ms(RETENTION_MS)
        assert world.fetch("g") == {T0: (1, "")}
        assert world.machine.groups.keys() == {"g"}


def test_offsets_do_not_expire_while_subscriptions_are_unknown() -> None:
    world = world_of()
    world.write(classic_group("g", {"m": []}, protocol_type="connect"))
    world.commit("g", {T0: 1}, member="m", epoch=1)
    world.pass_ms(2 * RETENTION_MS)
    assert world.fetch("g") == {T0: (1, "")}


def test_offsets_do_not_expire_during_a_rebalance() -> None:
    world = world_of(t=1, u=1)
    world.write(classic_group("g", {"m": ["t"], "n": ["t"]}))
    world.commit("g", {U0: 1}, member="m", epoch=1)
    message = LeaveGroupRequest("g", members=[MemberIdentity("n")])
    caller = Caller("client", "/host", 5)
    world.do(lambda: world.machine.classic.leave(caller, message))
    assert world.machine.groups["g"].state_name == "PreparingRebalance"
    world.pass_ms(2 * RETENTION_MS)
    assert world.fetch("g") == {U0: (1, "")}


def test_offsets_of_an_empty_consumer_group_expire_after_their_commit() -> None:
    world = world_of()
    world.write(*consumer_group("g", {}))
    world.commit("g", {T0: 1})
    world.pass_ms(RETENTION_MS)
    assert world.machine.groups == {}
    assert world.rebuilt().groups == {}


def test_the_expiry_time_of_a_client_replaces_the_retention() -> None:
    world = world_of(t=1, u=1)
    world.commit("g", {T0: 1}, version=4, retention_ms=2 * MINUTE_MS)
    world.commit("g", {U0: 1}, version=4, retention_ms=2 * RETENTION_MS)
    world.pass_ms(2 * MINUTE_MS)
    assert world.fetch("g") == {U0: (1, "")}
    world.pass_ms(2 * RETENTION_MS - 2 * MINUTE_MS - 1)
    assert world.fetch("g") == {U0: (1, "")}
    world.pass_ms(1)
    assert world.fetch("g") == {}


def test_the_expiry_time_of_a_client_does_not_apply_to_subscribed_topics() -> None:
    world = world_of()
    world.write(classic_group("g", {"m": ["t"]}))
    world.commit("g", {T0: 1}, member="m", epoch=1, version=4, retention_ms=MINUTE_MS)
    world.pass_ms(5 * MINUTE_MS)
    assert world.fetch("g") == {T0: (1, "")}


def test_an_empty_group_without_offsets_is_deleted_at_the_next_check() -> None:
    world = world_of()
    world.write(classic_group("g", {}, since_ms=START_MS))
    world.commit("h", {T0: 1})
    world.delete_offsets("h", T0)
    world.pass_ms(MINUTE_MS)
    assert world.machine.groups == {}


def test_a_non_empty_group_without_offsets_is_kept() -> None:
    world = world_of()
    world.write(*consumer_group("g", {"m": ["t"]}))
    world.pass_ms(2 * RETENTION_MS)
    assert world.machine.groups.keys() == {"g"}


def test_the_retention_continues_across_a_restart() -> None:
    world = world_of()
    world.commit("g", {T0: 1})
    world.pass_ms(9 * MINUTE_MS)
    world.restart()
    world.pass_ms(MINUTE_MS)
    assert world.fetch("g") == {}


@pytest.mark.parametrize("tombstones", [0, 1, 4])
def test_many_offsets_expire_in_batches(monkeypatch: pytest.MonkeyPatch, tombstones: int) -> None:
    monkeypatch.setattr(offset_expiration, "STEP_BYTES", tombstones * ONE_BYTES)
    monkeypatch.setattr(offset_expiration, "STEP_GROUPS", 2)
    world = world_of()
    for group in "abcde":
        world.commit(group, {("t", index): 1 for index in range(9)})
    world.pass_ms(MINUTE_MS)
    world.commit("f", {T0: 1})
    before = world.batches
    world.pass_ms(RETENTION_MS - MINUTE_MS)
    assert world.machine.groups.keys() == {"f"}
    assert world.fetch("f") == {T0: (1, "")}
    assert world.batches - before >= 45 // max(tombstones, 1)
    assert len(world.written) == 46 + 45 + 5  # nothing is written twice
    assert world.rebuilt().offsets.by_group == world.machine.offsets.by_group


def test_a_failed_expiration_is_repeated_at_the_next_check() -> None:
    world = world_of()
    world.commit("g", {T0: 1})
    world.fails = KafkaError(ErrorCode.NOT_COORDINATOR)
    world.pass_ms(RETENTION_MS)
    assert world.get("g") is not None
    world.fails = None
    world.pass_ms(MINUTE_MS)
    assert world.machine.groups == {}


def test_groups_with_long_ids_expire_in_small_batches() -> None:
    world = world_of()
    for letter in "abc":
        world.commit(letter * 30_000, {("t", index): 1 for index in range(9)})
    before = world.batches
    world.pass_ms(RETENTION_MS)
    assert world.machine.groups == {}
    assert world.batches - before > 20
