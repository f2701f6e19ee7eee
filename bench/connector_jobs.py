"""The jobs of `bench.spark_jobs` with Spark's Kafka connector: a script for its own environment.

It imports nothing of Sawlog, takes the same arguments after the connector's jars and the schema,
and prints the same line of JSON. Files are Parquet, with the columns of a landed table; JSON is
parsed by `from_json`, which returns null for invalid rows.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

MASTER = "local[2]"
AGGREGATE = ("count(value)", "sum(length(value))", "max(offset)")
OWN = ("topic", "partition", "offset", "timestamp", "key")


def session(jars: str) -> SparkSession:
    builder = SparkSession.builder.master(MASTER).appName("bench")
    settings = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def read(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def run(work: str, frame: DataFrame, schema: str, path: Path) -> int:
    """Run the job and return the number of rows."""
    if work == "aggregate":
        (row,) = frame.selectExpr(*AGGREGATE).collect()
        return int(row[0])
    if work == "land-raw":
        rows = frame.select(*OWN, "value")
    else:
        parsed = from_json(col("value").cast("string"), schema).alias("parsed")
        rows = frame.select(*OWN, parsed).select(*OWN, "parsed.*")
    rows.write.parquet(str(path))
    return 0


def main(arguments: list[str]) -> int:
    jars, schema, work, bootstrap, warm_topic, warm_records, topic, records, place = arguments
    spark = session(jars)
    elapsed_s = 0.0
    try:
        for name, expected in ((warm_topic, int(warm_records)), (topic, int(records))):
            path = Path(place) / name
            began = time.monotonic()
            found = run(work, read(spark, bootstrap, name), schema, path)
            elapsed_s = time.monotonic() - began
            if work != "aggregate":
                found = spark.read.parquet(str(path)).count()
            if found != expected:
                raise SystemExit(f"{found} records were read, expected {expected}")
    finally:
        spark.stop()
    print(json.dumps({"records": int(records), "elapsed_s": elapsed_s}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
