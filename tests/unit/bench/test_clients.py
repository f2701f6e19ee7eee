"""Parsers of the output of clients, and child processes."""

import pytest

from bench import consumer_performance
from bench.librdkafka import percentile
from bench.process import ChildFailed, run_to_end
from bench.producer_performance import Summary, parse_summary

PROGRESS = (
    "3998 records sent, 1994.0 records/sec (0.19 MB/sec), 62.5 ms avg latency, "
    "556.0 ms max latency.\n"
)
TOTAL = (
    "12000 records sent, 1985.440106 records/sec (0.19 MB/sec), 22.49 ms avg latency, "
    "556.00 ms max latency, 2 ms 50th, 158 ms 95th, 188 ms 99th, 195 ms 99.9th.\n"
)
STEADY = (
    "4000 steady state records sent, 1951.219512 records/sec (0.19 MB/sec), "
    "1.09 ms avg latency, 10.00 ms max latency, 1 ms 50th, 3 ms 95th, 6 ms 99th, 10 ms 99.9th.\n"
)


def test_the_summary_is_parsed_and_progress_lines_are_ignored() -> None:
    assert parse_summary(PROGRESS + TOTAL) == Summary(12000, 1985.440106, 2.0, 188.0)


def test_the_steady_state_summary_is_parsed_after_a_warmup() -> None:
    assert parse_summary(PROGRESS + TOTAL + STEADY) == Summary(4000, 1951.219512, 1.0, 6.0)


def test_output_without_a_summary_is_a_failure() -> None:
    with pytest.raises(ChildFailed, match="no summary"):
        parse_summary(PROGRESS)


CONSUMED_HEAD = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
)
CONSUMED = (
    "2025-11-16 00:10:01:500, 2025-11-16 00:10:05:500, 381.4697, 95.3674, 4000000, 1000000.0000, "
    "312, 3688, 103.4353, 1084598.6985\n"
)


def test_the_summary_of_a_consumer_has_records_rate_and_join_time() -> None:
    summary = consumer_performance.parse_summary(CONSUMED_HEAD + CONSUMED, 4_000_000)
    assert summary == consumer_performance.Summary(4_000_000, 1_000_000.0, 312.0)


def test_a_consumer_that_misses_records_is_a_failure() -> None:
    with pytest.raises(ChildFailed, match="4000000 of 4000001"):
        consumer_performance.parse_summary(CONSUMED_HEAD + CONSUMED, 4_000_001)


def test_a_consumer_without_a_summary_is_a_failure() -> None:
    with pytest.raises(ChildFailed, match="no summary"):
        consumer_performance.parse_summary(CONSUMED_HEAD, 1)


@pytest.mark.parametrize(
    ("share", "value"), [(0.5, 50.0), (0.99, 99.0), (0.999, 100.0), (0.001, 1.0)]
)
def test_a_percentile_is_one_of_the_values(share: float, value: float) -> None:
    assert percentile([float(number) for number in range(1, 101)], share) == value


def test_the_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7.0], 0.99) == 7.0


def test_a_failed_client_is_reported_with_its_last_lines() -> None:
    with pytest.raises(ChildFailed, match=r"code 3:\nlast words"):
        run_to_end(["sh", "-c", "echo last words; exit 3"], timeout_s=60)


def test_a_client_that_does_not_end_is_killed() -> None:
    with pytest.raises(ChildFailed, match="did not end"):
        run_to_end(["sleep", "600"], timeout_s=0)


def test_a_successful_client_returns_its_output() -> None:
    assert run_to_end(["echo", "done"], timeout_s=60).output == "done\n"
