"""Kafka's ConsumerPerformance, which joins a group, and the parser of its output."""

from dataclasses import dataclass

from bench.process import ChildFailed, Finished, run_to_end
from bench.producer_performance import OPTIONS, TIMEOUT_S
from tools.kafka_node import java_command

CLASS = "org.apache.kafka.tools.ConsumerPerformance"
SILENCE_MS = 30_000
RECORDS, RATE, JOINING_MS, COLUMNS = 4, 5, 6, 10


@dataclass(frozen=True, slots=True)
class Summary:
    """One run as reported by the tool; the rate includes the time to join."""

    records: int
    records_per_s: float
    joining_ms: float


def parse_summary(output: str, expected_records: int) -> Summary:
    """Parse the line after the header; raise ChildFailed if records are missing."""
    lines = [line.split(", ") for line in output.splitlines()]
    found = [cells for cells in lines if len(cells) == COLUMNS and cells[RECORDS].isdecimal()]
    if not found:
        raise ChildFailed(f"ConsumerPerformance printed no summary:\n{output[-2000:]}")
    cells = found[-1]
    if int(cells[RECORDS]) < expected_records:
        raise ChildFailed(f"{cells[RECORDS]} of {expected_records} records were consumed")
    return Summary(int(cells[RECORDS]), float(cells[RATE]), float(cells[JOINING_MS]))


def consume(bootstrap: str, topic: str, *, records: int) -> tuple[Summary, Finished]:
    """Read a topic from its beginning, as the only member of a new group."""
    command = java_command(
        CLASS, "--bootstrap-server", bootstrap, "--topic", topic, options=OPTIONS
    )
    command += ["--group", f"{topic}-group", "--num-records", str(records)]
    command += ["--timeout", str(SILENCE_MS)]
    finished = run_to_end(command, TIMEOUT_S)
    return parse_summary(finished.output, records), finished
