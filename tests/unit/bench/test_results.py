"""Medians, ratios and verdicts of the benchmark."""

import json

import pytest

from bench.brokers import Name
from bench.results import Results
from bench.workloads import BY_NAME, Metric, Target


def results(kafka: list[float], sawlog: list[float], metric: Metric = Metric.RATE) -> Results:
    made = Results({"cores": "2"}, "2026-11-17")
    for value in kafka:
        made.add("produce-6", Name.KAFKA, metric, value)
    for value in sawlog:
        made.add("produce-6", Name.SAWLOG, metric, value)
    return made


def test_a_ratio_is_the_median_of_the_ratios_of_the_rounds() -> None:
    assert results([100, 900, 200], [300, 1, 500]).ratio("produce-6", Metric.RATE) == 2.5


def test_there_is_no_ratio_without_both_brokers() -> None:
    assert results([100], []).ratio("produce-6", Metric.RATE) is None


def test_kafkas_zero_gives_a_verdict_but_no_ratio() -> None:
    made = results([0], [0], Metric.P99)
    verdict = made.verdict("produce-6", Target(Metric.P99, 1.0))
    assert (verdict.measured, verdict.reached) == (None, True)


def test_a_positive_value_misses_a_bound_against_kafkas_zero() -> None:
    verdict = results([0], [1], Metric.P99).verdict("produce-6", Target(Metric.P99, 1.0))
    assert verdict.reached is False


@pytest.mark.parametrize(
    ("at_least", "sawlog", "reached"),
    [(True, 119, False), (True, 120, True), (False, 120, True), (False, 121, False)],
)
def test_a_target_is_reached_at_its_bound(at_least: bool, sawlog: float, reached: bool) -> None:
    target = Target(Metric.RATE, 1.2, at_least=at_least)
    assert results([100], [sawlog]).verdict("produce-6", target).reached is reached


def test_an_absolute_target_ignores_kafka() -> None:
    verdict = results([], [1.5]).verdict("produce-6", Target(Metric.RATE, 2.0, absolute=True))
    assert (verdict.measured, verdict.reached) == (1.5, True)


def test_a_workload_that_was_not_measured_reaches_no_target() -> None:
    verdict = results([100], []).verdict("produce-6", Target(Metric.RATE, 1.0, at_least=True))
    assert verdict.reached is None


def test_spread_is_the_range_as_a_share_of_the_median() -> None:
    assert results([90, 100, 120], []).spread("produce-6", Name.KAFKA, Metric.RATE) == 0.3


def test_results_round_trip_through_json() -> None:
    made = results([100, 120], [130, 140])
    again = Results.from_json(json.loads(json.dumps(made.as_json())))
    assert again.ratio("produce-6", Metric.RATE) == made.ratio("produce-6", Metric.RATE)
    assert (again.machine, again.day) == (made.machine, made.day)


def test_verdicts_come_in_the_order_of_the_workloads() -> None:
    made = Results()
    for name in ("recovery", "single", "produce-6"):
        for broker in Name:
            made.add(name, broker, Metric.RATE, 1.0)
    names = [verdict.workload.name for verdict in made.verdicts()]
    assert names == ["produce-6", "produce-6", "single", "single", "recovery"]


def test_cores_of_other_processes_are_a_median_over_all_runs() -> None:
    made = results([0.1, 0.2], [0.9], Metric.OTHERS)
    made.add("consume", Name.SAWLOG, Metric.OTHERS, 0.3)
    assert made.of_all_runs(Metric.OTHERS) == pytest.approx(0.25)


def test_a_scaled_workload_sends_at_least_one_record() -> None:
    assert BY_NAME["single"].scaled(1e-9).records == 1
    assert BY_NAME["single"].scaled(0.5).records == 50_000


def test_a_scaled_group_rebalances_at_least_once() -> None:
    assert BY_NAME["rebalance-consumer-200"].scaled(1e-9).rebalances == 1
    assert BY_NAME["rebalance-classic-200"].scaled(0.5).rebalances == 5


def test_the_topic_of_a_group_has_partitions_for_every_member() -> None:
    assert BY_NAME["rebalance-consumer-200"].partitions == 400
