"""Records of which some are malformed, a producer of them, and what must have landed."""

import json
from collections.abc import Iterator

from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig
from support.pipeline.landing import records_of, rows_of, send, values_in
from support.pipeline.topic_load import TopicLoad
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


def load(bootstrap: str) -> TopicLoad:
    """A producer of about two thousand records per second.

    A faster one would leave a backlog on a busy machine that takes longer to land than the test.
    """
    return TopicLoad(lambda number: send(bootstrap, TOPIC, values(200, number * 200)))


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
