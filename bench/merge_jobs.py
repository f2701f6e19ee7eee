"""The changes of `bench.upserts` with Spark and delta-spark: a script for their own environment.

It imports nothing of Sawlog. It loads a Delta table from the first offsets of a topic, then merges
batch after batch with MERGE, and prints a line of JSON. A batch is reduced to the last record of
each key first, without which MERGE fails if a key changes twice.
"""

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json, max_by, struct

MASTER = "local[2]"
KEY = "id"


def session(jars: str) -> SparkSession:
    builder = SparkSession.builder.master(MASTER).appName("bench")
    settings = {
        "spark.jars": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
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


def read(given: dict[str, Any], spark: SparkSession, start: list[int], end: list[int]) -> DataFrame:
    """The last value of each key between these offsets, one of each for every partition."""
    offsets = [json.dumps({given["topic"]: dict(enumerate(each))}) for each in (start, end)]
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", given["bootstrap"])
    reader = reader.option("subscribe", given["topic"])
    reader = reader.option("startingOffsets", offsets[0]).option("endingOffsets", offsets[1])
    parsed = from_json(col("value").cast("string"), given["schema"]).alias("parsed")
    rows = reader.load().select("offset", parsed).select("offset", "parsed.*")
    columns = [name for name in rows.columns if name != "offset"]
    last = rows.groupBy(KEY).agg(max_by(struct(*columns), col("offset")).alias("last"))
    return last.select("last.*")


def run(given: dict[str, Any], spark: SparkSession) -> dict[str, float]:
    path, ends = given["path"], given["ends"]
    read(given, spark, [0] * len(ends[0]), ends[0]).write.format("delta").save(path)
    loaded = last_version(Path(path))
    for start, end in pairwise(ends):
        read(given, spark, start, end).createOrReplaceTempView("changes")
        spark.sql(
            f"MERGE INTO delta.`{path}` t USING changes c ON t.{KEY} = c.{KEY}"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
    (found,) = spark.read.format("delta").load(path).selectExpr("count(*)", "sum(change)").collect()
    if list(found) != [given["rows"], given["sum"]]:
        raise SystemExit(f"the table has {list(found)} rows and changes: {given['rows']} expected")
    (detail,) = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()
    return {**written(Path(path), loaded), "size_bytes": detail["sizeInBytes"]}


def last_version(path: Path) -> int:
    return max(int(file.stem) for file in (path / "_delta_log").glob("*.json"))


def written(path: Path, loaded: int) -> dict[str, float]:
    """The time from the first to the last commit after version `loaded`, and the bytes added."""
    times_ms: list[int] = []
    added_bytes = 0
    for version in range(loaded + 1, last_version(path) + 1):
        lines = (path / "_delta_log" / f"{version:020}.json").read_text().splitlines()
        actions = [json.loads(line) for line in lines]
        times_ms += [
            action["commitInfo"]["timestamp"] for action in actions if "commitInfo" in action
        ]
        added_bytes += sum(action["add"]["size"] for action in actions if "add" in action)
    elapsed_s = (times_ms[-1] - times_ms[0]) / 1_000
    return {"commits": len(times_ms), "elapsed_s": elapsed_s, "added_bytes": added_bytes}


def main(arguments: list[str]) -> int:
    jars, text = arguments
    spark = session(jars)
    try:
        result = run(json.loads(text), spark)
    finally:
        spark.stop()
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
