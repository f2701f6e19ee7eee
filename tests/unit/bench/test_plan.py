"""The plan of the benchmark's command line."""

import pytest

from bench.__main__ import arguments, make_plan
from bench.brokers import Name
from bench.session import Plan, alternating
from bench.workloads import BY_NAME


def plan(*given: str) -> Plan:
    return make_plan(arguments(list(given)))


def test_everything_is_measured_by_default() -> None:
    assert [workload.name for workload in plan().workloads] == list(BY_NAME)
    assert plan().names == (Name.KAFKA, Name.SAWLOG)


def test_only_and_skip_choose_the_workloads() -> None:
    chosen = plan("--only", "produce-6,consume,single", "--skip", "single").workloads
    assert [workload.name for workload in chosen] == ["produce-6", "consume"]


def test_quick_has_fewer_records_one_round_and_no_recovery() -> None:
    quick = plan("--quick")
    assert quick.rounds == 1
    assert quick.loads[0].records < BY_NAME["produce-6"].records
    assert BY_NAME["recovery"] not in quick.workloads


@pytest.mark.parametrize(
    ("given", "message"),
    [(("--only", "nonsense"), "unknown workload 'nonsense'"), (("--brokers", "redis"), "redis")],
)
def test_unknown_names_are_reported(given: tuple[str, ...], message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        plan(*given)


def test_the_order_of_brokers_alternates() -> None:
    names = (Name.KAFKA, Name.SAWLOG)
    assert [alternating(names, number)[0] for number in range(3)] == ["kafka", "sawlog", "kafka"]


def test_steps_count_every_run_of_every_broker() -> None:
    assert plan("--only", "single", "--no-warmup", "--rounds", "3").steps() == 6
    assert plan("--only", "recovery", "--brokers", "sawlog").steps() == 1
    assert plan("--only", "recovery", "--brokers", "kafka").steps() == 0
    assert plan("--only", "offsets").steps() == 2
    assert plan("--only", "compaction-100", "--rounds", "3").steps() == 8


def test_clusters_are_warmed_up_once_per_flush_policy() -> None:
    assert plan("--only", "replicated-1", "--no-warmup", "--rounds", "3").steps() == 6
    assert plan("--only", "replicated-1", "--rounds", "1").steps() == 2 * 3
    both = plan("--only", "replicated-1,replicated-1-durable", "--rounds", "1")
    assert both.steps() == 2 * 6
    assert [work.name for work in both.replicated("commit")] == ["replicated-1-durable"]


def test_thousand_partitions_have_clusters_of_their_own_in_three_rounds_at_most() -> None:
    chosen = plan("--only", "replicated-partitions", "--rounds", "5")
    assert chosen.replicated("os") == []
    assert chosen.steps() == 6


def test_every_fault_is_measured_in_every_round_without_a_warm_up() -> None:
    chosen = plan("--only", "failover-kill,failover-pause", "--rounds", "3")
    assert chosen.replicated("commit") == []
    assert chosen.steps() == 2 * 3 * 2
