"""Commands on a terminal: what they draw and say where a person types and reads."""

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sawlog.client import Admin, NewTopic, Producer
from support.cli.terminal import END_OF_INPUT, TIMEOUT_S, terminal
from support.server.broker_process import running_sawlog

_names = itertools.count()


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_sawlog(tmp_path_factory.mktemp("broker")) as server:
        yield server.bootstrap


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"topic-{next(_names)}"
    with Admin(bootstrap) as admin:
        assert admin.create_topics([NewTopic(name, partitions=2)]) == {}
    return name


def test_typed_lines_are_not_drawn_over(bootstrap: str, topic: str) -> None:
    with terminal("produce", topic, bootstrap=bootstrap) as typing:
        typing.type(b"one\n")
        typing.type(b"two\n" + END_OF_INPUT)
        assert typing.end() == 0
    assert typing.shown == f"produced 2 records to {topic}\r\n".encode()


def produce(bootstrap: str, topic: str, partition: int, *values: bytes) -> None:
    with Producer(bootstrap) as producer:
        for value in values:
            producer.send(topic, value, partition=partition)


def test_records_before_the_end_are_told_to_be_those_of_each_partition(
    bootstrap: str, topic: str
) -> None:
    for partition in range(2):
        produce(bootstrap, topic, partition, b"a", b"b", b"c")
    with terminal("consume", topic, "--from", "-2", "-e", bootstrap=bootstrap) as screen:
        assert screen.end() == 0
    notice, *records = screen.shown.decode().splitlines()
    assert notice == (
        "sawlog: --from -2 begins 2 records before the end of each of 2 partitions;"
        " -p reads one of them"
    )
    assert records == ["b", "c"] * 2
    with terminal("consume", topic, "--from", "-2", "-p0", "-e", bootstrap=bootstrap) as screen:
        assert screen.end() == 0
    assert screen.shown.split() == [b"b", b"c"]


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("end", "sawlog: waiting for new records of '{}'; --from beginning reads older ones"),
        ("beginning", "sawlog: '{}' has no records from there on; waiting for new ones"),
        ("-5", "sawlog: '{}' has no records from there on; waiting for new ones"),
        ("0", "sawlog: '{}' has no records from there on; waiting for new ones"),
    ],
)
def test_a_person_is_told_that_an_empty_topic_is_waited_for(
    bootstrap: str, topic: str, start: str, words: str
) -> None:
    with terminal("consume", topic, "--from", start, bootstrap=bootstrap) as screen:
        screen.read_until(words.format(topic))
        screen.read_until(", Ctrl-C ends\r\n")
        produce(bootstrap, topic, 0, b"first")
        screen.read_until("first\r\n")
        assert screen.interrupt() == 130


def test_nothing_is_said_of_waiting_where_records_are_there(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 1, b"first")
    options = ("--from", "beginning", "-n", "1")
    with terminal("consume", topic, *options, bootstrap=bootstrap) as screen:
        assert screen.end() == 0
    assert screen.shown == b"first\r\n"


def test_nothing_is_said_of_waiting_to_a_file_or_a_pipe(bootstrap: str, topic: str) -> None:
    command = [sys.executable, "-m", "sawlog", "consume", topic, "--json", "-b", bootstrap]
    command += ["--from", "beginning", "-n", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consuming:
        produce(bootstrap, topic, 0, b"first")
        out, told = consuming.communicate(timeout=TIMEOUT_S)
    assert json.loads(out)["value"] == "first"
    assert told == f"consumed 1 record from {topic}\n".encode()
