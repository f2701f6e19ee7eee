"""Kafka Connect and Kafka Streams while the broker is killed again and again: nothing is lost."""

import time
from pathlib import Path

import pytest

from support.client_libraries.client_library import Row
from support.kafka.connect_worker import ConnectWorker
from support.kafka.shared_brokers import QUICK_GROUPS, START
from support.kafka.streams_app import PARTITIONS, TotalsApp, last_values, totals_of
from support.process import wait_until
from support.programs import require_java

pytestmark = pytest.mark.soak

KILLS = 20
LINES = 500  # between two kills
KEYS = 50


def add_lines(file: Path, round_: int) -> None:
    with file.open("a") as out:
        out.writelines(f"line {round_} {number}\n" for number in range(LINES))


def test_every_line_of_a_file_arrives_in_its_order(target: str, tmp_path: Path) -> None:
    """Lines may be repeated: both connectors deliver at least once."""
    require_java()
    written, copied = tmp_path / "written", tmp_path / "copied"
    source = {"connector.class": "FileStreamSource", "file": str(written), "topic": "lines"}
    sink = {"connector.class": "FileStreamSink", "file": str(copied), "topics": "lines"}
    add_lines(written, 0)
    with START[target](tmp_path / "broker", QUICK_GROUPS) as server:
        worker = ConnectWorker(tmp_path / "worker", server.bootstrap, "connect")
        try:
            with worker.running("source", source), worker.running("sink", sink):
                for round_ in range(1, KILLS + 1):
                    add_lines(written, round_)
                    server.kill()
                    server.start()
                expected = written.read_text().splitlines()
                worker.wait_until(lambda: set(copied.read_text().splitlines()) >= set(expected))
                assert list(dict.fromkeys(copied.read_text().splitlines())) == expected
                worker.wait_until(lambda: worker.runs("source") and worker.runs("sink"))
            worker.stop()
        finally:
            worker.process.kill()


def test_every_input_is_in_the_totals(target: str, tmp_path: Path) -> None:
    """An input may be counted twice: the application processes at least once."""
    require_java()
    inputs: list[Row] = []
    with START[target](tmp_path / "broker", QUICK_GROUPS) as server:
        app = TotalsApp(server.bootstrap, "totals", tmp_path)
        with app.running():
            for _ in range(KILLS):
                now_ms = time.time_ns() // 1_000_000
                added = [
                    Row(
                        b"%d" % (number + 1),
                        b"key-%d" % (number % KEYS),
                        timestamp_ms=now_ms,
                        partition=number % KEYS % PARTITIONS,
                    )
                    for number in range(1_000)
                ]
                app.send(added)
                inputs += added
                server.kill()
                server.start()
            expected = totals_of(inputs)

            def has_all() -> bool:
                found = last_values(app.outputs(app.output_count()))
                return all(found.get(key, 0) >= total for key, total in expected.items())

            wait_until(has_all, server.process)
