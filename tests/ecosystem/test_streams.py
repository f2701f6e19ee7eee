"""Kafka Streams keeps its state in a compacted changelog topic and restores it from there."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.client_libraries.client_library import Row
from support.client_libraries.confluent_library import Confluent
from support.kafka.streams_app import (
    CLEAR,
    EXACTLY_ONCE,
    PARTITIONS,
    TotalsApp,
    last_values,
    totals_of,
)
from support.programs import require_java
from support.tiers import rounds

KEYS = 50
ROWS = 2_000  # in each run


def inputs_of_run(run: int) -> Iterator[Row]:
    """Values for all keys, and now and then a key that is cleared, for good or for a while."""
    now_ms = time.time_ns() // 1_000_000
    for number in range(run * ROWS, (run + 1) * ROWS):
        key = number % KEYS
        value = CLEAR if number % 97 == 0 or number % ROWS == ROWS - 1 else b"%d" % number
        yield Row(value, b"key-%d" % key, timestamp_ms=now_ms, partition=key % PARTITIONS)


@pytest.mark.parametrize("restarts", rounds(long=1, soak=20))
def test_totals_without_local_state_are_restored_from_the_changelog(
    broker, confluent: Confluent, topic: str, tmp_path: Path, restarts: int
) -> None:
    require_java()
    app = TotalsApp(broker.bootstrap, topic, tmp_path)
    inputs: list[Row] = []
    for run in range(restarts + 1):
        with app.running() as restored:
            assert restored.totals == totals_of(inputs)
            assert restored.records >= len(restored.totals)
            added = list(inputs_of_run(run))
            app.send(added)
            inputs += added
            assert last_values(app.outputs(len(inputs))) == totals_of(inputs)
        app.delete_local_state()
    assert app.output_count() == len(inputs)
    config = confluent.topic_config(app.changelog)
    assert config["cleanup.policy"] == "compact"
    assert config["internal.segment.bytes"] == "16384"
    assert set(totals_of(inputs)) < {row.key for row in inputs}


@pytest.mark.parametrize("kills", rounds(long=1, soak=20))
def test_exactly_once_counts_every_input_once_though_the_application_is_killed(
    broker, topic: str, tmp_path: Path, kills: int
) -> None:
    """A killed application has counted inputs that it has not committed: they are counted again,
    and what it wrote of them is aborted."""
    require_java()
    app = TotalsApp(broker.bootstrap, topic, tmp_path, EXACTLY_ONCE)
    inputs: list[Row] = []
    for run in range(kills):
        with app.killed_after():
            added = list(inputs_of_run(run))
            app.send(added)
            inputs += added
            app.outputs(len(inputs) - ROWS // 2)
    with app.running():
        outputs = app.outputs(len(inputs))
    assert last_values(outputs) == totals_of(inputs)
    markers = app.output_count() - len(inputs)
    assert markers > 0
    consumed = app.outputs_to_the_end()
    assert len(consumed) == len(inputs)
