"""The command line in this process, and what its tables and answers say of groups."""

import json
from pathlib import Path
from typing import Any

import pytest

from sawlog.cli.commands import run


class Sawlog:
    """The command line, pointed at the broker; in this process, for speed."""

    def __init__(self, capture: pytest.CaptureFixture[str], directory: Path) -> None:
        self._capture = capture
        self._input = directory / "input"
        self.told = ""  # on stderr, by the last command

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Runs a command that is to end with this code: its stdout."""
        self._capture.readouterr()
        ended = run(arguments)
        out, self.told = self._capture.readouterr()
        assert ended == code, self.told
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
