"""ListGroups, DescribeGroups and DeleteGroups, as an admin client sees them."""

import pytest

from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from sawlog.protocol.messages.delete_groups_request import DeleteGroupsRequest
from sawlog.protocol.messages.describe_groups_request import DescribeGroupsRequest
from sawlog.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from sawlog.protocol.messages.list_groups_request import ListGroupsRequest
from sawlog.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from sawlog.simulation.simulated_broker import SimulatedMachine
from support.broker.groups import commit, fetch, machine_with_groups, reboot
from support.broker.requests import machine_with_topic

T0 = ("t", 0)
NAMES = [f"group-{number}" for number in range(10)]
"""Enough for every coordinator partition to have some."""

GROUP_OPERATIONS = 3400
NOT_ASKED = -(1 << 31)
LOADING, NOT_COORDINATOR = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR


@pytest.fixture(scope="module")
def machine() -> SimulatedMachine:
    """With groups that have offsets only, and one that has a member."""
    machine = machine_with_groups(group_initial_rebalance_delay_ms="0")
    for name in NAMES:
        commit(machine, name, {T0: 1})
    join(machine, "inhabited")
    return machine


def join(machine: SimulatedMachine, group: str) -> None:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    request = JoinGroupRequest(group, 60_000, 60_000, "", None, "consumer", protocols)
    assert machine.ask(request, 3).error_code == 0


def listed(machine: SimulatedMachine, version: int = 5, **filters: list[str]) -> list[str]:
    response = machine.ask(ListGroupsRequest(**filters), version)
    assert response.error_code == 0
    return sorted(group.group_id for group in response.groups)


# ListGroups


@pytest.mark.parametrize("version", range(6))
def test_groups_of_all_partitions_are_listed(machine: SimulatedMachine, version: int) -> None:
    assert listed(machine, version) == [*NAMES, "inhabited"]


def test_states_and_types_are_listed_in_versions_that_have_them(machine: SimulatedMachine) -> None:
    for version, expected in ((3, ("", "")), (4, ("Empty", "")), (5, ("Empty", "classic"))):
        groups = machine.ask(ListGroupsRequest(), version).groups
        [group] = [group for group in groups if group.group_id == NAMES[0]]
        assert (group.group_state, group.group_type) == expected


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"states_filter": ["Empty"]}, NAMES),
        ({"states_filter": [" eMPTY "]}, NAMES),
        ({"states_filter": ["Stable", "CompletingRebalance"]}, ["inhabited"]),
        ({"states_filter": ["NoSuchState"]}, []),
        ({"types_filter": ["cLASSIC"]}, [*NAMES, "inhabited"]),
        ({"types_filter": ["consumer"]}, []),
        ({"types_filter": ["nothing known"]}, []),
        ({"types_filter": ["classic"], "states_filter": ["completingrebalance"]}, ["inhabited"]),
    ],
)
def test_filters_select_groups_by_state_and_type(
    machine: SimulatedMachine, filters: dict[str, list[str]], expected: list[str]
) -> None:
    assert listed(machine, **filters) == expected


def test_list_fails_while_a_partition_loads() -> None:
    machine = machine_with_groups()
    commit(machine, "g", {T0: 1})
    machine.kill()
    machine.boot()
    response = machine.ask(ListGroupsRequest())
    assert (response.error_code, response.groups) == (LOADING, [])
    machine.schedule.run_for(1_000)
    assert listed(machine) == ["g"]


def test_broker_that_coordinates_nothing_lists_no_groups() -> None:
    assert listed(machine_with_topic(1)) == []


# DescribeGroups


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described_in_the_order_of_the_request(
    machine: SimulatedMachine, version: int
) -> None:
    names = [*reversed(NAMES), "missing", "inhabited"]
    response = machine.ask(DescribeGroupsRequest(names), version)
    assert [group.group_id for group in response.groups] == names
    *simple, missing, inhabited = response.groups
    assert {(group.error_code, group.group_state) for group in simple} == {(0, "Empty")}
    assert missing.group_state == "Dead"
    assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert (inhabited.group_state, inhabited.protocol_type) == ("CompletingRebalance", "consumer")
    assert [member.client_id for member in inhabited.members] == ["simulation"]
    assert {group.authorized_operations for group in response.groups} == {NOT_ASKED}


def test_authorized_operations_are_returned_on_request(machine: SimulatedMachine) -> None:
    request = DescribeGroupsRequest([NAMES[0], "missing"], include_authorized_operations=True)
    known, unknown = machine.ask(request, 6).groups
    assert (known.authorized_operations, unknown.authorized_operations) == (
        GROUP_OPERATIONS,
        NOT_ASKED,
    )
    assert [group.authorized_operations for group in machine.ask(request, 5).groups] == [
        GROUP_OPERATIONS,
        GROUP_OPERATIONS,
    ]


def test_loading_group_is_not_described() -> None:
    machine = machine_with_groups()
    commit(machine, "g", {T0: 1})
    machine.kill()
    machine.boot()
    [group] = machine.ask(DescribeGroupsRequest(["g"])).groups
    assert (group.group_id, group.error_code, group.group_state) == ("g", LOADING, "")
    [result] = machine.ask(DeleteGroupsRequest(["g"])).results
    assert (result.group_id, result.error_code) == ("g", LOADING)


def test_group_of_another_coordinator_is_not_described() -> None:
    machine = machine_with_topic(1)
    [group] = machine.ask(DescribeGroupsRequest(["g"])).groups
    assert group.error_code == NOT_COORDINATOR
    [result] = machine.ask(DeleteGroupsRequest(["g"])).results
    assert result.error_code == NOT_COORDINATOR


def test_empty_requests_have_empty_responses(machine: SimulatedMachine) -> None:
    assert machine.ask(DescribeGroupsRequest([])).groups == []
    assert machine.ask(DeleteGroupsRequest([])).results == []


# DeleteGroups


@pytest.mark.parametrize("version", range(4))
def test_groups_are_deleted_with_their_offsets(version: int) -> None:
    machine = machine_with_groups(group_initial_rebalance_delay_ms="0")
    for name in NAMES:
        commit(machine, name, {T0: 1})
    join(machine, "inhabited")
    names = [*NAMES[:5], "missing", "inhabited", NAMES[0]]
    response = machine.ask(DeleteGroupsRequest(names), version)
    assert {result.group_id: result.error_code for result in response.results} == {
        **dict.fromkeys(NAMES[:5], 0),
        "missing": ErrorCode.GROUP_ID_NOT_FOUND,
        "inhabited": ErrorCode.NON_EMPTY_GROUP,
    }
    assert len(response.results) == len(set(names))
    reboot(machine)
    assert set(listed(machine)) - {"inhabited"} == set(NAMES[5:])
    assert fetch(machine, NAMES[0]) == {}
    assert fetch(machine, NAMES[5]) == {T0: (1, "", 0)}


def test_unknown_group_with_the_longest_name_is_described_as_dead(
    machine: SimulatedMachine,
) -> None:
    name = "g" * 0x7FFF
    answer = machine.ask(DescribeGroupsRequest([name])).groups[0]
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    answer = machine.ask(ConsumerGroupDescribeRequest([name])).groups[0]
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_large_requests_let_other_requests_in_between(machine: SimulatedMachine) -> None:
    names = [f"one of many {number}" for number in range(250)]
    deletion = machine.send(DeleteGroupsRequest(names))
    fetching = machine.send(fetch_of(*names))
    other = machine.send(DeleteGroupsRequest(["missing"]))
    assert machine.schedule.run(lambda: other.is_done)
    assert not deletion.is_done
    assert not fetching.is_done
    assert machine.schedule.run(lambda: deletion.is_done and fetching.is_done)
    assert [result.group_id for result in deletion.answered.results] == names
    assert [group.group_id for group in fetching.answered.groups] == names


def fetch_of(*names: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name) for name in names])
