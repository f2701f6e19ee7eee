"""The benchmark of Spark jobs: topics, plan and tables."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

from bench import spark_jobs
from bench.__main__ import arguments, make_plan
from bench.brokers import Name
from bench.pipeline import JOBS, VALUES
from bench.results import Results
from bench.spark_jobs import memory_mb, pipeline_of, python_below
from bench.spark_topics import (
    BATCH_RECORDS,
    BROKEN_EVERY,
    SCHEMA,
    VALUE_BYTES,
    access,
    batches,
    broken_of,
    opaque,
)
from bench.tables import sections
from bench.workloads import BY_NAME, Kind, Metric
from sawlog.pipeline.formats.schema_inference import from_ddl
from sawlog.protocol.records import iterate
from support.pipeline.formats import parse


def test_json_values_have_100_bytes_and_one_in_a_hundred_is_invalid() -> None:
    source = random.Random(1)
    values = [access(source, number) for number in range(3 * BROKEN_EVERY)]
    outcome = parse("json", *values, known=from_ddl(SCHEMA))
    assert list(outcome.bad) == [0, BROKEN_EVERY, 2 * BROKEN_EVERY]
    assert len(outcome.bad) == broken_of(len(values))
    whole = [value for value in values if len(value) == VALUE_BYTES]
    assert len(whole) == len(outcome.rows)
    assert all(None not in json.loads(value).values() for value in whole)
    assert len(opaque(source, 0)) == VALUE_BYTES


def test_a_batch_starts_with_an_invalid_value() -> None:
    (batch,) = batches("json", 1, 5_000)
    records = list(iterate(batch, max_decompressed_bytes=1 << 20))
    assert [record.timestamp for record in records] == [*range(5_000, 5_000 + BATCH_RECORDS)]
    values = [record.value or b"" for record in records]
    assert len(values) == BATCH_RECORDS
    short = [number for number, value in enumerate(values) if len(value) < VALUE_BYTES]
    assert short == list(range(0, BATCH_RECORDS, BROKEN_EVERY))


def test_python_descendants_are_found_with_their_memory() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as child:
        try:
            assert child.pid in python_below(os.getpid())
            assert all(peak >= size for peak, size in map(memory_mb, python_below(os.getpid())))
        finally:
            child.communicate(b"\n", timeout=60)
    assert child.pid not in python_below(os.getpid())
    assert memory_mb(child.pid) == (0.0, 0.0)


def test_every_job_has_a_valid_pipeline_file(tmp_path: Path) -> None:
    works = [work.name for work in BY_NAME.values() if work.kind is Kind.PIPELINE]
    assert works == list(JOBS) == list(VALUES)
    for work, kind in (("land-raw", "raw"), ("land-json", "json")):
        job = [JOBS[work], "127.0.0.1:9092", "warm", "1", "topic", "1", str(tmp_path)]
        pipeline = pipeline_of(spark_jobs.arguments(job), VALUES[work], tmp_path)
        (table,) = pipeline.landed
        assert table.format == kind
        assert table.path.startswith(str(tmp_path))


def test_jobs_run_on_both_brokers_in_at_most_three_rounds() -> None:
    plan = make_plan(arguments(["--only", "land-raw,land-json", "--no-warmup", "--rounds", "5"]))
    assert [work.name for work in plan.pipelines] == ["land-raw", "land-json"]
    assert plan.steps() == 3 * 2 * 2


def test_rates_are_compared_and_memory_is_of_sawlog_only() -> None:
    results = Results()
    results.add("land-raw", Name.KAFKA, Metric.RATE, 200_000)
    results.add("land-raw", Name.SAWLOG, Metric.RATE, 700_000)
    results.add("land-raw", Name.SAWLOG, Metric.WORKER_PEAK, 310.0)
    results.add("land-raw", Name.SAWLOG, Metric.WORKERS_TOGETHER, 650.0)
    rates, memory = sections(results)
    assert rates.rows[0][1:] == ("200 k", "700 k", "3.50", ">= 3", "yes")
    assert memory.rows[0][1:] == ("310", "650")
