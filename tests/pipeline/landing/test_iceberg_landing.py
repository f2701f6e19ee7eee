"""Landings into Iceberg tables: catalogs with faults, an object store, other readers, refusals."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sawlog.cli.commands import run
from sawlog.client.admin.admin import Admin
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.delta.table import AlreadyCommitted, CommittedVersion
from sawlog.pipeline.delta.table_path import StorageOptions, TablePath
from sawlog.pipeline.iceberg.catalogs import CATALOG_FILE, CatalogConfig
from sawlog.pipeline.iceberg.iceberg_table import IcebergTable, TableRef
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, PipelineConfig
from sawlog.pipeline.landing.configuration.pipeline_file import read_pipeline
from sawlog.pipeline.landing.driver.landed_tables import open_table
from sawlog.pipeline.landing.driver.preflight import check_landed
from sawlog.pipeline.landing.driver.replay import create_replay_table, replay_target, restore_to
from sawlog.pipeline.landing.driver.skipped_records import skipped_records
from sawlog.pipeline.landing.driver.table_setup import prepare
from sawlog.pipeline.landing.failures import LandingFailure
from support.pipeline.iceberg_rest_catalog import Fault, RestCatalogServer
from support.pipeline.iceberg_tables import iceberg_contents, iceberg_rows, land, new_iceberg
from support.pipeline.landing import (
    create_topic,
    land_here,
    pipeline_file,
    records_of,
    rows_of,
    send,
    values_in,
)
from support.pipeline.s3_servers import ACCESS_KEY, SECRET_KEY, S3Server
from support.pipeline.tables import expected
from support.server.broker_process import SawlogServer

DOCS = Path(__file__).parents[3] / "docs" / "pipeline.md"


@pytest.fixture
def catalog() -> Iterator[RestCatalogServer]:
    with RestCatalogServer().running() as running:
        yield running


def write_file(
    directory: Path, bootstrap: str, topic: str, catalog: str = "", lake: TablePath | None = None
) -> Path:
    tables = f"  t: {{topic: {topic}, format: json, commit: {{rows: 4}}, table_format: iceberg}}\n"
    return pipeline_file(directory, bootstrap, tables, catalog, lake)


def rest(server: RestCatalogServer) -> str:
    return f"catalog: {{type: rest, uri: '{server.uri}'}}\n"


def ref_of(config: LandedTable) -> TableRef:
    assert config.catalog is not None
    return TableRef(config.catalog, config.name, config.path)


def values(first: int, count: int) -> list[bytes]:
    """Every fourth is malformed."""
    return [
        b"{broken %d" % number if number % 4 == 3 else json.dumps({"id": number}).encode()
        for number in range(first, first + count)
    ]


def assert_landed_once(bootstrap: str, topic: str, pipeline: PipelineConfig) -> None:
    (config,) = pipeline.landed
    records = records_of(bootstrap, topic)
    rows = [((row["partition"], row["offset"]), row["id"]) for row in iceberg_rows(ref_of(config))]
    good = [(place, json.loads(value or b"")["id"]) for place, value in records if _is_good(value)]
    assert sorted(rows) == good
    bad = [entry for entry in records if not _is_good(entry[1])]
    assert values_in(config.dead_path) == bad


def _is_good(value: bytes | None) -> bool:
    return value is not None and b"broken" not in value


@pytest.mark.parametrize("fault", list(Fault))
def test_records_and_dead_letters_land_once_whatever_the_catalog_answers(
    broker: SawlogServer, topic: str, tmp_path: Path, catalog: RestCatalogServer, fault: Fault
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    pipeline = read_pipeline(str(write_file(tmp_path, broker.bootstrap, topic, rest(catalog))))
    send(broker.bootstrap, topic, values(0, 6))
    land_here(pipeline)
    send(broker.bootstrap, topic, values(6, 10))
    catalog.faults += [fault, fault]
    landed = land_here(pipeline)
    assert not catalog.faults
    assert sum(batch.rows + batch.bad_rows for batch in landed) == 10
    assert_landed_once(broker.bootstrap, topic, pipeline)


def test_a_lake_in_an_object_store_with_an_sql_catalog(
    broker: SawlogServer, topic: str, tmp_path: Path, moto: S3Server
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    sql = f"catalog: {{type: sql, uri: 'sqlite:///{tmp_path}/catalog.db'}}\n"
    file = write_file(tmp_path, broker.bootstrap, topic, sql, moto.new_path("lake"))
    pipeline = read_pipeline(str(file))
    for first in (0, 6):
        send(broker.bootstrap, topic, values(first, 6))
        land_here(pipeline)
    assert_landed_once(broker.bootstrap, topic, pipeline)
    (config,) = pipeline.landed
    properties = ref_of(config).open_catalog().load_table(("sawlog", "t")).properties
    assert SECRET_KEY not in json.dumps(properties)
    assert SECRET_KEY not in repr(pipeline)


def test_a_table_in_a_glue_catalog(moto: S3Server) -> None:
    options = {
        "glue.endpoint": f"http://127.0.0.1:{moto.port}",
        "glue.region": "us-east-1",
        "glue.access-key-id": ACCESS_KEY,
        "glue.secret-access-key": SECRET_KEY,
    }
    lake = moto.new_path("lake")
    ref = TableRef(CatalogConfig("glue", "lake", StorageOptions(options)), "t", lake.child("t"))
    assert not IcebergTable.exists(ref)
    new_iceberg(ref, ["date(timestamp)"])
    first, second = IcebergTable.open(ref), IcebergTable.open(ref)
    assert isinstance(land(first, 0, 0, 10, days=2), CommittedVersion)
    assert isinstance(land(second, 0, 0, 10), AlreadyCommitted)
    assert isinstance(land(second, 0, 10, 20), CommittedVersion)
    assert iceberg_contents(ref) == expected({0: 20})


def test_polars_reads_the_metadata_file(broker: SawlogServer, topic: str, tmp_path: Path) -> None:
    """A reader that knows the metadata file needs neither the catalog nor field ids in files."""
    create_topic(broker.bootstrap, topic, 2)
    pipeline = read_pipeline(str(write_file(tmp_path, broker.bootstrap, topic)))
    send(broker.bootstrap, topic, values(0, 6))
    land_here(pipeline)
    send(broker.bootstrap, topic, [{"id": 9, "more": {"x": [1.5]}}])
    land_here(pipeline)
    (config,) = pipeline.landed
    location = ref_of(config).open_catalog().load_table(("sawlog", "t")).metadata_location
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
        frame: Any = pl.scan_iceberg(location).select("id", "more").collect()
    assert sorted(frame["id"].to_list()) == [0, 1, 2, 4, 5, 9]
    assert {"x": [1.5]} in frame["more"].to_list()
    assert (Path(pipeline.lake) / CATALOG_FILE).exists()


def test_the_example_of_the_documentation_reads_the_table(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, [{"id": 1}, {"id": 2}])
    pipeline = read_pipeline(str(write_file(tmp_path, broker.bootstrap, topic)))
    land_here(pipeline)
    section = DOCS.read_text().split("## Iceberg tables\n")[1].split("\n## ")[0]
    (example,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    found: dict[str, Any] = {}
    exec(example.replace("/srv/lake", pipeline.lake).replace("sawlog.access", "sawlog.t"), found)
    assert sorted(found["access"].column("id").to_pylist()) == [1, 2]


def test_check_and_status_show_an_iceberg_table(
    broker: SawlogServer, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    file = write_file(tmp_path, broker.bootstrap, topic)
    (config,) = read_pipeline(str(file)).landed
    with Cluster(broker.bootstrap) as cluster:
        assert check_landed(cluster, config).text.startswith("will be created")
    send(broker.bootstrap, topic, values(0, 6))
    land_here(read_pipeline(str(file)))
    with Cluster(broker.bootstrap) as cluster:
        assert check_landed(cluster, config).text.startswith("continues after 6 records")
    assert run(["pipeline", "status", str(file), "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["state"], shown["rows"], shown["dead_letters"], shown["lag"]) == (
        "ready",
        5,
        1,
        0,
    )
    assert shown["version"] == open_table(config).version


def test_a_catalog_that_does_not_answer_makes_the_state_unknown(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    file = write_file(
        tmp_path, broker.bootstrap, topic, "catalog: {type: rest, uri: 'http://127.0.0.1:1'}\n"
    )
    (config,) = read_pipeline(str(file)).landed
    with Cluster(broker.bootstrap) as cluster:
        found = check_landed(cluster, config)
    assert found.text.startswith("the rest catalog: ConnectionError")


def test_the_format_of_a_table_cannot_be_changed(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, values(0, 2))
    tables = f"  d: {{topic: {topic}}}\n  i: {{topic: {topic}, table_format: iceberg}}\n"
    land_here(read_pipeline(str(pipeline_file(tmp_path, broker.bootstrap, tables))))
    tables = f"  i: {{topic: {topic}}}\n  d: {{topic: {topic}, table_format: iceberg}}\n"
    changed = read_pipeline(str(pipeline_file(tmp_path, broker.bootstrap, tables)))
    with Cluster(broker.bootstrap) as cluster:
        for config, other in zip(changed.landed, ("an Iceberg", "a Delta"), strict=True):
            with pytest.raises(LandingFailure, match=f"has {other} table, the file says"):
                prepare(cluster, config)
            assert "cannot be changed" in check_landed(cluster, config).text


def test_a_replay_is_refused_in_place_and_lands_in_a_new_table(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, values(0, 6))
    pipeline = read_pipeline(str(write_file(tmp_path, broker.bootstrap, topic)))
    land_here(pipeline)
    (config,) = pipeline.landed
    with Cluster(broker.bootstrap) as cluster:
        with pytest.raises(LandingFailure, match=r"replay it into a new one \(--into\)"):
            restore_to(cluster, config, {})
        again = replay_target(config, "again")
        starts = dict.fromkeys(open_table(config).offsets(config.group), 4)
        assert create_replay_table(cluster, again, starts)
        assert not create_replay_table(cluster, again, starts)
    assert open_table(again).offsets(again.group) == starts


def test_a_resume_skips_lost_records_and_lands_a_topic_that_was_created_again(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, values(0, 3))
    file = write_file(tmp_path, broker.bootstrap, topic)
    pipeline = read_pipeline(str(file))
    land_here(pipeline)
    send(broker.bootstrap, topic, values(4, 3))
    with Cluster(broker.bootstrap) as cluster:
        Admin(cluster).delete_records({partition_of(topic, 0): 5})
    accept = ["pipeline", "resume", "t", "--accept-loss", "-f", str(file)]
    assert run(accept) == 0
    land_here(pipeline)
    (config,) = pipeline.landed
    assert sorted(row["id"] for row in iceberg_rows(ref_of(config))) == [0, 1, 2, 6]
    with Cluster(broker.bootstrap) as cluster:
        assert not Admin(cluster).delete_topics([topic])
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, values(20, 4))
    assert run(accept) == 0
    land_here(pipeline)
    assert sorted(row["id"] for row in iceberg_rows(ref_of(config))) == [0, 1, 2, 6, 20, 21, 22]
    assert [value for _, value in values_in(config.dead_path)] == [b"{broken 23"]
    reasons = [entry.reason for entry in skipped_records(open_table(config).properties)]
    assert len(reasons) == 2


def test_commands_for_delta_tables_name_the_iceberg_table(
    broker: SawlogServer, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    send(broker.bootstrap, topic, values(0, 4))
    file = write_file(tmp_path, broker.bootstrap, topic)
    land_here(read_pipeline(str(file)))
    assert run(["pipeline", "dead", "list", "t", "-f", str(file)]) == 0
    assert "not JSON" in capsys.readouterr().out
    assert run(["pipeline", "dead", "retry", "t", "-f", str(file)]) == 1
    assert "'t' is an Iceberg table, and a retry of dead letters" in capsys.readouterr().err
    assert run(["pipeline", "compact", str(file)]) == 0
    told = capsys.readouterr()
    assert "t: an Iceberg table, which an engine for Iceberg compacts" in told.err
    assert "t, dead letters: nothing to merge" in told.out


def test_fractions_in_a_bigint_column_are_dead_letters(
    broker: SawlogServer, topic: str, tmp_path: Path
) -> None:
    """A Delta table would widen the column to double."""
    create_topic(broker.bootstrap, topic, 1)
    pipeline = read_pipeline(str(write_file(tmp_path, broker.bootstrap, topic)))
    send(broker.bootstrap, topic, [{"id": 1}])
    land_here(pipeline)
    send(broker.bootstrap, topic, [{"id": 2.5}, {"id": 3}])
    land_here(pipeline)
    (config,) = pipeline.landed
    assert sorted(row["id"] for row in iceberg_rows(ref_of(config))) == [1, 3]
    (dead,) = rows_of(config.dead_path)
    assert "hints" in dead["error"]
