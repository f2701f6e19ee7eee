"""Sawlog's responses are those of Apache Kafka 4.3.0, as recorded in `kafka-4.3.0`.

This needs no Java. The soak runs the same scenarios against a real Kafka and compares its responses
with the recordings; `SAWLOG_RECORD=1` makes it write the recordings first.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.kafka.kafka_broker import KafkaServer, running_kafka
from support.server.broker_process import SawlogServer, running_sawlog
from transcripts.catalog import SCENARIOS, broker_of, run_scenario, settings_of
from transcripts.scenarios.api_versions import SERVED_KEYS
from transcripts.steps import diff, kafka_text, sawlog_text
from transcripts.transcript import Transcript

RECORDINGS = Path(__file__).parent / "kafka-4.3.0"

Server = SawlogServer | KafkaServer
ServerFor = Callable[[str], Server]


@contextlib.contextmanager
def servers(start: Callable[..., Any], directory: Path) -> Iterator[ServerFor]:
    """Yield a function that returns the running broker of a scenario; most scenarios share one."""
    running: dict[str, Server] = {}
    with contextlib.ExitStack() as stack:

        def server_for(scenario: str) -> Server:
            name = broker_of(scenario)
            if name not in running:
                path = directory / str(len(running))
                running[name] = stack.enter_context(start(path, settings_of(scenario)))
            return running[name]

        yield server_for


@pytest.fixture(scope="module")
def sawlog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerFor]:
    with servers(running_sawlog, tmp_path_factory.mktemp("sawlog")) as server_for:
        yield server_for


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerFor]:
    with servers(running_kafka, tmp_path_factory.mktemp("kafka")) as server_for:
        yield server_for


def recording_of(scenario: str) -> Path:
    return RECORDINGS / f"{scenario}.txt"


def check_same(recording: str, found: str) -> None:
    """Fail with the diff of the two transcripts."""
    difference = diff(recording, found)
    if difference:
        pytest.fail(difference, pytrace=False)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_sawlog_answers_as_kafka_does(sawlog, scenario: str) -> None:
    server = sawlog(scenario)
    steps = run_scenario(scenario, server.host, server.port)
    recording = recording_of(scenario).read_text()
    check_same(recording, sawlog_text(steps, recording))


def test_every_recording_has_a_scenario() -> None:
    assert {path.stem for path in RECORDINGS.iterdir()} == SCENARIOS.keys()


def test_sawlog_advertises_exactly_the_apis_that_the_scenarios_compare(sawlog) -> None:
    server = sawlog("api_versions")
    transcript = Transcript(server.host, server.port)
    response = transcript.request_unrecorded("ApiVersions", 0, {})
    transcript.close()
    assert {entry.api_key for entry in response.api_keys} == SERVED_KEYS


@pytest.mark.soak
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_recordings_are_what_kafka_answers(kafka, scenario: str) -> None:
    server = kafka(scenario)
    found = kafka_text(run_scenario(scenario, server.host, server.port))
    if os.environ.get("SAWLOG_RECORD") == "1":
        recording_of(scenario).write_text(found)
    check_same(recording_of(scenario).read_text(), found)
