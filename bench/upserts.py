"""A keyed table of a million rows, and batches that change one row in a hundred, at random.

The table is loaded first. Then all changes are in the topic, and a run lands them batch by batch.
Spark with delta-spark reads the same topic, in the same batches, into a table of its own with MERGE
(`bench.merge_jobs`), if its jars can be fetched.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.process import ChildFailed, run_to_end
from bench.runs import CLIENT_TIMEOUT_S, ROOT, Measured
from bench.workloads import Metric
from sawlog.client.net.cluster import Cluster
from sawlog.client.producer.producer import Producer
from sawlog.pipeline.delta.file_scan import scan_file
from sawlog.pipeline.delta.table import Table
from tools import spark_connector

BATCHES = 10
ONE_IN = 100
VALUE_BYTES = 100
TOPIC = TABLE = "keyed"
SCHEMA = "id BIGINT, name STRING, amount DOUBLE, change INT, note STRING"


def value(source: random.Random, key: int, change: int) -> bytes:
    """A row of about a hundred bytes; `change` is 0 when it is loaded."""
    fields = {
        "id": key,
        "name": f"name-{source.randrange(1_000_000_000):09}",
        "amount": source.randrange(10_000_000) / 100,
        "change": change,
        "note": "",
    }
    missing = VALUE_BYTES - len(json.dumps(fields, separators=(",", ":")))
    fields["note"] = f"{source.randrange(10**12)}".ljust(missing, "x")[:missing]
    return json.dumps(fields, separators=(",", ":")).encode()


def rows(keys: int) -> Iterator[tuple[int, bytes]]:
    source = random.Random(2011)
    for key in range(keys):
        yield key, value(source, key, 0)


def changes(keys: int) -> Iterator[tuple[int, bytes]]:
    source = random.Random(2012)
    for change in range(1, BATCHES + 1):
        for key in source.sample(range(keys), keys // ONE_IN):
            yield key, value(source, key, change)


def fill(bootstrap: str, records: Iterable[tuple[int, bytes]]) -> None:
    with Cluster(bootstrap) as cluster:
        partitions = len(cluster.topic(TOPIC).partitions)
        with Producer(cluster) as producer:
            for key, text in records:
                producer.send(TOPIC, text, str(key).encode(), partition=key % partitions)


def pipeline_text(bootstrap: str, batch_rows: int) -> str:
    return (
        f"brokers: {bootstrap}\nlake: ./lake\ntables:\n"
        f"  {TABLE}: {{topic: {TOPIC}, format: json, schema: '{SCHEMA}', mode: upsert, key: id,"
        f" commit: {{rows: {batch_rows}}}}}\n"
    )


def last_changes(keys: int) -> dict[int, int]:
    """The last change of every key."""
    last = dict.fromkeys(range(keys), 0)
    for key, text in changes(keys):
        last[key] = json.loads(text)["change"]
    return last


def batch_ends(keys: int, partitions: int) -> list[list[int]]:
    """The end offset of each partition after the load, and after each batch of changes."""
    ends = [[len(range(index, keys, partitions)) for index in range(partitions)]]
    changed = [key % partitions for key, _ in changes(keys)]
    size = len(changed) // BATCHES
    for batch in range(BATCHES):
        counts = Counter(changed[batch * size : (batch + 1) * size])
        ends.append([end + counts[index] for index, end in enumerate(ends[-1])])
    return ends


def merge_with_spark(bootstrap: str, keys: int, partitions: int, path: Path) -> Measured:
    """Merge the same batches with Spark and delta-spark. The environment is prepared."""
    job = {
        "bootstrap": bootstrap,
        "topic": TOPIC,
        "schema": SCHEMA,
        "path": os.fspath(path),
        "ends": batch_ends(keys, partitions),
        "rows": keys,
        "sum": sum(last_changes(keys).values()),
    }
    jars = [*spark_connector.jars(), *spark_connector.delta_jars()]
    command = [os.fspath(spark_connector.python()), "-P", os.fspath(ROOT / "bench/merge_jobs.py")]
    command += [",".join(map(os.fspath, jars)), json.dumps(job)]
    client = run_to_end(command, CLIENT_TIMEOUT_S, cwd=ROOT)
    result = json.loads(client.output.splitlines()[-1])
    if result["commits"] != BATCHES:
        raise ChildFailed(f"{result['commits']} commits instead of {BATCHES}")
    batch_rows = keys // ONE_IN
    changed_bytes = batch_rows * BATCHES * result["size_bytes"] / keys
    return {
        Metric.RATE: batch_rows * (BATCHES - 1) / result["elapsed_s"],
        Metric.WRITTEN: result["added_bytes"] / changed_bytes,
    }


def check(path: Path, keys: int) -> None:
    """The table has every key once, with its last change."""
    expected = last_changes(keys)
    table = Table.open(path)
    found: dict[int, int] = {}
    for file in table.files():
        for batch in scan_file(table.storage, file.path, table.schema, file.partition_values):
            found.update(zip(batch["id"].to_pylist(), batch["change"].to_pylist(), strict=True))
    if table.detail().rows != keys or found != expected:
        raise ChildFailed(f"{path} is not what its topic leaves in a dictionary")


def figures(path: Path, loaded: int, keys: int) -> Measured:
    """Changed rows per second and written bytes, from the versions after `loaded`."""
    table = Table.open(path)
    detail = table.detail()
    times_ms: list[int] = []
    written_bytes = 0
    for version in range(loaded + 1, table.version + 1):
        actions = table.log.entry(version) or []
        added = [action["add"]["size"] for action in actions if "add" in action]
        if added:
            times_ms.append(actions[0]["commitInfo"]["timestamp"])
            written_bytes += sum(added)
    changed_rows = keys // ONE_IN * BATCHES
    batch_rows = changed_rows / len(times_ms)
    elapsed_s = (times_ms[-1] - times_ms[0]) / 1_000
    return {
        Metric.RATE: batch_rows * (len(times_ms) - 1) / elapsed_s,
        Metric.WRITTEN: written_bytes / (changed_rows * detail.size_bytes / detail.rows),
    }
