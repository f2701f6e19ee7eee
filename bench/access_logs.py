"""Write web access logs to a topic at full speed for a limited time; some of them are invalid.

`python -m bench.access_logs BOOTSTRAP TOPIC SECONDS RECORDS` prints the counts as JSON. A minute of
log time passes in a fraction of a second, so that an aggregate per minute has several rows.
"""

import json
import random
import sys
import time
from collections.abc import Iterator

from confluent_kafka import KafkaError, Message, Producer

BROKEN_EVERY = 1_000
FIRST_MS = 1_735_689_600_000  # 2025-01-01
RECORDS_PER_MINUTE = 25_000
FLUSH_S = 60.0
_PATHS = ("/", "/login", "/search", "/cart", "/checkout", "/static/app.js", "/api/items")
_STATUSES = (200, 200, 200, 200, 200, 304, 404, 500)
_STEP = 5_000


def lines(seed: int) -> Iterator[tuple[bytes, int]]:
    """An endless iterator of values and timestamps; values repeat, timestamps do not."""
    choose = random.Random(seed)
    texts = [
        json.dumps(
            {
                "host": f"10.0.{choose.randrange(256)}.{choose.randrange(256)}",
                "method": choose.choice(("GET", "GET", "GET", "POST")),
                "path": choose.choice(_PATHS),
                "status": choose.choice(_STATUSES),
                "bytes": choose.randrange(100, 50_000),
                "seconds": round(choose.random(), 4),
            }
        ).encode()
        for _ in range(20_000)
    ]
    number = 0
    while True:
        time_ms = FIRST_MS + number * 60_000 // RECORDS_PER_MINUTE
        text = texts[number % len(texts)]
        yield text[:-20] if number % BROKEN_EVERY == 0 else text, time_ms
        number += 1


def write(bootstrap: str, topic: str, seconds: float, records: int) -> dict[str, float]:
    """Produce for the given time or number of records; count the acknowledged ones."""
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 262_144,
            "queue.buffering.max.messages": 500_000,
            "delivery.report.only.error": True,
            "on_delivery": delivered,
            "enable.idempotence": True,
            "log_level": 2,
        }
    )
    began = time.monotonic()
    sent = 0
    for value, time_ms in lines(1):
        while True:
            try:
                producer.produce(topic, value, timestamp=time_ms)
                break
            except BufferError:
                producer.poll(0.01)
        sent += 1
        if sent % _STEP == 0:
            producer.poll(0)
            if sent >= records or time.monotonic() - began > seconds:
                break
    left = producer.flush(FLUSH_S)
    broken = (sent + BROKEN_EVERY - 1) // BROKEN_EVERY
    return {
        "produced": sent - len(failed) - left,
        "broken": broken,
        "failed": len(failed) + left,
        "seconds": time.monotonic() - began,
    }


if __name__ == "__main__":
    print(json.dumps(write(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))))
