"""The comparison of Python clients, and its table."""

import json
import sys

from bench import document, readers, tables
from bench.__main__ import arguments, make_plan
from bench.brokers import Name
from bench.decoding import BATCH_RECORDS, batches
from bench.process import run_to_end
from bench.results import Results
from bench.runs import ROOT
from bench.workloads import BY_NAME, Metric
from sawlog.protocol.records import iterate

WORK = BY_NAME["clients"]
NOW_MS = 1_700_000_000_000


def measured(rate: float) -> Results:
    results = Results()
    for factor in (1.0, 3.0):
        results.add(WORK.name, readers.COMPARED, Metric.RATE, 500_000 * factor)
        results.add(WORK.name, "poll", Metric.RATE, 2_000_000 * factor)
        results.add(WORK.name, Name.SAWLOG, Metric.RATE, rate)
        results.add(WORK.name, Name.SAWLOG, Metric.COMPILE, 2.5)
    return results


def test_all_clients_read_the_same_records() -> None:
    found = [bytes(batch) for batch in batches(3 * BATCH_RECORDS, NOW_MS)]
    assert found == [bytes(batch) for batch in batches(3 * BATCH_RECORDS, NOW_MS)]
    records = [r for batch in found for r in iterate(batch, max_decompressed_bytes=1)]
    assert len(records) == 3 * BATCH_RECORDS
    assert {20 <= len(record.value or b"") <= 180 for record in records} == {True}
    assert sum(bool(record.headers) for record in records) == len(records) // 10


def test_decoding_reports_its_speed_and_compile_time() -> None:
    command = [sys.executable, "-m", "bench.decoding", "decode", "1000"]
    result = json.loads(run_to_end(command, 300, cwd=ROOT).output)
    assert result["records"] >= 1_000
    assert min(result["elapsed_s"], result["compile_s"]) > 0


def test_every_client_is_compared_with_the_same_one() -> None:
    (section,) = tables.sections(measured(3_000_000))
    rows = {row[0]: row[1:] for row in section.rows}
    assert rows["Sawlog's client, `poll_arrow()`"] == ("4,000 k ±50%", "4.00", "–", "–", "", "")
    assert rows["the decoding alone, from memory"][-3:] == ("2.50", ">= 2,500 k", "yes")
    assert len(section.rows) == len(readers.READERS)


def test_the_document_lists_a_missed_decoding_target() -> None:
    text = document.render(measured(2_000_000))
    assert f"- {WORK.title}, throughput: 2,000 k/s, where >= 2,500 k/s was asked." in text


def test_every_client_is_a_step_of_each_round() -> None:
    plan = make_plan(arguments(["--only", "clients", "--brokers", "sawlog", "--rounds", "3"]))
    assert plan.steps() == 3 * len(readers.READERS)
    assert make_plan(arguments(["--only", "clients", "--brokers", "kafka"])).steps() == 0
