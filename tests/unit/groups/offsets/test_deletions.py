"""Offsets that are deleted by OffsetDelete, with their group, or with their topic."""

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.offsets import offset_expiration
from support.groups.group_records import classic_group, consumer_group
from support.groups.offsets import OffsetsWorld

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
ONE_BYTES = 304
"""The bytes counted for a tombstone of a group whose id is one character."""

SUBSCRIBED = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


# OffsetDelete


def test_deleted_offsets_stay_deleted() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 1, T1: 2})
    assert world.delete_offsets("g", T0) == [0]
    assert world.fetch("g", T0, T1) == {T0: (-1, ""), T1: (2, "")}
    assert world.rebuilt().offsets.by_group == world.machine.offsets.by_group


def test_deleting_a_missing_offset_writes_nothing() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 1})
    written = len(world.written)
    assert world.delete_offsets("g", T1) == [0]
    assert len(world.written) == written


def test_a_group_stays_when_its_last_offset_is_deleted() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 1})
    world.delete_offsets("g", T0)
    assert world.machine.groups.keys() == {"g"}
    assert world.machine.offsets.by_group == {}


def test_offsets_of_an_unknown_group_cannot_be_deleted() -> None:
    assert OffsetsWorld().delete_offsets("g", T0) is ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    for group in ([classic_group("g", {"m": ["t"]})], consumer_group("g", {"m": ["t"]})):
        world = OffsetsWorld({"t": 1, "u": 1})
        world.write(*group)
        world.commit("g", {T0: 1, U0: 2}, member="m", epoch=1)
        assert world.delete_offsets("g", T0, U0) == [SUBSCRIBED, 0]
        assert world.fetch("g") == {T0: (1, "")}


def test_offsets_of_a_non_empty_group_with_unknown_topics_are_not_deleted() -> None:
    world = OffsetsWorld()
    world.write(classic_group("g", {"m": []}, protocol_type="connect"))
    assert world.delete_offsets("g", T0) is ErrorCode.NON_EMPTY_GROUP


# DeleteGroups


@pytest.mark.parametrize(
    "group",
    [[classic_group("g", {})], consumer_group("g", {}), []],
    ids=["classic", "consumer", "simple"],
)
def test_an_empty_group_is_deleted_with_all_its_offsets(group: list) -> None:
    world = OffsetsWorld({"t": 1, "u": 1})
    world.write(*group)
    world.commit("g", {T0: 1, T1: 1, U0: 2})
    world.commit("h", {T0: 3})
    assert world.delete_group("g") == 0
    assert world.machine.groups.keys() == {"h"}
    assert world.fetch("g") == {}
    rebuilt = world.rebuilt()
    assert rebuilt.groups.keys() == {"h"}
    assert rebuilt.offsets.by_group == world.machine.offsets.by_group
    assert world.delete_group("g") is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_non_empty_group_is_not_deleted() -> None:
    for group in ([classic_group("g", {"m": ["t"]})], consumer_group("g", {"m": ["t"]})):
        world = OffsetsWorld()
        world.write(*group)
        world.commit("g", {T0: 1}, member="m", epoch=1)
        assert world.delete_group("g") is ErrorCode.NON_EMPTY_GROUP
        assert world.fetch("g") == {T0: (1, "")}


# Deleted topics


def test_offsets_are_deleted_with_their_topic() -> None:
    world = OffsetsWorld({"t": 1, "u": 1})
    world.commit("g", {T0: 1, T1: 2, U0: 3})
    world.commit("h", {T0: 4})
    world.change_topics(t=None)
    assert world.fetch("g") == {U0: (3, "")}
    assert world.fetch("h") == {}
    assert world.machine.groups.keys() == {"g", "h"}
    assert world.rebuilt().offsets.by_group == world.machine.offsets.by_group


def test_a_recreated_topic_has_no_offsets() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 1})
    world.change_topics(t=2)
    assert world.machine.offsets.by_group == {}
    world.commit("g", {T0: 7})
    world.change_topics(u=1)
    assert world.fetch("g") == {T0: (7, "")}


def test_offsets_without_a_topic_id_are_deleted_with_the_topic() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 1}, version=4, retention_ms=1_000_000)
    world.change_topics(t=None)
    assert world.machine.offsets.by_group == {}


def test_subscriptions_do_not_keep_offsets_of_a_deleted_topic() -> None:
    world = OffsetsWorld()
    world.write(classic_group("g", {"m": ["t"]}))
    world.commit("g", {T0: 1}, member="m", epoch=1)
    world.change_topics(t=None)
    assert world.fetch("g") == {}


def test_many_offsets_are_deleted_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_expiration, "STEP_BYTES", 4 * ONE_BYTES)
    world = OffsetsWorld()
    for group in "abc":
        world.commit(group, {("t", index): 1 for index in range(5)})
    before = world.batches
    world.change_topics(t=None)
    world.pass_ms(1)
    assert world.machine.offsets.by_group == {}
    assert world.batches - before == 4


def test_offsets_committed_meanwhile_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_expiration, "STEP_BYTES", 1)
    world = OffsetsWorld()
    world.commit("g", {T0: 1, T1: 1})
    world.change_topics(t=2)
    [left] = [place for place in (T0, T1) if world.get("g", *place) is not None]
    world.commit("g", {left: 7})
    world.pass_ms(1)
    assert world.fetch("g") == {left: (7, "")}


def test_offsets_that_could_not_be_deleted_are_not_returned() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 1})
    world.fails = KafkaError(ErrorCode.NOT_COORDINATOR)
    world.change_topics(t=2)
    assert world.get("g") is not None
    assert world.fetch("g") == {}
