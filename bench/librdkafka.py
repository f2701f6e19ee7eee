"""librdkafka clients as separate programs: `python -m bench.librdkafka consume|pace ...`.

Each prints one line of JSON. They run in processes of their own, so that their CPU is measured
separately and they have their own interpreter lock. `consume` reads a topic from its beginning with
`assign`; `pace` sends at a fixed rate and reports latencies in microseconds.
"""

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

# By default librdkafka pauses fetching for a second when 100,000 records are queued.
READ_AHEAD = {"queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 5}
FETCH_MESSAGES = 10_000
SILENCE_S = 30.0


def consume(bootstrap: str, topic: str, partitions: int, records: int) -> dict[str, float]:
    """The seconds from `assign` to the last record, and the bytes of the values."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "log_level": 2,
            **READ_AHEAD,
        }
    )
    began = time.monotonic()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    seen = value_bytes = 0
    while seen < records:
        messages = consumer.consume(FETCH_MESSAGES, SILENCE_S)
        if not messages:
            raise SystemExit(
                f"nothing came for {SILENCE_S:.0f} s after {seen} of {records} records"
            )
        if any(message.error() for message in messages):
            messages = _without_errors(messages)
        seen += len(messages)
        value_bytes += sum(map(len, messages))
    elapsed_s = time.monotonic() - began
    consumer.close()
    return {"records": seen, "value_bytes": value_bytes, "elapsed_s": elapsed_s}


def _without_errors(messages: list[Message]) -> list[Message]:
    for message in messages:
        error = message.error()
        # Without a group, a missing coordinator is no error.
        if error is not None and error.fatal():
            raise KafkaException(error)
    return [message for message in messages if message.error() is None]


def pace(
    bootstrap: str, topic: str, rate: int, warmup_s: float, measured_s: float, acks: str
) -> dict[str, float]:
    """Percentiles of the time from send to acknowledgement, without the warm-up."""
    latencies_s: list[float] = []
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)
            return
        latency = message.latency()
        if latency is not None:
            latencies_s.append(latency)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "linger.ms": 0,
            "log_level": 2,
            "on_delivery": delivered,
        }
    )
    done = threading.Event()

    # A thread that blocks in librdkafka takes the delivery reports.
    def poll() -> None:
        while not done.is_set():
            producer.poll(0.1)

    poller = threading.Thread(target=poll)
    poller.start()
    value = b"x" * 100
    for due in _schedule(rate, warmup_s + measured_s):
        wait_s = due - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        producer.produce(topic, value)
    done.set()
    poller.join()
    left = producer.flush(SILENCE_S)
    if failures or left:
        raise SystemExit(f"{len(failures)} sends failed, {left} unanswered: {failures[:1]}")
    counted = sorted(latencies_s[int(rate * warmup_s) :])
    return {
        "records": len(counted),
        "p50_ms": percentile(counted, 0.50) * 1000,
        "p99_ms": percentile(counted, 0.99) * 1000,
        "max_ms": counted[-1] * 1000,
    }


def _schedule(rate: int, seconds: float) -> Iterator[float]:
    began = time.monotonic()
    for number in range(int(rate * seconds)):
        yield began + number / rate


def percentile(ascending: list[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed."""
    if not ascending:
        raise ValueError("no values")
    rank = max(0, -(-len(ascending) * round(share * 1000) // 1000) - 1)
    return ascending[rank]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.librdkafka")
    commands = parser.add_subparsers(dest="command", required=True)
    reader = commands.add_parser("consume")
    sender = commands.add_parser("pace")
    for command in (reader, sender):
        command.add_argument("bootstrap")
        command.add_argument("topic")
    reader.add_argument("partitions", type=int)
    reader.add_argument("records", type=int)
    sender.add_argument("rate", type=int)
    sender.add_argument("warmup_s", type=float)
    sender.add_argument("measured_s", type=float)
    sender.add_argument("acks")
    given = vars(parser.parse_args(arguments))
    measured = consume(**given) if given.pop("command") == "consume" else pace(**given)
    print(json.dumps(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
