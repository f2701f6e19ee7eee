"""`sawlog pipeline` against a running broker, where it needs no Spark."""

from pathlib import Path

import pytest

from sawlog.cli.commands import run
from support.broker import running_sawlog
from support.landing import create_topic
from support.tables import new_table


def test_a_replay_of_a_table_without_its_dead_letters_is_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_sawlog(tmp_path / "broker") as server:
        create_topic(server.bootstrap, "a")
        file = tmp_path / "p.yaml"
        file.write_text(f"brokers: {server.bootstrap}\nlake: lake\ntables:\n  t: {{topic: a}}\n")
        new_table(tmp_path / "lake" / "t")
        assert run(["pipeline", "replay", "t", "--from", "0", "-f", str(file)]) == 1
    assert "there is no table in" in capsys.readouterr().err
