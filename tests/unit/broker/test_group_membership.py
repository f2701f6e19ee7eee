"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup as frames, in every version."""

from typing import Any

import pytest

from sawlog.broker.api.group_membership import caller_of
from sawlog.broker.dispatch import LOADERS
from sawlog.broker.request import Api, Request
from sawlog.core.errors import ErrorCode
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.protocol.messages.heartbeat_request import HeartbeatRequest
from sawlog.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from sawlog.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from sawlog.simulation.simulated_broker import Call, SimulatedClient, SimulatedMachine

GROUP = "readers"


def started(**settings: str) -> SimulatedMachine:
    """A broker that coordinates the group."""
    machine = SimulatedMachine(
        1,
        **{
            "group_initial_rebalance_delay_ms": "0",
            "offsets_topic_num_partitions": "2",
            **settings,
        },
    )
    machine.boot()
    for _ in range(100):
        found = machine.ask(FindCoordinatorRequest(coordinator_keys=[GROUP])).coordinators[0]
        if found.error_code == 0:
            machine.schedule.run_for(100)
            return machine
        machine.schedule.run_for(10)
    raise AssertionError("no coordinator")


def join(member_id: str = "", **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        **{
            "group_id": GROUP,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 30_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol("range", b"topics")],
            **fields,
        }
    )


def joined(machine: SimulatedMachine, version: int = 9) -> Any:
    answer = machine.ask(join(), version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = machine.ask(join(answer.member_id), version)
    assert answer.error_code == 0, answer
    return answer


@pytest.mark.parametrize("version", range(10))
def test_join_group_adds_a_member_in_every_version(version: int) -> None:
    machine = started()
    first = machine.ask(join(), version)
    if version >= 4:
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert (first.leader, first.protocol_name) == ("", None if version >= 7 else "")
        first = machine.ask(join(first.member_id), version)
    assert first.error_code == 0
    assert first.generation_id == 1
    assert first.member_id.startswith("simulation-")
    assert first.leader == first.member_id
    assert first.protocol_name == "range"
    assert first.protocol_type == ("consumer" if version >= 7 else None)
    assert [(one.member_id, one.metadata) for one in first.members] == [
        (first.member_id, b"topics")
    ]
    runtime = machine.broker.groups.runtime_of(GROUP)
    member = runtime.machine.groups[GROUP].describe().members[0]  # type: ignore[union-attr]
    assert (member.client_id, member.client_host) == ("simulation", "/client")


def test_join_group_0_uses_the_session_timeout_for_rebalances() -> None:
    machine = started()
    joined(machine, 0)
    group = machine.broker.groups.runtime_of(GROUP).machine.groups[GROUP]
    assert [one.rebalance_timeout_ms for one in group.members.values()] == [10_000]  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", range(6))
def test_sync_group_returns_the_assignment_in_every_version(version: int) -> None:
    machine = started()
    member = joined(machine)
    given = [SyncGroupRequestAssignment(member.member_id, b"mine")]
    named = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    request = SyncGroupRequest(GROUP, 1, member.member_id, assignments=given, **named)  # type: ignore[arg-type]
    answer = machine.ask(request, version)
    assert (answer.error_code, answer.assignment) == (0, b"mine")
    assert (answer.protocol_type, answer.protocol_name) == (
        ("consumer", "range") if version >= 5 else (None, None)
    )


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name"),
    [(None, None), (None, "range"), ("consumer", None), ("consumer", "other"), ("x", "range")],
)
def test_sync_group_5_with_another_protocol_is_rejected(
    protocol_type: str | None, protocol_name: str | None
) -> None:
    machine = started()
    member = joined(machine)
    request = SyncGroupRequest(GROUP, 1, member.member_id, None, protocol_type, protocol_name)
    assert machine.ask(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(5))
def test_heartbeat_in_every_version(version: int) -> None:
    machine = started()
    member = joined(machine)
    assert machine.ask(HeartbeatRequest(GROUP, 1, member.member_id), version).error_code == 0
    late = machine.ask(HeartbeatRequest(GROUP, 0, member.member_id), version)
    assert late.error_code == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", range(3))
def test_leave_group_before_version_3_removes_one_member(version: int) -> None:
    machine = started()
    member_id = joined(machine).member_id
    assert machine.ask(LeaveGroupRequest(GROUP, member_id), version).error_code == 0
    again = machine.ask(LeaveGroupRequest(GROUP, member_id), version)
    assert again.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    nowhere = machine.ask(LeaveGroupRequest("other", member_id), version)
    assert nowhere.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [3, 4, 5])
def test_leave_group_from_version_3_answers_each_member(version: int) -> None:
    machine = started()
    member_id = joined(machine).member_id
    reason = "done" if version >= 5 else None
    leaving = [MemberIdentity(member_id, None, reason), MemberIdentity("missing", "i")]
    answer = machine.ask(LeaveGroupRequest(GROUP, members=leaving), version)
    assert answer.error_code == 0
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in answer.members] == [
        (member_id, None, 0),
        ("missing", "i", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    nowhere = machine.ask(LeaveGroupRequest("other", members=leaving), version)
    assert nowhere.error_code == 0
    assert {one.error_code for one in nowhere.members} == {ErrorCode.UNKNOWN_MEMBER_ID}


def test_empty_group_id_is_rejected() -> None:
    machine = started()
    refused = machine.ask(join("me", group_id=""))
    assert (refused.error_code, refused.member_id) == (ErrorCode.INVALID_GROUP_ID, "me")
    for request in (
        SyncGroupRequest("", 1, "me", None, "consumer", "range"),
        HeartbeatRequest("", 1, "me"),
        LeaveGroupRequest("", members=[MemberIdentity("me")]),
    ):
        assert machine.ask(request).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(
    ("session_ms", "code"),
    [
        (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_session_timeout_outside_of_the_limits_is_rejected(
    session_ms: int, code: ErrorCode
) -> None:
    machine = started()
    assert machine.ask(join(session_timeout_ms=session_ms)).error_code == code


@pytest.mark.parametrize("version", [0, 6, 9])
def test_other_broker_answers_not_coordinator(version: int) -> None:
    machine = SimulatedMachine(1)
    machine.boot()
    refused = machine.ask(join(), version)
    assert refused.error_code == ErrorCode.NOT_COORDINATOR
    assert refused.protocol_name == (None if version >= 7 else "")
    for request in (
        SyncGroupRequest(GROUP, 1, "me", None, "consumer", "range"),
        HeartbeatRequest(GROUP, 1, "me"),
        LeaveGroupRequest(GROUP, members=[MemberIdentity("me")]),
    ):
        assert machine.ask(request).error_code == ErrorCode.NOT_COORDINATOR


def test_loading_coordinator_accepts_heartbeats_only() -> None:
    machine = started()
    member = joined(machine)
    machine.kill()
    machine.boot()
    assert machine.send(HeartbeatRequest(GROUP, 1, member.member_id)).answered.error_code == 0
    sync = SyncGroupRequest(GROUP, 1, member.member_id, None, "consumer", "range")
    assert machine.send(sync).answered.error_code == ErrorCode.REBALANCE_IN_PROGRESS  # join again
    assert machine.send(join()).answered.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_stopping_broker_answers_a_waiting_join() -> None:
    machine = started()
    first = joined(machine)
    newcomer = machine.send(join(), 3)
    assert not newcomer.is_done
    machine.stop()
    assert newcomer.answered.error_code == ErrorCode.NOT_COORDINATOR
    assert newcomer.answered.member_id not in ("", first.member_id)


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.7", "/10.0.0.7"),
        ("fe80::a%eth0", "/fe80:0:0:0:0:0:0:a%eth0"),
    ],
)
def test_host_is_formatted_as_in_java(host: str, written: str) -> None:
    client = SimulatedClient()
    client.host = host
    api = Api(ApiKey.HEARTBEAT, LOADERS[ApiKey.HEARTBEAT])
    request = Request(Call(client, ApiKey.HEARTBEAT, 4), api, 4, 1, None)
    caller = caller_of(request)
    assert (caller.host, caller.client_id, caller.api_version) == (written, "", 4)
