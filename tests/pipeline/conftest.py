"""One Spark session for all tests of a worker: two cores, no web UI, loopback only."""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.programs import require
from tools.kafka_node import SMALL_JVM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.python.authenticate.socketTimeout": "120s",
}
# For the session below and for the drivers that tests start as processes: an optimising compiler
# takes half of the processor time of a JVM that runs for seconds.
for name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(name, " ".join(SMALL_JVM))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that start Spark: a Python worker has ten seconds to connect to Spark, which may
    not be enough beside other tests.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Tasks run in the Python of the tests. A test stops the queries that it starts."""
    require("java")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("tests")
    builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    builder = builder.config("spark.local.dir", str(tmp_path_factory.mktemp("spark")))
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
