"""OffsetFetch: checks of the member, and the returned offsets."""

import pytest

from sawlog.core.errors import ErrorCode
from support.groups.group_records import classic_group, consumer_group
from support.groups.offsets import OffsetsWorld, image_of, topic_id

T0, T1 = ("t", 0), ("t", 1)
NOTHING = (-1, "")


def test_an_unknown_group_has_no_offsets() -> None:
    world = OffsetsWorld()
    assert world.fetch("g", T0, ("u", 7)) == {T0: NOTHING, ("u", 7): NOTHING}
    assert world.fetch("g") == {}


def test_partitions_without_a_commit_have_offset_minus_one() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 5}, metadata="here")
    assert world.fetch("g", T0, T1) == {T0: (5, "here"), T1: NOTHING}
    assert world.fetch("g") == {T0: (5, "here")}


def test_the_last_commit_counts_even_if_its_offset_is_lower() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 5})
    world.commit("g", {T0: 3})
    assert world.fetch("g", T0) == {T0: (3, "")}
    assert world.rebuilt().offsets.by_group == world.machine.offsets.by_group


def test_two_groups_are_independent_of_each_other() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 5})
    world.commit("h", {T0: 9})
    assert world.fetch("g", T0) == {T0: (5, "")}
    assert world.fetch("h", T0) == {T0: (9, "")}


def test_members_of_a_classic_group_are_not_checked() -> None:
    world = OffsetsWorld()
    world.write(classic_group("g", {"m": ["t"]}))
    world.commit("g", {T0: 5}, member="m", epoch=1)
    assert world.fetch("g", T0, member_id="nobody", member_epoch=77) == {T0: (5, "")}


@pytest.mark.parametrize(
    ("member", "epoch", "expected"),
    [
        (None, -1, {T0: (5, "")}),  # an admin client
        ("m", 5, {T0: (5, "")}),
        ("m", 4, ErrorCode.STALE_MEMBER_EPOCH),
        ("m", 6, ErrorCode.STALE_MEMBER_EPOCH),
        ("nobody", 5, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 5, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_members_of_a_consumer_group_are_checked(
    member: str | None, epoch: int, expected: object
) -> None:
    world = OffsetsWorld()
    world.write(*consumer_group("g", {"m": ["t"]}, epoch=5))
    world.commit("g", {T0: 5}, member="m", epoch=5)
    assert world.fetch("g", T0, member_id=member, member_epoch=epoch) == expected
    everything = world.fetch("g", member_id=member, member_epoch=epoch)
    assert everything == expected


class TestRecreatedTopic:
    """Offsets are deleted with their topic; here one is left over, as after a crash."""

    @pytest.fixture
    def world(self) -> OffsetsWorld:
        world = OffsetsWorld()
        world.commit("g", {T0: 5})
        world.lives["t"] = 2
        world.restart()
        world.image = image_of(world.lives)
        return world

    def test_the_old_offset_is_not_returned_for_the_new_topic_id(self, world: OffsetsWorld) -> None:
        assert world.fetch("g", T0, ids={"t": topic_id("t", 2)}) == {T0: NOTHING}

    def test_the_old_offset_is_not_returned_by_name(self, world: OffsetsWorld) -> None:
        assert world.fetch("g", T0) == {T0: NOTHING}
        assert world.fetch("g") == {}

    def test_a_new_commit_replaces_the_old_offset(self, world: OffsetsWorld) -> None:
        world.commit("g", {T0: 7})
        assert world.fetch("g", T0) == {T0: (7, "")}

    def test_an_offset_without_a_topic_id_is_returned(self, world: OffsetsWorld) -> None:
        world.commit("g", {T0: 7}, version=4, retention_ms=100_000)
        assert world.fetch("g", T0, ids={"t": topic_id("t", 2)}) == {T0: (7, "")}


def test_an_offset_of_an_unknown_topic_is_returned_by_name() -> None:
    world = OffsetsWorld()
    world.commit("g", {T0: 5})
    world.lives.clear()
    world.image = type(world.image)()
    assert world.fetch("g", T0) == {T0: (5, "")}
    assert world.fetch("g") == {T0: (5, "")}
