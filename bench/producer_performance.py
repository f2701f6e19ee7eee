"""Kafka's ProducerPerformance, and the parser of its output."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bench.process import ChildFailed, Finished, run_to_end
from tools.kafka_node import DEFAULT_JVM, java_command

CLASS = "org.apache.kafka.tools.ProducerPerformance"
# The heap in its start script.
OPTIONS = ("-Xmx512m", *DEFAULT_JVM)
TIMEOUT_S = 600.0
SUMMARY = re.compile(
    r"(?P<records>\d+) (?P<steady>steady state )?records sent, (?P<rate>[\d.]+) records/sec .*"
    r"latency, (?P<p50>\d+) ms 50th, (?P<p95>\d+) ms 95th, (?P<p99>\d+) ms 99th"
)


@dataclass(frozen=True, slots=True)
class Summary:
    """One run as reported by the tool; latencies are whole milliseconds."""

    records: int
    records_per_s: float
    p50_ms: float
    p99_ms: float


def parse_summary(output: str) -> Summary:
    """Parse the last summary, which is that of the steady state after a warm-up."""
    found = [match for line in output.splitlines() if (match := SUMMARY.search(line))]
    if not found:
        raise ChildFailed(f"ProducerPerformance printed no summary:\n{output[-2000:]}")
    last = found[-1]
    return Summary(
        records=int(last["records"]),
        records_per_s=float(last["rate"]),
        p50_ms=float(last["p50"]),
        p99_ms=float(last["p99"]),
    )


def produce(
    bootstrap: str,
    topic: str,
    *,
    records: int,
    record_bytes: int,
    properties: Mapping[str, str],
    records_per_s: int = -1,
    warmup_records: int = 0,
    transactional_id: str = "",
    transaction_ms: int = 0,
) -> tuple[Summary, Finished]:
    """Send `records` after `warmup_records`; without a rate, at full speed. With a transactional
    id, a transaction is committed every `transaction_ms`."""
    command = java_command(
        CLASS, "--bootstrap-server", bootstrap, "--topic", topic, options=OPTIONS
    )
    command += ["--num-records", str(records + warmup_records)]
    command += ["--record-size", str(record_bytes), "--throughput", str(records_per_s)]
    if warmup_records:
        command += ["--warmup-records", str(warmup_records)]
    if transactional_id:
        command += ["--transactional-id", transactional_id]
        command += ["--transaction-duration-ms", str(transaction_ms)]
    command += ["--command-property", *(f"{key}={value}" for key, value in properties.items())]
    finished = run_to_end(command, TIMEOUT_S)
    if failures := _failures(finished.output):
        raise ChildFailed(f"ProducerPerformance reported errors:\n{failures}")
    return parse_summary(finished.output), finished


def _failures(output: str) -> str:
    """Failed sends: the tool prints a stack trace and continues, so the run is invalid."""
    return "\n".join(line for line in output.splitlines() if "Exception" in line)[:2000]
