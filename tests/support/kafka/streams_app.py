"""The Kafka Streams application `RunTotals.java`, its topics, and a model of its result."""

import contextlib
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from support.client_libraries.client_library import Row
from support.client_libraries.confluent_library import Confluent
from support.process import ServerProcess
from tools.kafka_node import SMALL_JVM, java_command

PROGRAM = Path(__file__).parents[2] / "ecosystem" / "RunTotals.java"
OPTIONS = ("-Xmx256m", *SMALL_JVM, "-Xshare:auto")
PARTITIONS = 2
CLEAR = b"clear"
AT_LEAST_ONCE, EXACTLY_ONCE = "at_least_once", "exactly_once_v2"

Totals = dict[bytes, int]


class Restored(NamedTuple):
    """What the application had when it began to run: its totals, and how it got them."""

    totals: Totals
    records: int


def totals_of(inputs: Iterable[Row]) -> Totals:
    """The model: the sum of each key's values since the key was last cleared."""
    totals: Totals = {}
    for row in inputs:
        assert row.key is not None
        assert row.value is not None
        if row.value == CLEAR:
            totals.pop(row.key, None)
        else:
            totals[row.key] = totals.get(row.key, 0) + int(row.value)
    return totals


def last_values(outputs: Iterable[Row]) -> Totals:
    """The last value of each key; a null value deletes the key."""
    values = {row.key: row.value for row in outputs}
    return {key: int(value) for key, value in values.items() if key and value is not None}


class TotalsApp:
    """One application with an input and an output topic and a directory for its local state."""

    def __init__(
        self, bootstrap: str, name: str, directory: Path, guarantee: str = AT_LEAST_ONCE
    ) -> None:
        self.input, self.output = f"{name}-input", f"{name}-output"
        self.changelog = f"{name}-totals-changelog"
        self._library = Confluent(bootstrap)
        self._state = directory / "state"
        arguments = (bootstrap, name, self.input, self.output, str(self._state), guarantee)
        self._command = java_command(str(PROGRAM), *arguments, options=OPTIONS, log_level="error")
        self._library.create_topic(self.input, PARTITIONS)
        self._library.create_topic(self.output)

    @contextlib.contextmanager
    def running(self) -> Iterator[Restored]:
        """Run the application for the block; it must close without an error."""
        process = ServerProcess(self._command)
        try:
            process.wait_for_line("^running$")
            yield self._restored(process.lines)
            process.terminate()
            assert process.lines[-1] == "closed", process.output
        finally:
            process.kill()

    @contextlib.contextmanager
    def killed_after(self) -> Iterator[None]:
        """Run the application for the block, and then kill it."""
        process = ServerProcess(self._command)
        try:
            process.wait_for_line("^running$")
            yield
        finally:
            process.kill()

    @staticmethod
    def _restored(lines: Iterable[str]) -> Restored:
        words = [line.split() for line in lines]
        totals = {each[1].encode(): int(each[2]) for each in words if each[0] == "total"}
        return Restored(totals, next(int(each[1]) for each in words if each[0] == "restored"))

    def delete_local_state(self) -> None:
        assert any(self._state.rglob("*.sst")) or any(self._state.rglob("MANIFEST-*"))
        shutil.rmtree(self._state)

    def send(self, rows: Iterable[Row]) -> None:
        self._library.produce(self.input, list(rows), idempotent=True)

    def outputs(self, count: int) -> list[Row]:
        """Wait for this many committed records in the output topic and return them."""
        return self._library.consume(self.output, count)

    def outputs_to_the_end(self) -> list[Row]:
        """All committed records of the output topic, once no transaction is open."""
        return self._library.consume_to_the_end(self.output)

    def output_count(self) -> int:
        first, end = self._library.bounds(self.output)
        return end - first
