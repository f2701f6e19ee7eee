"""When offsets expire by themselves, and when a group goes with them."""

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
"""So many are counted for a tombstone of a group whose id is one letter."""


def world_of(**lives: int) -> OffsetsWorld:
    """Looks every minute for offsets that are older than ten."""
    return OffsetsWorld(
        lives or {"t": 1},
        offsets_retention_minutes="10",
        offsets_retention_check_interval_ms=str(MINUTE_MS),
    )


def test_offsets_of_a_simple_group_expire_after_their_last_commit() -> None:
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
    assert world.shard.groups == {}
    rebuilt = world.rebuilt()
    assert rebuilt.groups == {}
    assert rebuilt.offsets.by_group == {}


def test_offsets_of_an_empty_classic_group_expire_after_its_last_member() -> None:
    world = world_of()
    world.write(classic_group("g", {}, since_ms=START_MS + 5 * MINUTE_MS))
    world.commit("g", {T0: 1})
    world.pass_ms(RETENTION_MS)
    assert world.fetch("g") == {T0: (1, "")}
    world.pass_ms(5 * MINUTE_MS)
    assert world.shard.groups == {}


def test_a_group_that_does_not_know_since_when_it_is_empty_counts_from_commits() -> None:
    world = world_of()
    world.write(classic_group("g", {}))
    world.pass_ms(5 * MINUTE_MS)
    world.commit("g", {T0: 1})
    world.pass_ms(RETENTION_MS - 1)
    assert world.fetch("g") == {T0: (1, "")}
    world.pass_ms(1)
    assert world.fetch("g") == {}


def test_offsets_of_topics_that_members_read_stay() -> None:
    for group in ([classic_group("g", {"m": ["t"]})], consumer_group("g", {"m": ["t"]})):
        world = world_of(t=1, u=1)
        world.write(*group)
        world.commit("g", {T0: 1, U0: 1}, member="m", epoch=1)
        world.pass_ms(RETENTION_MS)
        assert world.fetch("g") == {T0: (1, "")}
        assert world.shard.groups.keys() == {"g"}


def test_offsets_stay_where_nobody_knows_what_members_read() -> None:
    world = world_of()
    world.write(classic_group("g", {"m": []}, protocol_type="connect"))
    world.commit("g", {T0: 1}, member="m", epoch=1)
    world.pass_ms(2 * RETENTION_MS)
    assert world.fetch("g") == {T0: (1, "")}


def test_nothing_expires_while_a_group_rebalances() -> None:
    world = world_of(t=1, u=1)
    world.write(classic_group("g", {"m": ["t"], "n": ["t"]}))
    world.commit("g", {U0: 1}, member="m", epoch=1)
    message = LeaveGroupRequest("g", members=[MemberIdentity("n")])
    caller = Caller("client", "/host", 5)
    world.do(lambda: world.shard.classic.leave(caller, message))
    assert world.shard.groups["g"].state_name == "PreparingRebalance"
    world.pass_ms(2 * RETENTION_MS)
    assert world.fetch("g") == {U0: (1, "")}


def test_offsets_of_a_consumer_group_without_members_expire_after_their_commit() -> None:
    world = world_of()
    world.write(*consumer_group("g", {}))
    world.commit("g", {T0: 1})
    world.pass_ms(RETENTION_MS)
    assert world.shard.groups == {}
    assert world.rebuilt().groups == {}


def test_a_time_of_expiry_that_a_client_chose_counts_alone() -> None:
    world = world_of(t=1, u=1)
    world.commit("g", {T0: 1}, version=4, retention_ms=2 * MINUTE_MS)
    world.commit("g", {U0: 1}, version=4, retention_ms=2 * RETENTION_MS)
    world.pass_ms(2 * MINUTE_MS)
    assert world.fetch("g") == {U0: (1, "")}
    world.pass_ms(2 * RETENTION_MS - 2 * MINUTE_MS - 1)
    assert world.fetch("g") == {U0: (1, "")}
    world.pass_ms(1)
    assert world.fetch("g") == {}


def test_a_chosen_time_of_expiry_does_not_touch_what_members_read() -> None:
    world = world_of()
    world.write(classic_group("g", {"m": ["t"]}))
    world.commit("g", {T0: 1}, member="m", epoch=1, version=4, retention_ms=MINUTE_MS)
    world.pass_ms(5 * MINUTE_MS)
    assert world.fetch("g") == {T0: (1, "")}


def test_an_empty_group_without_offsets_goes_at_the_next_look() -> None:
    world = world_of()
    world.write(classic_group("g", {}, since_ms=START_MS))
    world.commit("h", {T0: 1})
    world.delete_offsets("h", T0)
    world.pass_ms(MINUTE_MS)
    assert world.shard.groups == {}


def test_a_group_with_members_and_no_offsets_stays() -> None:
    world = world_of()
    world.write(*consumer_group("g", {"m": ["t"]}))
    world.pass_ms(2 * RETENTION_MS)
    assert world.shard.groups.keys() == {"g"}


def test_time_counts_over_a_restart() -> None:
    world = world_of()
    world.commit("g", {T0: 1})
    world.pass_ms(9 * MINUTE_MS)
    world.restart()
    world.pass_ms(MINUTE_MS)
    assert world.fetch("g") == {}


@pytest.mark.parametrize("tombstones", [0, 1, 4])
def test_much_that_expires_goes_batch_by_batch(
    monkeypatch: pytest.MonkeyPatch, tombstones: int
) -> None:
    monkeypatch.setattr(offset_expiration, "STEP_BYTES", tombstones * ONE_BYTES)
    monkeypatch.setattr(offset_expiration, "STEP_GROUPS", 2)
    world = world_of()
    for group in "abcde":
        world.commit(group, {("t", index): 1 for index in range(9)})
    world.pass_ms(MINUTE_MS)
    world.commit("f", {T0: 1})
    before = world.batches
    world.pass_ms(RETENTION_MS - MINUTE_MS)
    assert world.shard.groups.keys() == {"f"}
    assert world.fetch("f") == {T0: (1, "")}
    assert world.batches - before >= 45 // max(tombstones, 1)
    assert len(world.written) == 46 + 45 + 5  # nothing is written twice
    assert world.rebuilt().offsets.by_group == world.shard.offsets.by_group


def test_what_could_not_be_written_expires_at_the_next_look() -> None:
    world = world_of()
    world.commit("g", {T0: 1})
    world.fails = KafkaError(ErrorCode.NOT_COORDINATOR)
    world.pass_ms(RETENTION_MS)
    assert world.get("g") is not None
    world.fails = None
    world.pass_ms(MINUTE_MS)
    assert world.shard.groups == {}


def test_groups_with_long_ids_expire_in_small_batches() -> None:
    world = world_of()
    for letter in "abc":
        world.commit(letter * 30_000, {("t", index): 1 for index in range(9)})
    before = world.batches
    world.pass_ms(RETENTION_MS)
    assert world.shard.groups == {}
    assert world.batches - before > 20
