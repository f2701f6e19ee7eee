"""`make demo`: a broker, a topic, a million records in and out through librdkafka, and the cost.

Needs no Java and takes well under a minute. Producing is with acks=all, librdkafka's default, so
every record is on the disk before the producer calls it sent.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from bench import brokers, topics
from bench.brokers import Broker, Name
from bench.librdkafka import READ_AHEAD
from bench.process import ChildFailed
from bench.tables import number

RECORDS = 1_000_000
VALUE = b"sawlog: logs in, tables out ".ljust(100, b".")
TOPIC, PARTITIONS = "demo", 6
STEP = 10_000
SILENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Phase:
    title: str
    elapsed_s: float
    broker_cpu_s: float
    resident_bytes: int


def produced(bootstrap: str) -> Iterator[int]:
    """Sends the million; yields how many more are sent, and returns when all are acknowledged."""
    failures: list[KafkaError] = []

    def failed(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "queue.buffering.max.messages": 2 * RECORDS,
            "delivery.report.only.error": True,
            "on_delivery": failed,
            "log_level": 2,
        }
    )
    for _ in range(RECORDS // STEP):
        for _ in range(STEP):
            producer.produce(TOPIC, VALUE)
        producer.poll(0)
        yield STEP
    left = producer.flush(SILENCE_S)
    if failures or left:
        raise ChildFailed(f"{len(failures) + left} records were not acknowledged {failures[:1]}")


def consumed(bootstrap: str) -> Iterator[int]:
    """Reads the million from the beginning; yields how many more have come."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "demo", "log_level": 2}
    consumer = Consumer({**settings, **READ_AHEAD, "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    seen = 0
    while seen < RECORDS:
        messages = [m for m in consumer.consume(STEP, SILENCE_S) if m.error() is None]
        if not messages:
            raise ChildFailed(f"only {seen} of {RECORDS} records came back")
        seen += len(messages)
        yield len(messages)
    consumer.close()


def measured(broker: Broker, title: str, steps: Iterator[int], console: Console) -> Phase:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=RECORDS)
        began, cpu_s = time.monotonic(), broker.server.cpu_s()
        for count in steps:
            progress.advance(task, count)
        elapsed_s = time.monotonic() - began
    broker_cpu_s = broker.server.cpu_s() - cpu_s
    return Phase(title, elapsed_s, broker_cpu_s, broker.server.resident_bytes())


def show(broker: Broker, phases: list[Phase], console: Console) -> None:
    table = Table(title=f"{RECORDS:,} records of {len(VALUE)} B, {PARTITIONS} partitions")
    columns = ("", "time", "records/s", "MB/s", "broker CPU", "broker memory")
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position else "left")
    for phase in phases:
        rate = RECORDS / phase.elapsed_s
        table.add_row(
            phase.title,
            f"{phase.elapsed_s:.2f} s",
            number(rate),
            f"{rate * len(VALUE) / 1e6:.0f}",
            f"{phase.broker_cpu_s:.2f} s",
            f"{phase.resident_bytes / 1e6:.0f} MB",
        )
    console.print(table)
    console.print(f"The broker answered {broker.first_answer_s:.2f} s after its start.")


def main() -> int:
    console = Console()
    with tempfile.TemporaryDirectory(prefix="sawlog-demo-") as directory:
        try:
            broker = brokers.start(Name.SAWLOG, Path(directory) / "broker")
        except ChildFailed as failure:
            console.print(f"[red]failed:[/] {failure}", highlight=False)
            return 1
        try:
            console.print(f"A broker runs on {broker.bootstrap}; making topic {TOPIC!r}.")
            topics.create(broker.bootstrap, TOPIC, PARTITIONS)
            work = (("produce, acks=all", produced), ("consume", consumed))
            phases = [
                measured(broker, title, steps(broker.bootstrap), console) for title, steps in work
            ]
        except (ChildFailed, KafkaException) as failure:
            console.print(f"[red]failed:[/] {failure}\n{broker.server.tail()}", highlight=False)
            return 1
        finally:
            stopped_s = broker.server.stop()
        show(broker, phases, console)
        code = broker.server.exit_code
        console.print(f"It stopped in {stopped_s:.2f} s, with exit code {code}.")
    return 0 if code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
