"""Every kind of cluster that a seed may choose: what makes it special happens, and all is well."""

import pytest

from sawlog.cluster.znodes import decode_assignment, topic_path
from sawlog.core.ids import NodeId
from sawlog.simulation.cluster_profile import FLUSH_BY_SYSTEM, Cleanup, ClusterProfile
from sawlog.simulation.invariants.committed_log import records_between
from sawlog.simulation.world.faults import Fault, FaultKind
from sawlog.simulation.world.request_log import RequestLog
from sawlog.simulation.world.simulation import SimulationOptions
from sawlog.simulation.world.workload import CLASSIC_GROUP, TOPIC
from support.simulation.scenario import ONE, THREE, TWO, Scenario

DURATION_MS = 8_000


def run(profile: ClusterProfile, *faults: Fault, seed: int = 1) -> Scenario:
    options = SimulationOptions(brokers=3, duration_ms=DURATION_MS, profile=profile)
    scenario = Scenario(seed, faults, options)
    scenario.ends_well()
    return scenario


def start_offsets(scenario: Scenario) -> dict[NodeId, list[int]]:
    """The log start offsets of the topic's replicas on each broker."""
    return {
        node.id: [
            replica.log.start_offset
            for replica in node.broker.replicas.by_partition.values()
            if replica.name.topic == TOPIC
        ]
        for node in scenario.cluster.nodes.values()
        if node.broker is not None
    }


def test_a_compacted_topic_keeps_the_last_value_of_each_key() -> None:
    scenario = run(
        ClusterProfile(cleanup=Cleanup.COMPACTION, classic_members=2),
        Fault(3_000, FaultKind.KILL, ONE, 300),
    )
    committed = [
        known for key, known in scenario.observer.partitions.items() if key.name.topic == TOPIC
    ]
    left = scenario.workload.history.last_reads
    assert sum(map(len, left.values())) < sum(len(each.records) for each in committed) / 2
    offsets_log = next(
        known for key, known in scenario.observer.partitions.items() if key.name.topic != TOPIC
    )
    leader = (
        scenario.cluster.nodes[offsets_log.stored.leader].broker if offsets_log.stored else None
    )
    assert leader is not None
    log = leader.replicas.by_partition[offsets_log.key.name].log
    assert len(list(records_between(log, 0, log.end_offset))) < len(offsets_log.records)


@pytest.mark.long
@pytest.mark.parametrize("cleanup", [Cleanup.RETENTION, Cleanup.DELETE_RECORDS])
def test_deleted_records_are_deleted_on_all_replicas(cleanup: Cleanup) -> None:
    scenario = run(ClusterProfile(cleanup=cleanup), Fault(3_000, FaultKind.KILL, ONE, 300))
    assert all(max(offsets) > 0 for offsets in start_offsets(scenario).values())
    assert scenario.workload.history.out_of_range, "consumers met deleted records"


@pytest.mark.long
def test_members_of_a_classic_group_commit_and_rebalance() -> None:
    scenario = run(
        ClusterProfile(classic_members=2),
        Fault(2_000, FaultKind.KILL, ONE, 300),
        Fault(3_000, FaultKind.KILL, TWO, 300),
    )
    history = scenario.workload.history
    assert {index for group, index in history.committed if group == CLASSIC_GROUP} == {0, 1, 2}
    readers = {poll.consumer.split("/")[0] for poll in history.polls}
    assert any(reader.startswith("classic-0") for reader in readers)
    assert any(reader.startswith("classic-1") for reader in readers)


@pytest.mark.long
def test_transactional_clients_of_both_versions_have_several_requests_in_flight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_flight: dict[str, int] = {}
    added: set[str] = set()
    sent = RequestLog.sent

    def noted(self: RequestLog, text: str) -> int:
        number = sent(self, text)
        kind, _, client, *_ = text.split()
        if kind == "ProduceRequest":
            count = sum(each.text == text for each in self.open.values())
            in_flight[client] = max(in_flight.get(client, 0), count)
        elif kind == "AddPartitionsToTxnRequest":
            added.add(client)
        return number

    monkeypatch.setattr(RequestLog, "sent", noted)
    scenario = run(
        ClusterProfile(transactional_clients=3, pipelining_clients=2, older_clients=2),
        Fault(3_000, FaultKind.KILL, ONE, 300),
    )
    assert added == {"copier-1", "copier-2"}
    assert in_flight["copier-0"] > 2
    assert in_flight["copier-1"] > 2
    assert scenario.transactional.history.last_offsets.keys() == {*added, "copier-0"}


@pytest.mark.long
def test_replicas_move_and_partitions_are_added_under_faults() -> None:
    moves = [
        Fault(1_000 + 400 * place, FaultKind.REASSIGNMENT, THREE, 0, place * 37)
        for place in range(12)
    ]
    scenario = run(
        ClusterProfile(),
        *moves,
        Fault(1_500, FaultKind.NEW_PARTITION, ONE, 0),
        Fault(2_000, FaultKind.KILL, TWO, 300),
        Fault(4_000, FaultKind.POWER_LOSS, ONE, 300),
    )
    node = scenario.cluster.service.tree.get(topic_path(TOPIC))
    replicas = decode_assignment(node).replicas
    assert len(replicas) == 4
    assert {len(each) for each in replicas} == {2, 3}
    assert 3 in scenario.acknowledged_between(0, 1 << 30)


@pytest.mark.long
def test_with_flush_policy_os_one_machine_after_the_other_loses_its_power() -> None:
    losses = [
        Fault(1_000 + 2_000 * place, FaultKind.POWER_LOSS, NodeId(place + 1), 200)
        for place in range(3)
    ]
    scenario = run(ClusterProfile(FLUSH_BY_SYSTEM), *losses)
    story = scenario.cluster.trace.lines
    assert sum("loses power" in line for line in story) >= 2


@pytest.mark.long
def test_with_flush_policy_os_all_processes_are_killed_at_once() -> None:
    scenario = run(
        ClusterProfile(FLUSH_BY_SYSTEM), Fault(2_000, FaultKind.POWER_LOSS_OF_ALL, ONE, 300)
    )
    story = scenario.cluster.trace.lines
    assert sum("is killed" in line for line in story) == 3
    assert not any("loses power" in line for line in story)
