"""A driver killed around a schema change: queries lose, duplicate and misread nothing."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.landing.configuration.pipeline_file import read_pipeline
from support.pipeline.drivers import driving, run_to_the_end, uncommitted, version_of
from support.pipeline.landing import create_topic, pipeline_file, records_of, rows_of, send
from support.process import wait_until
from support.programs import require_java
from support.server.broker_process import SawlogServer, running_sawlog

pytestmark = [pytest.mark.long, pytest.mark.spark]

TABLES = """\
  ev: {topic: ev, format: json, commit: {rows: 700, every: 200ms}}
  copy: {sql: SELECT * FROM ev, every: 100ms}
  kinds: {sql: 'SELECT kind, count(*) AS n FROM ev GROUP BY kind', key: [kind], every: 100ms}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SawlogServer]:
    require_java()
    with running_sawlog(tmp_path / "broker") as started:
        create_topic(started.bootstrap, "ev", 2)
        yield started


def rows(field: str, count: int = 2_000) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {"kind": number % 3, field: number}


def by_place(path: str) -> list[dict[str, Any]]:
    return sorted(rows_of(path), key=lambda row: (row["partition"], row["offset"]))


def test_a_query_copies_every_row_once_wherever_its_driver_is_killed(
    server: SawlogServer, tmp_path: Path
) -> None:
    file = pipeline_file(tmp_path, server.bootstrap, TABLES)
    pipeline = read_pipeline(str(file))
    (ev,), (copy, kinds) = pipeline.landed, pipeline.queries
    with driving(file) as driver:  # killed while the query restarts
        wait_until(lambda: Table.exists(copy.path), driver)
        send(server.bootstrap, "ev", rows("first"))
        driver.wait_for_line(r"copy: version \d+ of .* started without: .*; restarting with them")
        driver.kill()
    send(server.bootstrap, "ev", rows("second"))  # lands while no query runs
    with driving(file) as driver:  # killed between writing and committing
        since = version_of(copy.path)
        wait_until(lambda: version_of(copy.path) > since + 1, driver)
        since, left = version_of(copy.path), uncommitted(copy.path)
        send(server.bootstrap, "ev", rows("third"))
        wait_until(
            lambda: bool(uncommitted(copy.path) - left) or version_of(copy.path) > since + 1, driver
        )
        driver.kill()
    run_to_the_end(file)
    assert len(records_of(server.bootstrap, "ev")) == 6_000
    landed = by_place(ev.path)
    assert by_place(copy.path) == landed
    for field in ("first", "second", "third"):
        assert sum(row[field] is not None for row in landed) == 2_000
    counted = {row["kind"]: row["n"] for row in rows_of(kinds.path)}
    assert counted == Counter(row["kind"] for row in landed)
