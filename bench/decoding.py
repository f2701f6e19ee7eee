"""Arrow clients as separate programs: `python -m bench.decoding fill|poll|range|decode ...`.

Each prints one line of JSON. `poll` and `range` read a topic from its beginning, like
`bench.librdkafka consume`; `decode` decodes the same batches in memory and compiles its loop again.
The measured time excludes imports and compilation, which are reported separately.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator

from sawlog.client.consumer.consumer import AT_EARLIEST, Consumer
from sawlog.client.consumer.fetched_records import FetchedRecords
from sawlog.client.errors import kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sawlog.protocol.messages.produce_response import ProduceResponse
from sawlog.protocol.record_batch import stamp
from sawlog.protocol.records import BatchBuilder

BATCH_RECORDS = 500
DISTINCT_BATCHES = 64
VALUE_BYTES = (20, 180)
HEADERS_EVERY = 10
ONE_ANSWER = DISTINCT_BATCHES * BATCH_RECORDS
ANSWER_BYTES = 8 * 1024 * 1024
DECOMPRESSED_BYTES = 1 << 28
SILENCE_MS = 30_000.0


def batches(records: int, now_ms: int) -> Iterator[bytearray]:
    """Batches with so many records: keys, values of 20 to 180 bytes, a header on each tenth.

    Only their timestamps differ between runs: retention would delete old records.
    """
    source = random.Random(2011)
    made: list[bytearray] = []
    for number in range(records // BATCH_RECORDS):
        if number < DISTINCT_BATCHES:
            builder = BatchBuilder()
            for index in range(BATCH_RECORDS):
                key = b"key-%08d" % source.randrange(10**8)
                value = source.randbytes(source.randint(*VALUE_BYTES))
                headers = (("trace", key),) if index % HEADERS_EVERY == 0 else ()
                builder.append(now_ms + index, key, value, headers)
            made.append(builder.finish())
        yield made[number % DISTINCT_BATCHES]


def fill(bootstrap: str, topic: str, partitions: int, records: int) -> dict[str, float]:
    """Produce the batches, round robin over the partitions."""
    with Cluster(bootstrap) as cluster:
        known = cluster.topic(topic)
        connection = cluster.connection(cluster.leader(place(topic, 0)))
        for number, batch in enumerate(batches(records, time.time_ns() // 1_000_000)):
            data = PartitionProduceData(index=number % partitions, records=batch)
            named = TopicProduceData(name=topic, topic_id=known.id, partition_data=[data])
            request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[named])
            answer = connection.request(request, ProduceResponse)
            code = answer.responses[0].partition_responses[0].error_code
            if code:
                raise kafka_error(code, f"batch {number} was refused")
    return {"records": records}


def place(topic: str, index: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))


def prepare() -> float:
    """Import and compile everything for Arrow; return the seconds of compilation."""
    from sawlog.client.arrow import record_columns, record_kernels

    record_columns.RecordColumns()
    return record_kernels.COMPILED_IN_S


def poll(bootstrap: str, topic: str, partitions: int, records: int) -> dict[str, float]:
    compile_s = prepare()
    with Cluster(bootstrap) as cluster:
        consumer = Consumer(cluster)
        began = time.monotonic()
        consumer.assign({place(topic, index): AT_EARLIEST for index in range(partitions)})
        seen = 0
        while seen < records:
            batch = consumer.poll_arrow(SILENCE_MS)
            if not batch.num_rows:
                raise SystemExit(f"nothing came for 30 s after {seen} of {records} records")
            seen += batch.num_rows
        return result(seen, time.monotonic() - began, compile_s)


def ranges(bootstrap: str, topic: str, partitions: int, records: int) -> dict[str, float]:
    """Read one partition after the other, like the tasks of a Spark job."""
    compile_s = prepare()
    from sawlog.client.arrow.offset_range import read_range

    with Cluster(bootstrap) as cluster:
        began = time.monotonic()
        seen = 0
        for index in range(partitions):
            end = len(range(index, records // BATCH_RECORDS, partitions)) * BATCH_RECORDS
            for chunk in read_range(cluster, place(topic, index), 0, end):
                seen += chunk.batch.num_rows
        return result(seen, time.monotonic() - began, compile_s)


def decode(records: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        os.environ["NUMBA_CACHE_DIR"] = directory
        compile_s = prepare()
    from sawlog.client.arrow.record_columns import RecordColumns

    answer = bytearray()
    for number, batch in enumerate(batches(ONE_ANSWER, time.time_ns() // 1_000_000)):
        stamp(memoryview(batch), number * BATCH_RECORDS, 0)
        answer += batch
    taken = RecordColumns(max_bytes=ANSWER_BYTES)
    began = time.process_time()  # on one core, without waiting for a broker
    seen = 0
    while seen < records:
        fetched = FetchedRecords(
            place("logs", 0), 0, answer, max_decompressed_bytes=DECOMPRESSED_BYTES
        )
        is_empty = False
        while not is_empty:
            is_empty = taken.take(fetched)
            seen += taken.finish().num_rows
    return result(seen, time.process_time() - began, compile_s)


def result(records: int, elapsed_s: float, compile_s: float) -> dict[str, float]:
    return {"records": records, "elapsed_s": elapsed_s, "compile_s": compile_s}


COMMANDS = {"fill": fill, "poll": poll, "range": ranges}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.decoding")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in COMMANDS:
        command = commands.add_parser(name)
        command.add_argument("bootstrap")
        command.add_argument("topic")
        command.add_argument("partitions", type=int)
        command.add_argument("records", type=int)
    commands.add_parser("decode").add_argument("records", type=int)
    given = vars(parser.parse_args(arguments))
    command = given.pop("command")
    print(json.dumps(decode(**given) if command == "decode" else COMMANDS[command](**given)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
