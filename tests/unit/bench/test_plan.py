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
