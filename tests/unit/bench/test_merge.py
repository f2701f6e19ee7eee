"""Rows of a new run in the document of an earlier one."""

from pathlib import Path

import pytest

from bench import __main__, document
from bench.brokers import Name
from bench.merge import merged, read_tables
from bench.results import Results
from bench.tables import Section
from bench.workloads import Metric

COLUMNS = ("work", "Apache Kafka", "Sawlog", "ratio")


def measured(name: str, kafka: float, sawlog: float, day: str, load: float) -> Results:
    results = Results({"cores": "2"}, day)
    for broker, rate in ((Name.KAFKA, kafka), (Name.SAWLOG, sawlog)):
        results.add(name, broker, Metric.RATE, rate)
        results.add(name, broker, Metric.LOAD, load)
    return results


def rows(text: str, title: str) -> list[tuple[str, ...]]:
    (found,) = [section for section in read_tables(text) if section.title == title]
    return list(found.rows)


def test_a_rendered_document_is_read_back() -> None:
    first = measured("produce-6", 800.0, 720.0, "2026-11-16", 1.0)
    text = document.render(first)
    assert document.render(first, text) == text


def test_rows_that_were_not_measured_again_stay_with_their_day_and_load() -> None:
    older = document.render(measured("produce-6", 800.0, 720.0, "2026-11-16", 1.0))
    newer = measured("single", 200.0, 300.0, "2026-11-18", 7.5)
    text = document.render(newer, older)
    throughput = rows(text, "Throughput, records/s")
    assert [row[1:4] for row in throughput] == [("800", "720", "0.90"), ("200", "300", "1.50")]
    runs = rows(text, "Runs")
    assert [row[1:] for row in runs] == [
        ("2026-11-16", "1", "1.00", "–"),
        ("2026-11-18", "1", "7.50", "–"),
    ]
    assert "6 partitions, 64 KB batches, acks=1, throughput: 0.90, where >= 1 was asked" in text


def test_rows_that_were_measured_again_are_replaced_where_they_are() -> None:
    older = document.render(measured("produce-6", 800.0, 720.0, "2026-11-16", 1.0))
    older = document.render(measured("single", 200.0, 300.0, "2026-11-17", 1.0), older)
    text = document.render(measured("produce-6", 800.0, 880.0, "2026-11-18", 7.5), older)
    throughput = rows(text, "Throughput, records/s")
    assert [row[1:4] for row in throughput] == [("800", "880", "1.10"), ("200", "300", "1.50")]
    assert [row[1] for row in rows(text, "Runs")] == ["2026-11-18", "2026-11-17"]
    assert "throughput: 0.90" not in text


def test_all_targets_of_a_work_are_replaced_together() -> None:
    older = [Section("Targets", ("work", "target"), (("a", "1"), ("a", "2"), ("b", "3")))]
    newer = [Section("Targets", ("work", "target"), (("a", "4"),))]
    assert merged(older, newer)[0].rows == (("a", "4"), ("b", "3"))


def test_rows_without_targets_fit_into_a_table_with_them() -> None:
    older = [Section("CPU", (*COLUMNS, "target"), (("a", "1", "2", "2.00", "<= 3"),))]
    newer = [Section("CPU", COLUMNS, (("b", "1", "1", "1.00"),))]
    assert merged(older, newer)[0].rows[-1] == ("b", "1", "1", "1.00", "")
    assert merged(newer, older)[0].columns == (*COLUMNS, "target")


def test_cells_with_pipes_and_empty_cells_are_read_back() -> None:
    section = Section("t", ("", "b", "c"), (("x|y", "", ""),))
    text = f"### t\n\n{document.markdown(section.columns, section.rows)}"
    assert read_tables(text) == [section]


@pytest.mark.parametrize("given", [("--quick",), ("--brokers", "sawlog")])
def test_rows_without_all_records_or_without_kafka_are_not_merged(given: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit, match="--merge needs"):
        __main__.make_plan(__main__.arguments(["--merge", *given]))


def test_merging_keeps_the_other_rows_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(document.render(measured("produce-6", 800.0, 720.0, "2026-11-16", 1.0)))
    monkeypatch.setattr(__main__, "PAGE", page)
    __main__.write_rows(measured("single", 200.0, 300.0, "2026-11-18", 7.5))
    assert len(rows(page.read_text(), "Throughput, records/s")) == 2
