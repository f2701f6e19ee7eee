"""Answers equal to Kafka's: the script's dialogue with Apache Kafka 4.3.0, held against ours.

The recordings are kept, so this needs no Java. The soak has the same dialogue with a real Kafka and
checks that the recordings are what it says; `SAWLOG_RECORD=1` makes it write them instead.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.kafka.kafka_broker import KafkaServer, running_kafka
from support.server.broker_process import SawlogServer, running_sawlog
from transcripts.chapters.versions import SERVED_KEYS
from transcripts.dialogue import RECORDINGS, Dialogue, as_text
from transcripts.script import CHAPTERS, broker_of, perform, settings_of

Server = SawlogServer | KafkaServer
ServerFor = Callable[[str], Server]


@contextlib.contextmanager
def servers(start: Callable[..., Any], directory: Path) -> Iterator[ServerFor]:
    """A running broker for a chapter; those that can share one."""
    running: dict[str, Server] = {}
    with contextlib.ExitStack() as stack:

        def server_for(chapter: str) -> Server:
            name = broker_of(chapter)
            if name not in running:
                place = directory / str(len(running))
                running[name] = stack.enter_context(start(place, settings_of(chapter)))
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


def recorded(chapter: str) -> list[dict[str, Any]]:
    return json.loads((RECORDINGS / f"{chapter}.json").read_text())


def differences(expected: Any, found: Any, path: str = "") -> list[str]:
    """Where two answers are not the same, as `path: expected, not found`."""
    if isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        return [
            line
            for key in expected
            for line in differences(expected[key], found[key], f"{path}.{key}".lstrip("."))
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            line
            for index, (left, right) in enumerate(zip(expected, found, strict=True))
            for line in differences(left, right, f"{path}.{index}".lstrip("."))
        ]
    return [] if expected == found else [f"{path}: {expected!r}, not {found!r}"]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_sawlog_answers_as_kafka_does(sawlog, chapter: str) -> None:
    server = sawlog(chapter)
    steps = perform(chapter, server.host, server.port)
    recording = recorded(chapter)
    assert [step.title for step in steps] == [entry["step"] for entry in recording]
    wrong: list[str] = []
    for step, entry in zip(steps, recording, strict=True):
        expected = entry["answer"]
        if step.differs is not None:
            expected = step.differs.applied_to(expected)
        found = json.loads(json.dumps(step.answer))
        wrong += [
            f"{step.title} ({step.request[:80]}): {line}" for line in differences(expected, found)
        ]
    assert wrong == []


def test_sawlog_advertises_what_the_script_takes_for_served_and_nothing_else(sawlog) -> None:
    server = sawlog("versions")
    talk = Dialogue(server.host, server.port)
    answer = talk.quietly("ApiVersions", 0, {})
    talk.end()
    assert {entry.api_key for entry in answer.api_keys} == SERVED_KEYS


@pytest.mark.soak
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_recording_is_what_kafka_says(kafka, chapter: str) -> None:
    server = kafka(chapter)
    said = as_text(perform(chapter, server.host, server.port))
    recording = RECORDINGS / f"{chapter}.json"
    if os.environ.get("SAWLOG_RECORD") == "1":
        recording.write_text(said)
    assert said == recording.read_text()
