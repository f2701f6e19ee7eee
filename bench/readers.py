"""Python clients compared: each reads the same topic of Sawlog.

The target is for decoding only, which `bench.results` has as Sawlog's value; the other clients are
further rows of the table.
"""

import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench import brokers, topics
from bench.brokers import Broker, Name
from bench.process import Finished, run_to_end
from bench.results import Results
from bench.runs import CLIENT_TIMEOUT_S, ROOT, Measured
from bench.workloads import Metric, Workload

TOPIC = "read"


class Reader(NamedTuple):
    title: str
    module: str
    command: str


COMPARED = "confluent-kafka"
READERS = {
    COMPARED: Reader("confluent-kafka, `consume()`", "librdkafka", "consume"),
    "poll": Reader("Sawlog's client, `poll_arrow()`", "decoding", "poll"),
    "range": Reader("Sawlog's client, `read_range()`", "decoding", "range"),
    Name.SAWLOG: Reader("the decoding alone, from memory", "decoding", "decode"),
}


@contextmanager
def filled(workload: Workload, directory: Path) -> Iterator[Broker]:
    """A broker with the filled topic."""
    broker = brokers.start(Name.SAWLOG, directory)
    try:
        topics.create(broker.bootstrap, TOPIC, workload.partitions)
        _client("decoding", ["fill", *_place(workload, broker)])
        os.sync()
        yield broker
    finally:
        broker.server.stop()


def read(workload: Workload, broker: Broker, name: str) -> Measured:
    reader = READERS[name]
    from_memory = name == Name.SAWLOG
    place = [str(workload.records)] if from_memory else _place(workload, broker)
    client = _client(reader.module, [reader.command, *place])
    result = json.loads(client.output.splitlines()[-1])
    measured = {
        Metric.RATE: result["records"] / result["elapsed_s"],
        Metric.CLIENT_CPU: client.cpu_s,
    }
    if "compile_s" in result:
        measured[Metric.COMPILE] = result["compile_s"]
    return measured


def ratio(results: Results, workload: Workload, name: str) -> float | None:
    """The median of the ratios to `consume()`, round by round."""
    ours, theirs = (results.all(workload.name, client, Metric.RATE) for client in (name, COMPARED))
    if not ours or len(ours) != len(theirs):
        return None
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))


def measure(
    workload: Workload,
    directory: Path,
    rounds: int,
    listener: Callable[[str, Measured | None], None],
    keep: Callable[[str, Measured], None],
) -> None:
    """Run each client once per round, in alternating order."""
    names = list(READERS)
    with filled(workload, directory) as broker:
        for round_number in range(rounds):
            for name in names if round_number % 2 == 0 else reversed(names):
                step = f"round {round_number + 1}, {READERS[name].title}"
                listener(step, None)
                measured = read(workload, broker, name)
                keep(name, measured)
                listener(step, measured)


def _place(workload: Workload, broker: Broker) -> list[str]:
    return [broker.bootstrap, TOPIC, str(workload.partitions), str(workload.records)]


def _client(module: str, arguments: list[str]) -> Finished:
    command = [sys.executable, "-m", f"bench.{module}", *arguments]
    return run_to_end(command, CLIENT_TIMEOUT_S, cwd=ROOT)
