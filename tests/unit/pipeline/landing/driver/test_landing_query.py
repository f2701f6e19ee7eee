"""A landing that fails to start leaves nothing behind, since it is retried many times."""

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import NO_TOPIC_ID
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, Pipeline
from sawlog.pipeline.landing.driver import landing_query
from sawlog.pipeline.landing.driver.landing_query import LandingQuery
from sawlog.pipeline.landing.driver.table_setup import PreparedTable
from support.pipeline.landing import RecordedEvents


class NoSpark:
    """A session that is gone when a stream is read."""

    @property
    def readStream(self) -> Any:  # noqa: N802
        raise RuntimeError("Spark is gone")


def test_a_failed_start_closes_and_deletes_its_resources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ones: list[Cluster] = []

    class Counted(Cluster):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            open_ones.append(self)

        def close(self) -> None:
            super().close()
            open_ones.remove(self)

    config = LandedTable("t", str(tmp_path / "lake" / "t"), "t", "g")
    table: Any = SimpleNamespace()
    ready = PreparedTable(table, table, {partition_of("t", 0): 0}, NO_TOPIC_ID, 0)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setattr(landing_query, "Cluster", Counted)
    monkeypatch.setattr(landing_query, "prepare", lambda *_: ready)
    spark: Any = NoSpark()
    pipeline = Pipeline("f.yaml", "127.0.0.1:1", str(tmp_path / "lake"), (config,))
    with pytest.raises(RuntimeError, match="Spark is gone"):
        LandingQuery(spark, pipeline, config, RecordedEvents()).start(once=True)
    assert open_ones == []
    assert list(scratch.iterdir()) == []
