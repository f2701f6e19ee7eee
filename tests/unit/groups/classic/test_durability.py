"""The records of classic groups, restarts, and logs that refuse writes."""

from typing import Any

import pytest

from sawlog.coordinator.coordinator_records import Entry
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.group_records import GROUP_RECORDS
from sawlog.protocol.messages.group_metadata_key import GroupMetadataKey
from sawlog.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from support.groups.classic_group import COMMIT_MS, GROUP, REBALANCE_MS, SESSION_MS, ClassicWorld


def test_the_record_describes_a_stable_group_in_kafkas_version() -> None:
    world = ClassicWorld()
    (member,) = world.stable()
    entry = world.group().record()
    assert GROUP_RECORDS.decode(*GROUP_RECORDS.encode(entry)) == entry
    assert entry.version == 3
    assert entry.key == GroupMetadataKey(GROUP)
    assert entry.value == GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=member,
        current_state_timestamp=world.group().state_since_ms or 0,
        members=[
            MemberMetadata(
                member_id=member,
                group_instance_id=None,
                client_id="client",
                client_host="/127.0.0.1",
                rebalance_timeout=REBALANCE_MS,
                session_timeout=SESSION_MS,
                subscription=b"r",
                assignment=member.encode(),
            )
        ],
    )


def test_members_continue_after_a_restart_without_a_rebalance() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    world.pass_ms(SESSION_MS // 2)
    world.heartbeat(leader, 1)
    world.heartbeat(follower, 1)
    world.restart()
    world.pass_ms(SESSION_MS - COMMIT_MS - 1)
    assert world.heartbeat(leader, 1).code is ErrorCode.NONE
    assert world.sync(follower, 1).response.assignment == follower.encode()
    assert world.join(follower).response.generation_id == 1
    world.pass_ms(1)
    assert world.group().state_name == "PreparingRebalance"
    assert set(world.group().members) == {leader}


def test_a_generation_without_an_assignment_is_lost_by_a_restart() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    world.join(leader)
    world.join(follower)
    assert world.group().generation == 2
    world.restart()
    assert world.heartbeat(leader, 2).code is ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat(leader, 1).code is ErrorCode.NONE


def test_a_group_without_a_completed_generation_is_empty_after_a_restart() -> None:
    world = ClassicWorld()
    member = world.new_id()
    world.restart()
    assert world.group().is_empty
    assert world.join(member).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_tombstone_deletes_the_group_and_answers_parked_joins() -> None:
    world = ClassicWorld()
    first, _ = world.stable(2)
    waiting = world.join(first)
    world.runtime.machine.replay(Entry(GroupMetadataKey(GROUP), None))
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.runtime.machine.groups == {}
    world.pass_ms(2 * REBALANCE_MS)
    world.runtime.machine.replay(Entry(GroupMetadataKey(GROUP), None))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_of_older_brokers_are_read(version: int) -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="m",
        members=[MemberMetadata(member_id="m", session_timeout=5, subscription=b"s")],
    )
    key, data = GROUP_RECORDS.encode(Entry(GroupMetadataKey(GROUP), value, version))
    read = GROUP_RECORDS.decode(key, data).value
    assert isinstance(read, GroupMetadataValue)
    group = ClassicGroup.from_record(GROUP, read)
    assert group.state_since_ms is None
    assert group.members["m"].rebalance_timeout_ms == 5
    assert (group.state_name, group.generation, group.leader) == ("Stable", 7, "m")


def test_an_unknown_leader_in_a_record_is_replaced_by_a_member() -> None:
    value = GroupMetadataValue(
        "consumer", 1, None, "gone", 5, [MemberMetadata("m"), MemberMetadata("n")]
    )
    assert ClassicGroup.from_record(GROUP, value).leader == "m"


# A log that refuses writes


def full(world: ClassicWorld) -> None:
    world.disk.free_bytes = 0


def free(world: ClassicWorld) -> None:
    world.disk.free_bytes = None


def test_a_group_that_cannot_be_written_is_not_created() -> None:
    world = ClassicWorld()
    full(world)
    assert world.join(version=3).code is ErrorCode.NOT_COORDINATOR
    assert world.runtime.machine.groups == {}
    free(world)
    asked = world.join(version=3)
    world.pass_ms(COMMIT_MS)
    assert asked.code is ErrorCode.NONE


def test_an_assignment_that_cannot_be_written_causes_a_rebalance() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    world.join(leader)
    world.join(follower)
    waiting = world.sync(follower, 2)
    full(world)
    given = world.sync(leader, 2, {follower: b"f"})
    assert (given.code, waiting.code) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)
    assert world.group().state_name == "PreparingRebalance"
    free(world)
    joins = [world.join(leader), world.join(follower)]
    world.synchronise(joins)
    assert world.group().generation == 3


def test_an_assignment_too_large_for_a_record_is_refused() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    world.join(leader)
    world.join(follower)
    waiting = world.sync(follower, 2)
    given = world.sync(leader, 2, {follower: bytes(2_000_000)})
    assert {given.code, waiting.code} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    world.synchronise([world.join(leader), world.join(follower)])


def test_a_static_member_keeps_its_id_if_the_new_one_cannot_be_written() -> None:
    world = ClassicWorld()
    first = world.join(instance="a")
    world.pass_ms(COMMIT_MS)
    world.synchronise([first])
    before = world.group()
    full(world)
    assert world.join(instance="a").code is ErrorCode.NOT_COORDINATOR
    assert world.group() is before
    assert world.heartbeat(first.response.member_id, 1, instance="a").code is ErrorCode.NONE
    world.pass_ms(SESSION_MS - 1)
    assert world.group() is before


def test_the_last_member_stays_until_its_removal_can_be_written() -> None:
    world = ClassicWorld()
    (only,) = world.stable()
    full(world)
    assert world.leave(only).code is ErrorCode.NOT_COORDINATOR
    assert world.heartbeat(only, 1).code is ErrorCode.NONE
    world.pass_ms(2 * SESSION_MS)
    assert set(world.group().members) == {only}
    free(world)
    world.pass_ms(1_000)
    assert world.group().state_name == "Empty"


def test_parked_requests_are_answered_when_the_coordinator_moves() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(2)
    joining = world.join(follower, protocols=(("range", b"new"),))
    other = world.join(version=3, group="other")
    world.pass_ms(COMMIT_MS)
    assert other.code is ErrorCode.NONE
    follower_of_other = world.join(version=3, group="other")
    world.join(other.response.member_id, group="other")
    syncing = world.sync(follower_of_other.response.member_id, 2, group="other")
    world.runtime.close(KafkaError(ErrorCode.NOT_COORDINATOR))
    assert {joining.code, syncing.code} == {ErrorCode.NOT_COORDINATOR}
    assert joining.response.member_id == follower
    assert world.group().state_name == "Dead"
    assert world.heartbeat(leader, 1).code is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("flow", ["new group", "assignment"])
def test_a_failed_commit_answers_every_request_once(flow: str) -> None:
    world = ClassicWorld()
    asked: list[Any]
    if flow == "new group":
        asked = [world.join(version=3)]
        world.join(version=3, group="another")
        asked.append(world.leave("nobody"))
    else:
        leader, follower = world.stable(2)
        world.join(leader)
        world.join(follower)
        asked = [world.sync(follower, 2), world.sync(leader, 2, {}), world.sync(follower, 2)]
    world.partition.close(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    world.runtime.close(KafkaError(ErrorCode.NOT_COORDINATOR))
    world.pass_ms(COMMIT_MS)
    assert all(len(one.answers) == 1 for one in asked)
