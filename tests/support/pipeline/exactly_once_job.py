"""A Spark job that copies a topic exactly once, as a process, to be killed.

    python exactly_once_job.py BROKERS SOURCE TARGET MARKERS DIRECTORY [--cluster] [--reruns N]

It prints `done` when the source is copied. A task is tried four times. A query that stops is
started again `--reruns` times, after its reason is printed. With `--cluster` there are two
executors, which are processes, and speculation; a Python worker whose task is killed goes on.
"""

import argparse
import os
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from support.pipeline.spark_cluster import SETTINGS as OF_CLUSTER
from support.pipeline.spark_cluster import start_cluster
from support.pipeline.spark_job import WAIT_S, session

RECORDS_PER_BATCH = 100
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.efficiency.enabled": "false",
    "spark.python.task.killTimeout": "600s",
}


def copy(spark: SparkSession, arguments: argparse.Namespace) -> None:
    connection = {"kafka.bootstrap.servers": arguments.brokers}
    query = (
        spark.readStream.format("sawlog")
        .options(subscribe=arguments.source, startingOffsets="earliest", **connection)
        .options(maxOffsetsPerTrigger=RECORDS_PER_BATCH, columns="key,value")
        .load()
        .writeStream.format("sawlog")
        .options(topic=arguments.target, exactlyOnce="true", **connection)
        .option("markerTopic", arguments.markers)
        .option("checkpointLocation", str(Path(arguments.directory) / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(WAIT_S)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("brokers", "source", "target", "markers", "directory"):
        parser.add_argument(name)
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--reruns", type=int, default=0)
    arguments = parser.parse_args()
    directory = Path(arguments.directory)
    if arguments.cluster:
        spark = session(directory, start_cluster(directory), OF_CLUSTER | SPECULATION)
    else:
        spark = session(directory, "local[2,4]")
    for rerun in range(arguments.reruns + 1):
        try:
            copy(spark, arguments)
        except StreamingQueryException as error:
            if rerun == arguments.reruns:
                raise
            print("stopped:", error, flush=True)
        else:
            break
    print("done", flush=True)
    os._exit(0)  # without waiting for workers that are held


if __name__ == "__main__":
    main()
