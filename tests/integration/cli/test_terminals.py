"""Commands on a terminal: what they draw and say where a person types and reads."""

import itertools
from collections.abc import Iterator

import pytest

from sawlog.client import Admin, NewTopic, Producer
from support.broker import running_sawlog
from support.terminal import END_OF_INPUT, terminal

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
