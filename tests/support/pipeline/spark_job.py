"""A Spark job as a process, to be killed or to run in another environment.

`stream` writes each batch of a topic, from the latest offset on, atomically to the file
`<out>/<batch>`; a repeated batch replaces its file. With `--stop-in 0` it writes `<out>/attempt` in
that batch and blocks. `roundtrip` reads a topic, writes it to another and streams it to a third.
"""

import argparse
import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamReader

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
}
WAIT_S = 300


def session(
    directory: Path, master: str = "local[2]", more: Mapping[str, str] = MappingProxyType({})
) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master)
    builder = builder.config("spark.local.dir", str(directory / "spark"))
    for name, value in (SETTINGS | dict(more)).items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


def write_whole(path: Path, values: list[int]) -> None:
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(values))
    beside.rename(path)


def stream(arguments: argparse.Namespace) -> None:
    """Run until `<out>/enough` exists."""
    out = Path(arguments.out)

    def take(rows: "DataFrame", batch: int) -> None:
        values = sorted(int(row.value) for row in rows.collect())
        if batch == arguments.stop_in:
            write_whole(out / "attempt", values)
            print("in the batch", flush=True)
            threading.Event().wait()
        write_whole(out / str(batch), values)
        print("batch", batch, len(values), flush=True)

    spark = session(out)
    query = (
        reader(spark, arguments)
        .options(columns="value", startingOffsets="latest")
        .load()
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(out / "checkpoint"))
        .start()
    )
    while not query.awaitTermination(1):
        if (out / "enough").exists():
            query.stop()
    spark.stop()


def roundtrip(arguments: argparse.Namespace) -> None:
    out, topic = Path(arguments.out), arguments.topic
    spark = session(out)
    brokers = {"kafka.bootstrap.servers": arguments.brokers}
    source = spark.read.format("sawlog").options(subscribe=topic, **brokers).load()
    columns = source.select("key", "value")
    columns.write.format("sawlog").options(topic=f"{topic}-2", **brokers).mode("append").save()
    limited = reader(spark, arguments).options(
        startingOffsets="earliest", maxOffsetsPerTrigger=arguments.limit
    )
    query = (
        limited.load()
        .select("key", "value")
        .writeStream.format("sawlog")
        .options(topic=f"{topic}-3", checkpointLocation=str(out / "checkpoint"), **brokers)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(WAIT_S)
    rows = [progress.numInputRows for progress in query.recentProgress]
    print(json.dumps({"version": spark.version, "batches": [count for count in rows if count]}))
    spark.stop()


def reader(spark: SparkSession, arguments: argparse.Namespace) -> "DataStreamReader":
    found = spark.readStream.format("sawlog").option("kafka.bootstrap.servers", arguments.brokers)
    return found.option("subscribe", arguments.topic)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["stream", "roundtrip"])
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--stop-in", type=int, default=-1)
    parser.add_argument("--limit", type=int, default=1)
    arguments = parser.parse_args()
    {"stream": stream, "roundtrip": roundtrip}[arguments.what](arguments)


if __name__ == "__main__":
    main()
