"""A group coordinator refuses requests once its broker's session may have expired: another broker
may coordinate the group by then, with newer offsets."""

from collections.abc import Callable
from typing import Any

import pytest

from sawlog.cluster.embedded_store import EmbeddedStore
from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from sawlog.protocol.messages.heartbeat_request import HeartbeatRequest
from sawlog.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from sawlog.protocol.messages.sync_group_request import SyncGroupRequest
from sawlog.simulation.simulated_broker import SimulatedMachine
from support.broker.groups import commit, fetch, fetch_request, machine_with_groups

GROUP = "g"
T0 = ("t", 0)
NOT_COORDINATOR = int(ErrorCode.NOT_COORDINATOR)


class Session:
    """Whether the session of the broker's store may have expired."""

    may_have_expired = False


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    session = Session()
    monkeypatch.setattr(EmbeddedStore, "may_have_expired", lambda _: session.may_have_expired)
    return session


@pytest.fixture
def machine() -> SimulatedMachine:
    return machine_with_groups(group_initial_rebalance_delay_ms="0")


def join(member_id: str = "") -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"topics")]
    return JoinGroupRequest(GROUP, 10_000, 30_000, member_id, None, "consumer", protocols)


def sync(member_id: str, generation: int) -> SyncGroupRequest:
    return SyncGroupRequest(GROUP, generation, member_id, None, "consumer", "range")


def consumer_heartbeat(member_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
    request = ConsumerGroupHeartbeatRequest("new", member_id, epoch)
    if epoch == 0:
        request.rebalance_timeout_ms = 30_000
        request.subscribed_topic_names = ["t"]
        request.topic_partitions = []
    return request


def classic_member(machine: SimulatedMachine) -> tuple[str, int]:
    """Return the id and generation of the only member of a stable group."""
    joined = machine.ask(join(machine.ask(join(), 9).member_id), 9)
    assert joined.error_code == 0, joined
    assert machine.ask(sync(joined.member_id, joined.generation_id)).error_code == 0
    return joined.member_id, joined.generation_id


REQUESTS: dict[str, Callable[[str, int], Any]] = {
    "Heartbeat": lambda member, generation: HeartbeatRequest(GROUP, generation, member),
    "JoinGroup": lambda member, _: join(member),
    "SyncGroup": sync,
    "LeaveGroup": lambda member, _: LeaveGroupRequest(GROUP, members=[MemberIdentity(member)]),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_of_the_classic_protocol_are_refused(
    machine: SimulatedMachine, session: Session, name: str
) -> None:
    member, generation = classic_member(machine)
    session.may_have_expired = True
    assert machine.ask(REQUESTS[name](member, generation)).error_code == NOT_COORDINATOR
    session.may_have_expired = False
    heartbeat = machine.ask(HeartbeatRequest(GROUP, generation, member))
    assert heartbeat.error_code == 0, "the member is still there"


def test_heartbeats_of_the_consumer_protocol_are_refused(
    machine: SimulatedMachine, session: Session
) -> None:
    joined = machine.ask(consumer_heartbeat("A" * 22, 0))
    assert joined.error_code == 0, joined
    heartbeat = consumer_heartbeat(joined.member_id, joined.member_epoch)
    session.may_have_expired = True
    assert machine.ask(heartbeat).error_code == NOT_COORDINATOR
    session.may_have_expired = False
    assert machine.ask(heartbeat).error_code == 0


def test_commits_are_refused_and_not_written(machine: SimulatedMachine, session: Session) -> None:
    assert commit(machine, GROUP, {T0: 5}) == {T0: 0}
    session.may_have_expired = True
    assert commit(machine, GROUP, {T0: 6}) == {T0: NOT_COORDINATOR}
    session.may_have_expired = False
    assert fetch(machine, GROUP, {"t": [0]}) == {T0: (5, "", 0)}
    assert commit(machine, GROUP, {T0: 7}) == {T0: 0}


@pytest.mark.parametrize("version", [7, 9])
def test_reads_of_committed_offsets_are_refused(
    machine: SimulatedMachine, session: Session, version: int
) -> None:
    assert commit(machine, GROUP, {T0: 5}) == {T0: 0}
    session.may_have_expired = True
    answer = machine.ask(fetch_request(GROUP, {"t": [0]}, version), version)
    refused = answer.groups[0] if version >= 8 else answer
    assert refused.error_code == NOT_COORDINATOR
    session.may_have_expired = False
    assert fetch(machine, GROUP, {"t": [0]}, version) == {T0: (5, "", 0)}
