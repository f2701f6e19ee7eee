"""Commands on a terminal: what they draw and say where a person types and reads."""

import itertools
from collections.abc import Iterator

import pytest

from sawlog.client import Admin, NewTopic
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
