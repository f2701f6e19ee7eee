"""A standalone Spark cluster in the driver's JVM, whose executors are processes of their own.

Each worker has a host of its own: Spark never runs a speculative attempt on the host of the first
one, and all workers of a `local-cluster` have the same.
"""

import os
import sys
from pathlib import Path

from pyspark import SparkConf, SparkContext

from tools.kafka_node import SMALL_JVM

EXECUTOR = "CoarseGrainedExecutorBackend"  # in the command line of an executor
MEMORY_MB = 512
SETTINGS = {
    "spark.executor.memory": f"{MEMORY_MB}m",
    "spark.executor.extraJavaOptions": " ".join(SMALL_JVM),
}


def start_cluster(directory: Path, workers: int = 2) -> str:
    """Start a master and workers with one core each; returns the master's URL."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    conf = SparkConf()
    for name, value in SETTINGS.items():
        conf.set(name, value)
    SparkContext._ensure_initialized(conf=conf)
    jvm = SparkContext._jvm
    gateway = SparkContext._gateway
    deploy = jvm.org.apache.spark.deploy
    settings = jvm.org.apache.spark.SparkConf().set("spark.shuffle.service.enabled", "false")
    master = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, settings)._1()
    url = f"spark://{master.address().hostPort()}"
    urls = gateway.new_array(jvm.String, 1)
    urls[0] = url
    nothing = jvm.scala.Option.empty()
    for number in range(workers):
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            f"127.0.0.{number + 2}",
            0,
            0,
            1,
            2 * MEMORY_MB,
            urls,
            str(directory / "work"),
            jvm.scala.Option.apply(number),
            settings,
            nothing,
        )
    return url
