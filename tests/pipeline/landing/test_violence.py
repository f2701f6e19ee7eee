"""Whatever dies, each record lands once: good ones in the table, bad ones as dead letters."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, PipelineConfig
from sawlog.pipeline.landing.configuration.pipeline_file import read_pipeline
from support.pipeline.drivers import (
    Driver,
    driving,
    kill_all,
    run_to_the_end,
    uncommitted,
    version_of,
)
from support.pipeline.landing import create_topic, pipeline_file, records_of, send, values_in
from support.pipeline.landing_load import (
    TABLES,
    TOPIC,
    assert_tables_are_the_topic,
    load,
    values,
)
from support.process import wait_until
from support.programs import require_java
from support.server.broker_process import SawlogServer, running_sawlog

pytestmark = [pytest.mark.long, pytest.mark.spark]

BOTH_FORMATS = pytest.mark.parametrize("file", ["delta", "iceberg"], indirect=True)
CONFLICT = "restarting from the offsets in the table"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SawlogServer]:
    require_java()
    with running_sawlog(tmp_path / "broker") as started:
        create_topic(started.bootstrap, TOPIC, 3)
        yield started


@pytest.fixture
def file(tmp_path: Path, server: SawlogServer, request: pytest.FixtureRequest) -> Path:
    table_format = getattr(request, "param", "delta")
    return pipeline_file(tmp_path, server.bootstrap, TABLES, f"table_format: {table_format}\n")


@pytest.fixture
def pipeline(file: Path) -> PipelineConfig:
    return read_pipeline(str(file))


def wait_for_files_to_commit(driver: Driver, table: LandedTable) -> None:
    """Wait until a task has written uncommitted files, after a commit of this driver."""
    since = version_of(table.path) + 1
    wait_until(lambda: version_of(table.path) > since and bool(uncommitted(table.path)), driver)


def wait_for_version(pipeline: PipelineConfig, version: int, *drivers: Driver) -> None:
    wait_until(lambda: min(version_of(t.path) for t in pipeline.landed) >= version, *drivers)


@BOTH_FORMATS
@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_a_batch_of_a_driver_killed_before_its_commit_lands_in_the_next_run(
    server: SawlogServer, file: Path, pipeline: PipelineConfig, number: int
) -> None:
    send(server.bootstrap, TOPIC, values(150_000))
    with driving(file) as driver:
        wait_for_files_to_commit(driver, pipeline.landed[number])
        driver.kill()
    run_to_the_end(file)
    assert_tables_are_the_topic(server, pipeline)


def test_workers_killed_in_the_middle_of_their_tasks_are_replaced(
    server: SawlogServer, file: Path, pipeline: PipelineConfig
) -> None:
    send(server.bootstrap, TOPIC, values(90_000))
    with driving(file, "--once") as driver:
        for version in range(1, 5):
            wait_for_version(pipeline, version, driver)
            kill_all(driver.below("pyspark.worker")[1:])
        wait_until(lambda: not driver.is_running, driver)
        assert driver.wait() == 0, driver.output
    assert_tables_are_the_topic(server, pipeline)


def test_a_landing_waits_for_a_broker_that_restarts(
    server: SawlogServer, file: Path, pipeline: PipelineConfig
) -> None:
    send(server.bootstrap, TOPIC, values(80_000))
    with driving(file) as driver:
        for version in (2, 5):
            wait_for_version(pipeline, version, driver)
            server.kill()
            driver.wait_for_line("no broker answers; waiting for one")
            server.start()
        driver.wait_for_line("the brokers answer again")
        ends = len(records_of(server.bootstrap, TOPIC))
        wait_until(lambda: len(values_in(pipeline.landed[0].path)) == ends, driver)
        assert driver.terminate() == 0, driver.output
    run_to_the_end(file)
    assert_tables_are_the_topic(server, pipeline)


@pytest.mark.parametrize(
    "file", ["delta", pytest.param("iceberg", marks=pytest.mark.soak)], indirect=True
)
def test_two_drivers_lose_and_duplicate_nothing(
    server: SawlogServer, file: Path, pipeline: PipelineConfig
) -> None:
    """With a concurrent producer."""
    raw = pipeline.landed[0]
    with driving(file) as one, driving(file) as other:
        with load(server.bootstrap):
            wait_until(lambda: version_of(raw.path) >= 8, one, other)
            # Until both drivers have landed batches, and one came second at least once.
            wait_until(lambda: CONFLICT in one.output + other.output, one, other)
        assert one.terminate() == 0, one.output
        assert other.terminate() == 0, other.output
    run_to_the_end(file)
    assert_tables_are_the_topic(server, pipeline)
