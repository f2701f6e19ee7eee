"""Answers equal to Kafka's: the script's dialogue with Apache Kafka 4.3.0, held against ours.

The recordings are kept, so this needs no Java. The soak has the same dialogue with a real Kafka and
checks that the recordings are what it says; `SAWLOG_RECORD=1` makes it write them instead.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.kafka.kafka_broker import KafkaServer, running_kafka
from support.server.broker_process import SawlogServer, running_sawlog
from transcripts.chapters.versions import SERVED_KEYS
from transcripts.dialogue import RECORDINGS, Dialogue
from transcripts.script import CHAPTERS, broker_of, perform, settings_of
from transcripts.steps import diff, kafka_text, sawlog_text

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


def recording_of(chapter: str) -> Path:
    return RECORDINGS / f"{chapter}.txt"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_sawlog_answers_as_kafka_does(sawlog, chapter: str) -> None:
    server = sawlog(chapter)
    recording = recording_of(chapter).read_text()
    changed = diff(recording, sawlog_text(perform(chapter, server.host, server.port), recording))
    if changed:
        pytest.fail(changed, pytrace=False)


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
    found = kafka_text(perform(chapter, server.host, server.port))
    if os.environ.get("SAWLOG_RECORD") == "1":
        recording_of(chapter).write_text(found)
    changed = diff(recording_of(chapter).read_text(), found)
    if changed:
        pytest.fail(changed, pytrace=False)
