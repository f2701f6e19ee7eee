"""`sawlog pipeline replay` against a running broker, without Spark."""

from pathlib import Path

import pytest

from sawlog.cli import pipeline_tables
from sawlog.cli.commands import run
from support.pipeline.landing import create_topic, send
from support.pipeline.tables import new_table
from support.server.broker_process import running_sawlog


def test_replay_of_a_table_without_a_landing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_sawlog(tmp_path / "broker") as server:
        create_topic(server.bootstrap, "a")
        file = tmp_path / "p.yaml"
        file.write_text(f"brokers: {server.bootstrap}\nlake: lake\ntables:\n  t: {{topic: a}}\n")
        new_table(tmp_path / "lake" / "t")
        assert run(["pipeline", "replay", "t", "--from", "0", "-f", str(file)]) == 1
    assert "was not created by a landing" in capsys.readouterr().err


def test_replay_into_an_existing_table_continues_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_tables, "land_tables", lambda *_, **__: 0)
    with running_sawlog(tmp_path / "broker") as server:
        create_topic(server.bootstrap, "a", 1)
        send(server.bootstrap, "a", [b"x"] * 9)
        file = tmp_path / "p.yaml"
        file.write_text(f"brokers: {server.bootstrap}\nlake: lake\ntables:\n  t: {{topic: a}}\n")
        command = ["pipeline", "replay", "t", "--into", "new", "-f", str(file), "--from"]
        assert run([*command, "7"]) == 0
        assert "already exists" not in capsys.readouterr().err
        assert run([*command, "3"]) == 0
        assert "new: already exists and continues from its offsets" in capsys.readouterr().err
