"""The tables, the document and the chart of the benchmark."""

import xml.etree.ElementTree as ET

import pytest

from bench import chart, document, tables
from bench.brokers import Name
from bench.results import Results
from bench.runs import LOADS
from bench.workloads import WORKLOADS, Kind, Metric

SVG = "{http://www.w3.org/2000/svg}"


def measured() -> Results:
    results = Results({"cores": "2", "Python": "3.11.7"}, "2026-11-17")
    for broker, rate, cpu_s in ((Name.KAFKA, 800_000.0, 2.0), (Name.SAWLOG, 720_000.0, 1.0)):
        results.add("produce-6", broker, Metric.RATE, rate)
        results.add("produce-6", broker, Metric.BROKER_CPU, cpu_s)
        results.add("start", broker, Metric.FIRST_ANSWER, cpu_s)
        results.add("latency-all", broker, Metric.P99, cpu_s)
    results.add("recovery", Name.SAWLOG, Metric.RECOVER_10GB, 1.25)
    results.add("recovery", Name.SAWLOG, Metric.RECOVERY_READ, 64.0)
    return results


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (823_456.0, "823 k"), (4_395.2, "4,395"), (38.04, "38.0"), (2.314, "2.31")],
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert tables.number(value) == text


def test_a_table_row_shows_both_brokers_the_ratio_and_the_verdict() -> None:
    throughput = tables.sections(measured())[0]
    assert throughput.rows[0][1:] == ("800 k", "720 k", "0.90", ">= 1", "no")


def test_a_table_without_targets_has_no_columns_for_them() -> None:
    client = next(s for s in tables.sections(measured()) if s.title.startswith("CPU of the client"))
    assert client.columns == ("work", "Apache Kafka", "Sawlog", "ratio")


def test_several_rounds_show_their_spread() -> None:
    results = measured()
    results.add("produce-6", Name.KAFKA, Metric.RATE, 1_000_000.0)
    assert tables.sections(results)[0].rows[0][1] == "900 k ±11%"


def test_every_row_has_as_many_cells_as_the_header() -> None:
    for section in tables.sections(measured()):
        assert {len(row) for row in section.rows} == {len(section.columns)}


def test_the_document_lists_missed_targets() -> None:
    text = document.render(measured())
    assert "- produce 100 B, 6 partitions, 64 KB batches, acks=1, throughput: 0.90, where" in text
    assert "- produce 100 B, 6 partitions, 64 KB batches, acks=1, broker CPU" not in text


def test_the_document_has_the_machine_and_the_restarts() -> None:
    text = document.render(measured())
    assert "- Python: 3.11.7" in text
    assert "| – | 1.25 s (64.0 MB read) | <= 5 s | yes |" in text


def test_a_restart_without_a_target_is_compared_with_kafka() -> None:
    results = measured()
    results.add("offsets", Name.KAFKA, Metric.LOAD_OFFSETS, 4.0)
    results.add("offsets", Name.SAWLOG, Metric.LOAD_OFFSETS, 0.5)
    restarts = next(s for s in tables.sections(results) if s.title == "Restart")
    assert restarts.rows[-1][1:] == ("4.00 s", "0.50 s", "", "")


def test_cpu_of_other_processes_has_a_table() -> None:
    results = measured()
    results.add("produce-6", Name.SAWLOG, Metric.OTHERS_CPU, 0.7)
    others = next(s for s in tables.sections(results) if s.title.startswith("CPU of neither"))
    assert others.rows[0][1:] == ("–", "0.70", "–")


def test_every_load_has_a_label_in_the_chart() -> None:
    drawn = {work.name for work in WORKLOADS if work.kind in LOADS and work.kind != Kind.PACE_JAVA}
    assert drawn <= chart.LABELS.keys()


def test_rebalances_and_commits_have_targets() -> None:
    results = measured()
    for broker, ms, rate in ((Name.KAFKA, 80.0, 9_000.0), (Name.SAWLOG, 60.0, 8_100.0)):
        results.add("rebalance-classic-200", broker, Metric.REBALANCE, ms)
        results.add("commits", broker, Metric.RATE, rate)
    by_title = {section.title: section for section in tables.sections(results)}
    assert by_title["Rebalance of a group, ms"].rows == (
        ("200 members, classic protocol", "80.0", "60.0", "0.75", "<= 1", "yes"),
    )
    assert by_title["Offset commits/s"].rows[0][1:] == ("9,000", "8,100", "0.90", ">= 1", "no")
    text = document.render(results)
    assert "| 200 members, classic protocol | time to rebalance | 0.75 | <= 1 | yes |" in text


def test_the_chart_is_xml_with_a_bar_for_every_ratio() -> None:
    groups = chart.groups(measured())
    picture = ET.fromstring(chart.draw(groups))
    bars = [one for one in picture.iter(f"{SVG}rect") if one.get("class") != "paper"]
    assert [one.get("class") for one in bars] == ["missed", "reached", "missed", "neutral"]


def test_a_bar_stays_inside_the_chart() -> None:
    drawn = chart.draw([chart.Group("far", (chart.Bar("off", 50.0, None, None),))])
    widths = [float(one.get("width", "0")) for one in ET.fromstring(drawn).iter(f"{SVG}rect")]
    assert max(widths) <= chart.WIDTH


def test_labels_are_escaped() -> None:
    drawn = chart.draw([chart.Group("a < b & c", ())])
    assert "a < b & c" in [one.text for one in ET.fromstring(drawn).iter(f"{SVG}text")]


def test_the_rows_of_a_cluster_count_its_whole_memory_and_cpu() -> None:
    results = Results()
    for broker, cpu_s, memory_mb, cores in (
        (Name.KAFKA, 6.0, 1_300.0, 0.2),
        (Name.SAWLOG, 1.5, 260.0, 0.05),
    ):
        results.add("replicated-all", broker, Metric.BROKER_CPU, cpu_s)
        results.add("replicated-all", broker, Metric.RESIDENT_AFTER, memory_mb)
        results.add("replicated-all-durable", broker, Metric.BROKER_CPU, cpu_s)
        results.add("replicated-partitions", broker, Metric.IDLE_CORES, cores)
    by_title = {section.title: section for section in tables.sections(results)}
    cluster = "Three brokers, three replicas"
    whole = "of the whole cluster (ZooKeeper included)"
    cpu = by_title[f"{cluster}: CPU {whole}, s"].rows
    assert [row[3:] for row in cpu] == [("0.25", "<= 0.7", "yes"), ("0.25", "", "")]
    memory = by_title[f"{cluster}: resident memory {whole}, MB"].rows
    assert memory[0][1:] == ("1,300", "260", "0.20", "<= 0.25", "yes")
    assert by_title[f"{cluster}: idle, cores used"].rows[0][3:] == ("0.25", "<= 0.7", "yes")
    assert "CPU when idle | 0.25 | <= 0.7 | yes |" in document.render(results)


def test_an_outage_has_a_target_against_kafka_and_one_of_its_own() -> None:
    results = Results()
    results.add("failover-kill", Name.KAFKA, Metric.OUTAGE, 9.0)
    results.add("failover-kill", Name.SAWLOG, Metric.OUTAGE, 8.1)
    (table,) = tables.sections(results)
    assert table.rows[0][1:] == ("9.00", "8.10", "0.90", "<= 1", "yes")
    lines = document.render(results).splitlines()
    verdicts = [line.split(" | ", 1)[1] for line in lines if line.startswith("| 12 partitions")]
    what = "longest time without an acknowledgement"
    assert verdicts[:2] == [f"{what} | 0.90 | <= 1 | yes |", f"{what} | 8.10 s | <= 8 s | no |"]
