"""Commands on a terminal: progress bars and hints."""

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


def test_no_progress_bar_over_typed_lines(bootstrap: str, topic: str) -> None:
    with terminal("produce", topic, bootstrap=bootstrap) as typing:
        typing.type(b"one\n")
        typing.type(b"two\n" + END_OF_INPUT)
        assert typing.end() == 0
    assert typing.shown == f"produced 2 records to {topic}\r\n".encode()


def produce(bootstrap: str, topic: str, partition: int, *values: bytes) -> None:
    with Producer(bootstrap) as producer:
        for value in values:
            producer.send(topic, value, partition=partition)


def test_hint_that_a_negative_start_counts_in_each_partition(bootstrap: str, topic: str) -> None:
    for partition in range(2):
        produce(bootstrap, topic, partition, b"a", b"b", b"c")
    with terminal("consume", topic, "--from", "-2", "-e", bootstrap=bootstrap) as screen:
        assert screen.end() == 0
    hint, *records = screen.shown.decode().splitlines()
    assert hint == (
        "sawlog: --from -2 starts 2 records before the end of each of 2 partitions;"
        " use -p to read one of them"
    )
    assert records == ["b", "c"] * 2
    with terminal("consume", topic, "--from", "-2", "-p0", "-e", bootstrap=bootstrap) as screen:
        assert screen.end() == 0
    assert screen.shown.split() == [b"b", b"c"]


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("end", "sawlog: waiting for new records of '{}'; --from beginning reads older ones"),
        ("beginning", "sawlog: '{}' has no records after this start; waiting for new ones"),
        ("-5", "sawlog: '{}' has no records after this start; waiting for new ones"),
        ("0", "sawlog: '{}' has no records after this start; waiting for new ones"),
    ],
)
def test_hint_that_consume_waits_for_new_records(
    bootstrap: str, topic: str, start: str, words: str
) -> None:
    with terminal("consume", topic, "--from", start, bootstrap=bootstrap) as screen:
        screen.read_until(words.format(topic))
        screen.read_until(", Ctrl-C stops\r\n")
        produce(bootstrap, topic, 0, b"first")
        screen.read_until("first\r\n")
        assert screen.interrupt() == 130


def test_no_hint_if_there_are_records(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 1, b"first")
    options = ("--from", "beginning", "-n", "1")
    with terminal("consume", topic, *options, bootstrap=bootstrap) as screen:
        assert screen.end() == 0
    assert screen.shown == b"first\r\n"


def test_no_hint_if_stderr_is_not_a_terminal(bootstrap: str, topic: str) -> None:
    command = [sys.executable, "-m", "sawlog", "consume", topic, "--json", "-b", bootstrap]
    command += ["--from", "beginning", "-n", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consuming:
        produce(bootstrap, topic, 0, b"first")
        out, err = consuming.communicate(timeout=TIMEOUT_S)
    assert json.loads(out)["value"] == "first"
    assert err == f"consumed 1 record from {topic}\n".encode()
