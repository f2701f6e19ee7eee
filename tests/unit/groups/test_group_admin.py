"""ListGroups and DescribeGroups."""

import pytest

from sawlog.core.errors import ErrorCode
from support.groups.group_records import classic_group, consumer_group
from support.groups.offsets import OffsetsWorld


@pytest.fixture
def world() -> OffsetsWorld:
    """One group of each kind."""
    world = OffsetsWorld()
    world.write(classic_group("stable", {"m": ["t"]}))
    world.write(classic_group("left", {}))
    world.write(*consumer_group("modern", {"m": ["t"]}))
    world.write(*consumer_group("modern left", {}))
    world.commit("simple", {("t", 0): 1})
    return world


def listed(world: OffsetsWorld, states: set[str], types: set[str]) -> set[str]:
    return {group.group_id for group in world.do(lambda: world.machine.admin.list(states, types))}


def test_groups_are_listed_with_state_and_type(world: OffsetsWorld) -> None:
    groups = world.do(lambda: world.machine.admin.list((), ()))
    assert sorted((g.group_id, g.protocol_type, g.group_state, g.group_type) for g in groups) == [
        ("left", "consumer", "Empty", "classic"),
        ("modern", "consumer", "Stable", "consumer"),
        ("modern left", "consumer", "Empty", "consumer"),
        ("simple", "", "Empty", "classic"),
        ("stable", "consumer", "Stable", "classic"),
    ]


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ({"empty"}, set(), {"left", "modern left", "simple"}),
        ({"stable"}, {"classic"}, {"stable"}),
        ({"stable", "empty"}, {"consumer"}, {"modern", "modern left"}),
        ({"dead"}, set(), set()),
        (set(), {"share"}, set()),
        ({"no such state"}, {"classic"}, set()),
    ],
)
def test_groups_are_listed_by_state_and_type(
    world: OffsetsWorld, states: set[str], types: set[str], expected: set[str]
) -> None:
    assert listed(world, states, types) == expected


def test_a_classic_group_is_described_with_its_members(world: OffsetsWorld) -> None:
    group = world.do(lambda: world.machine.admin.describe("stable", 6))
    assert (group.error_code, group.group_state, group.protocol_data) == (0, "Stable", "range")
    [member] = group.members
    assert (member.member_id, member.client_id, member.client_host) == ("m", "client", "/host")


def test_a_simple_group_is_described_as_empty(world: OffsetsWorld) -> None:
    group = world.do(lambda: world.machine.admin.describe("simple", 6))
    assert (group.error_code, group.group_state, group.protocol_type) == (0, "Empty", "")
    assert group.members == []


@pytest.mark.parametrize("group_id", ["nowhere", "modern"])
@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_missing_or_consumer_group_is_described_as_dead(
    world: OffsetsWorld, group_id: str, version: int, code: int
) -> None:
    group = world.do(lambda: world.machine.admin.describe(group_id, version))
    assert (group.group_id, group.group_state, group.error_code) == (group_id, "Dead", code)
    assert bool(group.error_message) == (code != 0)
