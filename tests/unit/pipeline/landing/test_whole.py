"""What is done for all tables of a file before any of them begins."""

import os
from pathlib import Path

from sawlog.pipeline.landing.reading import parse_pipeline
from sawlog.pipeline.landing.whole import sweep_tables
from support.landing import Heard
from support.tables import new_table


def test_a_damaged_table_does_not_keep_the_others_from_being_swept(tmp_path: Path) -> None:
    text = "brokers: 127.0.0.1:1\nlake: lake\ntables:\n  bad: {topic: a}\n  good: {topic: b}\n"
    pipeline = parse_pipeline(str(tmp_path / "p.yaml"), text)
    for table in pipeline.landed:
        new_table(Path(table.path))
    bad, good = (Path(table.path) for table in pipeline.landed)
    (bad / "_delta_log" / f"{1:020}.json").write_text("not JSON")
    left = good / "sawlog-left.parquet"
    left.touch()
    os.utime(left, (0, 0))
    heard = Heard()
    sweep_tables(pipeline, heard)
    assert heard.lines == ["good: swept 1 files that no version of it has"]
