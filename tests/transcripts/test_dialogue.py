"""Answers equal to Kafka's: the script's dialogue with Apache Kafka 4.3.0, held against ours.

The recordings are kept, so this needs no Java. With Java, the long test has the same dialogue
with a real Kafka and checks that the recordings are what it says; `SAWLOG_RECORD=1` makes it
write them instead.
"""

import json
import os
from typing import Any

import pytest

from support.broker import running_sawlog
from support.kafka import running_kafka
from transcripts.chapters.versions import SERVED_KEYS
from transcripts.dialogue import RECORDINGS, Dialogue, as_text
from transcripts.script import CHAPTERS, perform


@pytest.fixture(scope="module")
def sawlog(tmp_path_factory: pytest.TempPathFactory):
    with running_sawlog(tmp_path_factory.mktemp("sawlog")) as server:
        yield server


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory):
    with running_kafka(tmp_path_factory.mktemp("kafka")) as server:
        yield server


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
    steps = perform(chapter, sawlog.host, sawlog.port)
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
    talk = Dialogue(sawlog.host, sawlog.port)
    answer = talk.quietly("ApiVersions", 0, {})
    talk.hang_up()
    assert {entry.api_key for entry in answer.api_keys} == SERVED_KEYS


@pytest.mark.long
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_recording_is_what_kafka_says(kafka, chapter: str) -> None:
    said = as_text(perform(chapter, kafka.host, kafka.port))
    recording = RECORDINGS / f"{chapter}.json"
    if os.environ.get("SAWLOG_RECORD") == "1":
        recording.write_text(said)
    assert said == recording.read_text()
