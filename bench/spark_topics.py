"""Fill topics for Spark, equally on both brokers: `python -m bench.spark_topics ...`.

Values have 100 bytes: opaque bytes, or JSON objects with six fields, of which one in a hundred is
truncated. A million values are distinct, then they repeat.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator

from bench.decoding import place
from sawlog.client.errors import kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sawlog.protocol.messages.produce_response import ProduceResponse
from sawlog.protocol.records import BatchBuilder

VALUE_BYTES = 100
BATCH_RECORDS = 1_000
DISTINCT_BATCHES = 1_000
BROKEN_EVERY = 100
SCHEMA = "id BIGINT, user STRING, path STRING, status INT, ms DOUBLE, ok BOOLEAN"


def opaque(source: random.Random, _number: int) -> bytes:
    return source.randbytes(VALUE_BYTES)


def access(source: random.Random, number: int) -> bytes:
    """A JSON line of an access log; an invalid one is truncated."""
    fields = {
        "id": 10_000_000 + number,
        "user": f"user-{source.randrange(10_000):04}",
        "path": "",
        "status": source.choice((200, 200, 200, 304, 404, 500)),
        "ms": source.randrange(10_000) / 100,
        "ok": True,
    }
    missing = VALUE_BYTES - len(json.dumps(fields, separators=(",", ":")))
    fields["path"] = f"/{source.randrange(1_000):03}".ljust(missing, "x")[:missing]
    value = json.dumps(fields, separators=(",", ":")).encode()
    return value[: VALUE_BYTES // 2] if number % BROKEN_EVERY == 0 else value


VALUES: dict[str, Callable[[random.Random, int], bytes]] = {"opaque": opaque, "json": access}


def batches(kind: str, count: int, now_ms: int) -> Iterator[bytearray]:
    """Batches that differ between runs in their timestamps only: retention deletes old records."""
    source, make = random.Random(2011), VALUES[kind]
    made: list[bytearray] = []
    for number in range(count):
        if number < DISTINCT_BATCHES:
            builder = BatchBuilder()
            for index in range(BATCH_RECORDS):
                row = number * BATCH_RECORDS + index
                builder.append(now_ms + index, None, make(source, row), ())
            made.append(builder.finish())
        yield made[number % DISTINCT_BATCHES]


def broken_of(records: int) -> int:
    """The number of invalid records among `count`: every batch starts with one."""
    return records // BROKEN_EVERY


def fill(bootstrap: str, topic: str, kind: str, partitions: int, records: int) -> int:
    """Produce whole batches, round robin over the partitions; return the number of records."""
    count = max(1, records // BATCH_RECORDS)
    with Cluster(bootstrap) as cluster:
        known = cluster.topic(topic)
        leaders = [cluster.leader(place(topic, index)) for index in range(partitions)]
        for number, batch in enumerate(batches(kind, count, time.time_ns() // 1_000_000)):
            index = number % partitions
            data = PartitionProduceData(index=index, records=batch)
            named = TopicProduceData(name=topic, topic_id=known.id, partition_data=[data])
            request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[named])
            answer = cluster.connection(leaders[index]).request(request, ProduceResponse)
            code = answer.responses[0].partition_responses[0].error_code
            if code:
                raise kafka_error(code, f"batch {number} was refused")
    return count * BATCH_RECORDS


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.spark_topics")
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("kind", choices=VALUES)
    parser.add_argument("partitions", type=int)
    parser.add_argument("records", type=int)
    print(json.dumps({"records": fill(**vars(parser.parse_args(arguments)))}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
