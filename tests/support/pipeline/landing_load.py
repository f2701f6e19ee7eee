"""Records of which some are malformed, a producer of them, and what must have landed."""

import json
import threading
from collections.abc import Iterator
from typing import Self

from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig
from support.pipeline.landing import records_of, rows_of, send, values_in
from support.server.broker_process import SawlogServer

TOPIC = "logs"
TABLES = f"""\
  raw: {{topic: {TOPIC}, commit: {{rows: 8000, every: 200ms}}}}
  parsed: {{topic: {TOPIC}, format: json, commit: {{rows: 9000, every: 200ms}}}}
"""


def values(count: int, first: int = 0) -> Iterator[bytes]:
    """Values of which every seventh is malformed."""
    for number in range(first, first + count):
        yield b"{broken %d" % number if number % 7 == 0 else json.dumps({"id": number}).encode()


class Load:
    """A producer of about two thousand records per second, until stopped.

    A faster one would leave a backlog on a busy machine that takes longer to land than the test.
    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        first = 0
        while not self._stop.wait(0.1):
            send(self._bootstrap, TOPIC, values(200, first))
            first += 200


def assert_tables_are_the_topic(server: SawlogServer, pipeline: PipelineConfig) -> None:
    raw, parsed = pipeline.landed
    records = records_of(server.bootstrap, TOPIC)
    assert values_in(raw.path) == records
    assert values_in(raw.dead_path) == []
    good = [(place, json.loads(value)) for place, value in records if value and value[1] == 34]
    rows = [((row["partition"], row["offset"]), {"id": row["id"]}) for row in rows_of(parsed.path)]
    assert sorted(rows, key=lambda entry: entry[0]) == good
    bad = [(place, value) for place, value in records if not value or value[1] != 34]
    assert values_in(parsed.dead_path) == bad
