"""Run the command line in this process; read tables and groups from its output."""

import json
from pathlib import Path
from typing import Any

import pytest

from sawlog.cli.commands import run


class Sawlog:
    """The command line with the broker in its environment, run in this process for speed."""

    def __init__(self, capture: pytest.CaptureFixture[str], directory: Path) -> None:
        self._capture = capture
        self._input = directory / "input"
        self.stderr = ""  # of the last command

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Run a command, expect this exit code, return its stdout."""
        self._capture.readouterr()
        exit_code = run(arguments)
        out, self.stderr = self._capture.readouterr()
        assert exit_code == code, self.stderr
        return out

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))

    def produce(self, topic: str, partition: int, *timestamps: int) -> None:
        lines = [
            {"value": "", "partition": partition, "timestamp": timestamp}
            for timestamp in timestamps
        ]
        self._input.write_text("\n".join(map(json.dumps, lines)))
        self("produce", topic, "--json", "--file", str(self._input))


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


def offsets(sawlog: Sawlog, group: str) -> dict[int, int]:
    (described,) = sawlog.json("groups", "describe", group)
    return {each["partition"]: each["committed"] for each in described["offsets"]}


def members(sawlog: Sawlog, group: str) -> list[str]:
    (described,) = sawlog.json("groups", "describe", group)
    return [each["member"] for each in described["members"]]
