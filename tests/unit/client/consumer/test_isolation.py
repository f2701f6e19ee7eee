"""The isolation level of consumers."""

import pytest

from sawlog.client.consumer.consumer import Consumer
from sawlog.client.consumer.isolation import reads_committed


def test_the_levels_are_those_of_kafka() -> None:
    assert reads_committed("read_committed")
    assert not reads_committed("read_uncommitted")


def test_an_unknown_level_is_refused_before_a_connection_is_opened() -> None:
    with pytest.raises(ValueError, match="read_uncommitted or read_committed, not 'committed'"):
        Consumer("127.0.0.1:1", isolation="committed")  # type: ignore[arg-type]
