"""The Spark session that a pipeline runs in: quiet, on loopback where it is local, in UTC."""

import logging
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sawlog.pipeline.landing.config import Pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_LOG_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.query.name = org.apache.spark.sql.execution.streaming
logger.query.level = off
logger.tasks.name = org.apache.spark.scheduler
logger.tasks.level = off
logger.executor.name = org.apache.spark.executor
logger.executor.level = off
logger.write.name = org.apache.spark.sql.execution.datasources
logger.write.level = off
"""
_TASK_TRIES = 4


@contextmanager
def session(pipeline: Pipeline, master: str | None) -> "Iterator[SparkSession]":
    """For the length of a block."""
    spark = build_session(pipeline, master)
    try:
        yield spark
    finally:
        spark.stop()


def build_session(pipeline: Pipeline, master: str | None) -> "SparkSession":
    """With the settings of the file over ours. Failed queries are told by us, in a line, so Spark's
    own pages about them are not printed.
    """
    from pyspark.sql import SparkSession

    wanted = master or pipeline.spark.get("spark.master") or f"local[*,{_TASK_TRIES}]"
    settings = {
        "spark.app.name": f"sawlog pipeline {Path(pipeline.file).name}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.streaming.stopTimeout": "60s",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.scheduler.mode": "FAIR",
    }
    if wanted.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= pipeline.spark
    # The setting alone is heard by spark-submit only.
    python = settings.get("spark.pyspark.python", sys.executable)
    os.environ.setdefault("PYSPARK_PYTHON", python)
    with _quiet() as options:
        settings["spark.driver.extraJavaOptions"] = " ".join(
            [options, settings.get("spark.driver.extraJavaOptions", "")]
        ).strip()
        builder = SparkSession.builder.master(wanted)
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    register(spark)
    return spark


def in_own_pool(spark: "SparkSession", name: str) -> None:
    """What this thread starts from now on shares the cores fairly with what others start."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)


def register(spark: "SparkSession") -> None:
    """The sources that are not found by name: Spark knows one for each package."""
    from sawlog.pipeline.landing.source import LandingSource
    from sawlog.pipeline.tables.spark_source import TableSource

    spark.dataSource.register(LandingSource)
    spark.dataSource.register(TableSource)


@contextmanager
def _quiet() -> "Iterator[str]":
    """A file of settings for log4j; the JVM reads it when it starts, and never again. What PySpark
    logs itself of a query that is wrong, we tell in a line.
    """
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="sawlog-spark-") as directory:
        file = Path(directory) / "log4j2.properties"
        file.write_text(_LOG_SETTINGS)
        yield f"-Dlog4j2.configurationFile=file:{file}"
