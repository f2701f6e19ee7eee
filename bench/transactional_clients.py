"""Transactional librdkafka clients: `python -m bench.transactional_clients commit|latency ...`.

Each prints one line of JSON. `commit` commits transactions of one record, one after another;
`latency` begins a transaction of a few records at a fixed rate, while a consumer of the same
process reads them with read_committed.
"""

import argparse
import json
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench.librdkafka import percentile

TIMEOUT_S = 30.0
VALUE_BYTES = 100
RECORDS_A_TRANSACTION = 10


def transactional_producer(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "linger.ms": 0,
            "log_level": 2,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def commit(bootstrap: str, topic: str, warmup: int, count: int) -> dict[str, float]:
    """The seconds that `count` transactions take, after those of the warm-up."""
    producer = transactional_producer(bootstrap, topic)
    value = bytes(VALUE_BYTES)
    began = time.monotonic()
    for number in range(warmup + count):
        if number == warmup:
            began = time.monotonic()
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.commit_transaction(TIMEOUT_S)
    return {"commits": count, "elapsed_s": time.monotonic() - began}


class CommittedReader:
    """Reads partition 0 in a thread, and keeps the time at which each record arrived."""

    def __init__(self, bootstrap: str, topic: str, records: int) -> None:
        self.arrived_s: list[float] = []
        self.failure: str | None = None
        self._records = records
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 2,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while len(self.arrived_s) < self._records:
            message = self._consumer.poll(TIMEOUT_S)
            now_s = time.monotonic()
            if message is None:
                self.failure = f"nothing came for {TIMEOUT_S:.0f} s"
                return
            error = message.error()
            if error is not None and error.fatal():
                self.failure = str(error)
                return
            if error is not None:  # librdkafka goes on by itself
                continue
            number = int.from_bytes((message.value() or b"")[:8], "big")
            if number != len(self.arrived_s):
                self.failure = f"record {number} came instead of {len(self.arrived_s)}"
                return
            self.arrived_s.append(now_s)

    def wait(self) -> list[float]:
        """Return the times when all records have arrived; SystemExit if one is missing."""
        self._thread.join()
        self._consumer.close()
        if self.failure is not None:
            raise SystemExit(f"{self.failure}: {len(self.arrived_s)} of {self._records} records")
        return self.arrived_s


def latency(bootstrap: str, topic: str, rate: int, warmup: int, count: int) -> dict[str, float]:
    """Percentiles of the time from the due start of a transaction to each of its records.

    The due start counts rather than the actual one: a transaction that waits for the commit of
    the one before it is late for its reader, too.
    """
    transactions = warmup + count
    reader = CommittedReader(bootstrap, topic, transactions * RECORDS_A_TRANSACTION)
    producer = transactional_producer(bootstrap, topic)
    due_s: list[float] = []
    began_s = time.monotonic()
    for transaction in range(transactions):
        due = began_s + transaction / rate
        wait_s = due - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        producer.begin_transaction()
        for _ in range(RECORDS_A_TRANSACTION):
            value = len(due_s).to_bytes(8, "big").ljust(VALUE_BYTES, b"x")
            producer.produce(topic, value, partition=0)
            due_s.append(due)
        producer.commit_transaction(TIMEOUT_S)
    arrived_s = reader.wait()
    first = warmup * RECORDS_A_TRANSACTION
    latencies_s = sorted(
        arrived - due for arrived, due in zip(arrived_s[first:], due_s[first:], strict=True)
    )
    return {
        "records": len(latencies_s),
        "p50_ms": percentile(latencies_s, 0.50) * 1000,
        "p99_ms": percentile(latencies_s, 0.99) * 1000,
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.transactional_clients")
    commands = parser.add_subparsers(dest="command", required=True)
    committer, pacer = commands.add_parser("commit"), commands.add_parser("latency")
    for command in (committer, pacer):
        command.add_argument("bootstrap")
        command.add_argument("topic")
    pacer.add_argument("rate", type=int)
    for command in (committer, pacer):
        command.add_argument("warmup", type=int)
        command.add_argument("count", type=int)
    given = vars(parser.parse_args(arguments))
    try:
        measured = commit(**given) if given.pop("command") == "commit" else latency(**given)
    except KafkaException as error:
        raise SystemExit(str(error)) from None
    print(json.dumps(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
