"""OffsetCommit, OffsetFetch and OffsetDelete, as a client sees them."""

from collections.abc import Callable

import pytest

from sawlog.cluster.internal_topics import CONSUMER_OFFSETS
from sawlog.coordinator.runtime import RELOAD_MS
from sawlog.core.errors import ErrorCode
from sawlog.core.ports import DiskError, TooManyOpenFiles
from sawlog.protocol.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from sawlog.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sawlog.protocol.messages.delete_topics_request import DeleteTopicsRequest
from sawlog.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from sawlog.protocol.messages.offset_fetch_request import OffsetFetchRequest
from sawlog.simulation.simulated_broker import SimulatedMachine
from sawlog.simulation.simulated_disk import SimulatedFile
from support.broker.groups import (
    PARTITIONS,
    commit,
    commit_request,
    committed,
    fetch,
    fetch_group,
    fetch_request,
    fetched,
    id_of,
    is_ready,
    machine_with_groups,
    reboot,
)
from support.broker.requests import machine_with_topic

T0, T1 = ("t", 0), ("t", 1)
UNKNOWN_PARTITION, UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID
LOADING, NOT_COORDINATOR = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR
NOTHING = (-1, "", 0)


@pytest.fixture(scope="module")
def shared() -> SimulatedMachine:
    """A machine for tests that each use their own group."""
    return machine_with_groups()


# OffsetCommit


@pytest.mark.parametrize("version", range(2, 11))
def test_commit_in_any_version_is_fetched_in_any_other(
    shared: SimulatedMachine, version: int
) -> None:
    group = f"v{version}"
    topic_id = id_of(shared, "t")
    topic: str | bytes = topic_id if version >= 10 else "t"
    answer = commit(shared, group, {(topic, 0): 5}, version, metadata="metadata")
    assert answer == {(topic, 0): 0}
    for other in range(1, 11):
        wanted: str | bytes = topic_id if other >= 10 else "t"
        found = fetch(shared, group, {wanted: [0, 1]}, other)
        assert found == {(wanted, 0): (5, "metadata", 0), (wanted, 1): NOTHING}
    for other in range(2, 11):
        wanted = topic_id if other >= 10 else "t"
        assert fetch(shared, group, None, other) == {(wanted, 0): (5, "metadata", 0)}


def test_commit_is_answered_after_its_flush() -> None:
    machine = machine_with_groups()
    call = machine.send(commit_request("g", {T0: 5}), 9)
    read = machine.send(fetch_request("g", None, 9), 9)
    assert not call.is_done
    assert not read.is_done
    assert machine.schedule.run(lambda: read.is_done)
    assert committed(call.answered) == {T0: 0}
    assert fetched(read.answered.groups[0]) == {T0: (5, "", 0)}


def test_answered_commit_survives_power_loss() -> None:
    machine = machine_with_groups()
    commit(machine, "g", {T0: 5, T1: 6})
    commit(machine, "g", {T0: 7})
    commit(machine, "other", {T0: 1})
    machine.lose_power()
    reboot(machine)
    assert fetch(machine, "g") == {T0: (7, "", 0), T1: (6, "", 0)}
    assert fetch(machine, "other") == {T0: (1, "", 0)}


@pytest.fixture
def machine_out_of_files(monkeypatch: pytest.MonkeyPatch) -> SimulatedMachine:
    """Return a machine on which every sync fails until the patch is undone."""
    machine = machine_with_groups()

    def refuse(file: SimulatedFile, done: Callable[[DiskError], None]) -> None:
        machine.schedule.soon(lambda: done(TooManyOpenFiles(file.path, "too many")))

    monkeypatch.setattr(SimulatedFile, "sync_later", refuse)
    return machine


def test_group_recovers_after_a_commit_failed_without_descriptors(
    machine_out_of_files: SimulatedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = machine_out_of_files
    assert commit(machine, "g", {T0: 5}) == {T0: NOT_COORDINATOR}
    machine.schedule.run_for(3 * RELOAD_MS)
    assert commit(machine, "g", {T0: 6}) == {T0: NOT_COORDINATOR}
    monkeypatch.undo()
    assert machine.schedule.run(lambda: is_ready(machine))
    assert commit(machine, "g", {T1: 7}) == {T1: 0}
    assert fetch(machine, "g") == {T0: (5, "", 0), T1: (7, "", 0)}


def test_failed_coordinator_stays_closed_after_the_broker_stops(
    machine_out_of_files: SimulatedMachine,
) -> None:
    machine = machine_out_of_files
    commit(machine, "g", {T0: 5})
    machine.broker.groups.close()
    machine.schedule.run_for(2 * RELOAD_MS)
    assert machine.broker.groups.runtimes == {}


def test_unknown_partitions_are_rejected_and_the_others_committed(
    shared: SimulatedMachine,
) -> None:
    wanted = {T0: 1, ("t", 3): 2, ("t", -1): 3, ("nowhere", 0): 4}
    assert commit(shared, "mixed", wanted) == {
        T0: 0,
        ("t", 3): UNKNOWN_PARTITION,
        ("t", -1): UNKNOWN_PARTITION,
        ("nowhere", 0): UNKNOWN_PARTITION,
    }
    assert fetch(shared, "mixed") == {T0: (1, "", 0)}


def test_response_has_every_topic_once(shared: SimulatedMachine) -> None:
    response = shared.ask(commit_request("once", {T0: 1, ("t", 7): 2}), 9)
    [topic] = response.topics
    assert sorted(p.partition_index for p in topic.partitions) == [0, 7]


def test_unknown_topic_ids_are_in_the_response(shared: SimulatedMachine) -> None:
    topic_id, stranger = id_of(shared, "t"), bytes(range(16))
    wanted = {(stranger, 0): 1, (topic_id, 0): 2, (topic_id, 9): 3}
    assert commit(shared, "ids", wanted, 10) == {
        (stranger, 0): UNKNOWN_ID,
        (topic_id, 0): 0,
        (topic_id, 9): UNKNOWN_PARTITION,
    }


def test_commit_of_unknown_topics_only_does_not_reach_the_group(shared: SimulatedMachine) -> None:
    answer = commit(
        shared, "missing", {("nowhere", 0): 1}, member_id="m", generation_id_or_member_epoch=3
    )
    assert answer == {("nowhere", 0): UNKNOWN_PARTITION}
    assert commit(shared, "missing", {}) == {}


@pytest.mark.parametrize(
    ("version", "code"),
    [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_error_of_the_group_is_set_for_every_known_partition(
    shared: SimulatedMachine, version: int, code: ErrorCode
) -> None:
    wanted = {T0: 1, T1: 1, ("t", 9): 1}
    answer = commit(
        shared, "missing", wanted, version, member_id="m", generation_id_or_member_epoch=3
    )
    assert answer == {T0: code, T1: code, ("t", 9): UNKNOWN_PARTITION}


def test_empty_group_id_can_commit(shared: SimulatedMachine) -> None:
    assert commit(shared, "", {T0: 4}) == {T0: 0}
    assert fetch(shared, "") == {T0: (4, "", 0)}


def test_commit_larger_than_a_batch_is_rejected() -> None:
    machine = machine_with_groups(message_max_bytes="2000", offset_metadata_max_bytes=str(100_000))
    answer = commit(machine, "g", {T0: 1, T1: 1}, metadata="x" * 1_000)
    assert set(answer.values()) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert fetch(machine, "g") == {}


def test_commit_without_a_coordinator_is_rejected() -> None:
    machine = machine_with_topic(1)
    assert commit(machine, "g", {T0: 1}) == {T0: NOT_COORDINATOR}
    response = machine.ask(fetch_request("g", None, 9), 9)
    assert response.groups[0].error_code == NOT_COORDINATOR


# OffsetFetch


def test_several_groups_are_fetched_at_once(shared: SimulatedMachine) -> None:
    for place in range(8):
        commit(shared, f"several-{place}", {T0: place})
    groups = [fetch_group(f"several-{place}", {"t": [0, 2]}) for place in range(9)]
    response = shared.ask(OffsetFetchRequest(groups=groups), 9)
    assert [group.group_id for group in response.groups] == [f"several-{n}" for n in range(9)]
    for place, group in enumerate(response.groups[:-1]):
        assert fetched(group) == {T0: (place, "", 0), ("t", 2): NOTHING}
    assert fetched(response.groups[-1]) == {T0: NOTHING, ("t", 2): NOTHING}
    assert shared.ask(OffsetFetchRequest(groups=[]), 9).groups == []


def test_unknown_topics_have_no_offset_by_name_and_an_error_by_id(
    shared: SimulatedMachine,
) -> None:
    commit(shared, "known", {T0: 3})
    assert fetch(shared, "known", {"nowhere": [0], "t": [0, 9]}) == {
        ("nowhere", 0): NOTHING,
        T0: (3, "", 0),
        ("t", 9): NOTHING,
    }
    stranger, topic_id = bytes(range(16)), id_of(shared, "t")
    assert fetch(shared, "known", {stranger: [0], topic_id: [0]}, 10) == {
        (stranger, 0): (-1, "", UNKNOWN_ID),
        (topic_id, 0): (3, "", 0),
    }


def test_empty_topic_list_is_not_all_topics(shared: SimulatedMachine) -> None:
    commit(shared, "none", {T0: 3})
    assert fetch(shared, "none", {}, 9) == {}
    assert fetch(shared, "none", {}, 7) == {}


@pytest.mark.parametrize("require_stable", [False, True])
def test_require_stable_returns_committed_offsets(
    shared: SimulatedMachine, require_stable: bool
) -> None:
    commit(shared, "stable", {T0: 3})
    request = OffsetFetchRequest(
        groups=[fetch_group("stable", None)], require_stable=require_stable
    )
    assert fetched(shared.ask(request, 9).groups[0]) == {T0: (3, "", 0)}


def test_fetch_from_a_loading_group_is_retriable() -> None:
    machine = machine_with_groups()
    commit(machine, "g", {T0: 5})
    machine.kill()
    machine.boot()
    calls = {
        version: machine.send(fetch_request("g", {"t": [0]}, version), version)
        for version in (1, 7, 9)
    }
    failed = machine.send(commit_request("g", {T0: 6}), 9)
    assert fetched(calls[1].answered) == {T0: (-1, "", LOADING)}
    assert (calls[7].answered.error_code, calls[7].answered.topics) == (LOADING, [])
    [group] = calls[9].answered.groups
    assert (group.group_id, group.error_code, group.topics) == ("g", LOADING, [])
    assert committed(failed.answered) == {T0: LOADING}
    machine.schedule.run_for(1_000)
    assert fetch(machine, "g") == {T0: (5, "", 0)}


# OffsetDelete


def delete(machine: SimulatedMachine, group: str, *wanted: tuple[str, int]) -> object:
    """Return the codes of the partitions, or the code of the whole request."""
    topics = [
        OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(index)])
        for name, index in wanted
    ]
    response = machine.ask(OffsetDeleteRequest(group, topics))
    if response.error_code:
        assert response.topics == []
        return ErrorCode(response.error_code)
    return committed(response)


def test_offsets_are_deleted_by_partition(shared: SimulatedMachine) -> None:
    commit(shared, "delete", {T0: 1, T1: 2})
    assert delete(shared, "delete", T0, ("t", 9), ("nowhere", 0)) == {
        T0: 0,
        ("t", 9): UNKNOWN_PARTITION,
        ("nowhere", 0): UNKNOWN_PARTITION,
    }
    assert fetch(shared, "delete") == {T1: (2, "", 0)}


def test_delete_of_an_unknown_group_is_rejected(shared: SimulatedMachine) -> None:
    assert delete(shared, "missing", T0, ("nowhere", 0)) is ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(shared, "missing", ("nowhere", 0)) is ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(shared, "", T0) is ErrorCode.INVALID_GROUP_ID


# Deleted topics and expiration


def test_deleted_topic_loses_its_offsets() -> None:
    machine = machine_with_groups()
    commit(machine, "g", {T0: 5})
    response = machine.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000), 5)
    assert response.responses[0].error_code == 0
    machine.schedule.run_for(1_000)
    assert fetch(machine, "g") == {}
    reboot(machine)
    assert fetch(machine, "g") == {}


def test_offsets_expire() -> None:
    machine = machine_with_groups(offsets_retention_minutes="2")
    commit(machine, "g", {T0: 5})
    machine.schedule.run_for(119_000)
    assert fetch(machine, "g") == {T0: (5, "", 0)}
    machine.schedule.run_for(600_000)
    assert fetch(machine, "g") == {}


def test_explicit_retention_of_old_versions_prevents_expiration(shared: SimulatedMachine) -> None:
    answer = commit(shared, "for ever", {T0: 1}, version=4, retention_time_ms=2**63 - 1)
    assert answer == {T0: 0}
    assert fetch(shared, "for ever") == {T0: (1, "", 0)}


def test_offsets_topic_rejects_new_partitions_and_deleted_records(
    shared: SimulatedMachine,
) -> None:
    growth = CreatePartitionsTopic(CONSUMER_OFFSETS.name, PARTITIONS + 1, None)
    answer = shared.ask(CreatePartitionsRequest([growth], timeout_ms=1_000))
    assert answer.results[0].error_code == ErrorCode.INVALID_PARTITIONS
    start = DeleteRecordsTopic(CONSUMER_OFFSETS.name, [DeleteRecordsPartition(0, -1)])
    answer = shared.ask(DeleteRecordsRequest([start], timeout_ms=1_000))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
