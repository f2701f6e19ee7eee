"""What a broker tells Prometheus of itself."""

from sawlog.core.errors import ErrorCode
from sawlog.core.metrics import Registry
from sawlog.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sawlog.simulation.keyed_workload import SETTINGS, TOPIC, KeyedWorkload
from sawlog.simulation.simulated_broker import SimulatedMachine
from support.broker.images import OTHER, replicate
from support.broker.replica_fetches import FollowerSession
from support.broker.requests import NAMED, batch_of, machine_with_topic, produce


def test_groups_are_counted_by_type_and_state() -> None:
    machine = SimulatedMachine(1, offsets_topic_num_partitions="2")
    machine.boot()
    registry = Registry()
    machine.broker.declare_metrics(registry)
    machine.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)], timeout_ms=10_000))
    machine.ask(FindCoordinatorRequest(coordinator_keys=["a"]))
    machine.schedule.run_for(10_000)
    for group in ("a", "b", "c"):
        topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 5)])
        answer = machine.ask(OffsetCommitRequest(group, topics=[topic]), 9)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert 'sawlog_groups{type="Classic",state="Empty"} 3' in registry.render()


def test_a_damaged_log_that_is_not_compacted_is_counted() -> None:
    machine = SimulatedMachine(1, **SETTINGS)
    machine.boot()
    registry = Registry()
    machine.broker.declare_metrics(registry)
    workload = KeyedWorkload(machine, 1)
    workload.prepare()
    workload.run(40)
    machine.schedule.run_for(10_000)
    assert "sawlog_uncleanable_partitions 0" in registry.render()
    directory = f"{TOPIC}-0"
    names = [name for name in machine.disk.list(directory) if name.endswith(".log")]
    closed = next(name for name in names if machine.disk.open(f"{directory}/{name}").size)
    assert closed != names[-1]
    machine.disk.overwrite(f"{directory}/{closed}", 30, b"\xff\xff")
    for _ in range(20):
        workload.produce()
    machine.schedule.run_for(10_000)
    assert "sawlog_uncleanable_partitions 1" in registry.render()
    assert "sawlog_failed_cleanings_total 1" in registry.render()
    assert machine.disk.exists(f"{directory}/{closed}")


def test_under_replicated_partitions_and_lags_are_counted() -> None:
    machine = machine_with_topic(configs={"min.insync.replicas": "3"})
    registry = Registry()
    machine.broker.declare_metrics(registry)
    assert "sawlog_under_replicated_partitions 0" in registry.render()
    replicate(machine, OTHER)
    for _ in range(3):
        machine.ask(produce(batch_of(machine, b"v"), acks=1), NAMED)
    FollowerSession(machine, OTHER).ask(2, 2)
    rendered = registry.render()
    for line in (
        "sawlog_leader_partitions 1",
        "sawlog_under_replicated_partitions 1",
        "sawlog_under_min_isr_partitions 1",
        'sawlog_follower_lag_records{follower="2"} 1',
        'sawlog_follower_lag_records{follower="3"} 3',
        "sawlog_isr_shrinks_total 0",
        "sawlog_isr_expands_total 0",
    ):
        assert line in rendered, rendered


def test_changes_of_in_sync_sets_and_their_failures_are_counted() -> None:
    """The store has the state of a sole replica, so it refuses every change of this set."""
    machine = machine_with_topic(replica_lag_time_max_ms="1000")
    registry = Registry()
    machine.broker.declare_metrics(registry)
    replicate(machine, OTHER)
    machine.ask(produce(batch_of(machine, b"v"), acks=1), NAMED)
    assert "sawlog_isr_shrinks_total 0" in registry.render()
    assert "sawlog_failed_isr_updates_total 0" in registry.render()
    machine.schedule.run_for(2_000)
    rendered = registry.render()
    assert "sawlog_isr_shrinks_total 1" in rendered, "the follower has fetched nothing"
    assert "sawlog_isr_expands_total 0" in rendered
    failures = machine.broker.replicas.isr_totals.failures
    assert failures > 0
    assert f"sawlog_failed_isr_updates_total {failures}\n" in rendered


def test_a_follower_that_joins_is_counted() -> None:
    machine = machine_with_topic()
    registry = Registry()
    machine.broker.declare_metrics(registry)
    replicate(machine)
    FollowerSession(machine, OTHER).ask(0, 0)
    rendered = registry.render()
    assert "sawlog_isr_expands_total 1" in rendered
    assert "sawlog_isr_shrinks_total 0" in rendered


def test_what_a_leader_serves_to_followers_is_counted_apart() -> None:
    machine = machine_with_topic()
    registry = Registry()
    machine.broker.declare_metrics(registry)
    replicate(machine, OTHER)
    machine.send(produce(batch_of(machine, b"a"), acks=1), NAMED)
    FollowerSession(machine, OTHER).ask(0)
    rendered = registry.render()
    assert "sawlog_fetched_bytes_total 0" in rendered
    assert machine.broker.components.metrics.replicated_bytes_out > 0
    assert "sawlog_replica_fetcher_failed_partitions 0" in rendered
    assert "sawlog_replica_fetcher_max_lag_records 0" in rendered
    assert "sawlog_damaged_replicas 0" in rendered


def test_a_broker_that_lost_its_store_is_neither_connected_nor_registered() -> None:
    machine = machine_with_topic()
    registry = Registry()
    machine.broker.declare_metrics(registry)
    assert "sawlog_store_connected 1" in registry.render()
    assert "sawlog_broker_registered 1" in registry.render()
    machine.disk.fails_syncs = True
    machine.ask(CreateTopicsRequest([CreatableTopic("another", 1, 1)], timeout_ms=1_000))
    assert "sawlog_store_connected 0" in registry.render()
    assert "sawlog_broker_registered 0" in registry.render()
