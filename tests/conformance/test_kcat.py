"""kcat, with an older librdkafka than the Python binding: produce, consume and metadata."""

import json
import subprocess
from typing import Any

import pytest

from support.client_libraries.client_library import CODECS, ClientLibrary, Row
from support.programs import require

GUARD_S = 60


class Kcat:
    """Runs kcat against one broker."""

    def __init__(self, bootstrap: str) -> None:
        self._command = [require("kcat"), "-b", bootstrap]

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self.attempt(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def attempt(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*self._command, *arguments], input=stdin, capture_output=True, timeout=GUARD_S
        )

    def consume(self, topic: str, *arguments: str) -> list[dict[str, Any]]:
        """All records up to the log end, as kcat's JSON envelopes."""
        lines = self.run("-C", "-q", "-e", "-J", "-t", topic, *arguments).splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
def kcat(broker) -> Kcat:
    return Kcat(broker.bootstrap)


@pytest.mark.parametrize("codec", CODECS)
def test_lines_are_consumed_in_order(kcat: Kcat, create_topic, topic, codec) -> None:
    create_topic(topic)
    lines = [f"line {number} {'x' * (number % 50)}" for number in range(2_000)]
    kcat.run("-P", "-t", topic, "-z", codec, stdin="\n".join(lines).encode())
    records = kcat.consume(topic)
    assert [record["payload"] for record in records] == lines
    assert [record["offset"] for record in records] == list(range(len(lines)))


def test_keys_headers_and_nulls_are_kept(kcat: Kcat, create_topic, topic) -> None:
    create_topic(topic)
    kcat.run(
        *["-P", "-K:", "-Z", "-H", "a=1", "-H", "b=2", "-t"],
        topic,
        stdin=b"key:value\n:keyless\ngone:\n",
    )
    records = kcat.consume(topic)
    pairs = [(record["key"], record["payload"]) for record in records]
    assert pairs == [("key", "value"), (None, "keyless"), ("gone", None)]
    assert all(record["headers"] == ["a", "1", "b", "2"] for record in records)


def test_the_idempotent_producer_keeps_the_order(kcat: Kcat, create_topic, topic) -> None:
    create_topic(topic)
    lines = b"\n".join(b"%d" % number for number in range(5_000))
    kcat.run("-P", "-t", topic, "-X", "enable.idempotence=true", stdin=lines)
    assert [int(record["payload"]) for record in kcat.consume(topic)] == list(range(5_000))


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("beginning", range(100)),
        ("40", range(40, 100)),
        ("-3", range(97, 100)),
        ("s@1700000090000", range(90, 100)),
        ("end", range(0)),
    ],
)
def test_consuming_starts_at_the_given_offset(
    kcat: Kcat, confluent: ClientLibrary, create_topic, topic, start, expected
):
    create_topic(topic)
    begin = 1_700_000_000_000
    confluent.produce(topic, [Row(b"%d" % i, timestamp_ms=begin + i * 1_000) for i in range(100)])
    records = kcat.consume(topic, "-p", "0", "-o", start)
    assert [record["offset"] for record in records] == list(expected)


def test_the_offset_of_a_timestamp_is_queried(
    kcat: Kcat, confluent: ClientLibrary, create_topic, topic
):
    create_topic(topic)
    confluent.produce(topic, [Row(b"x", timestamp_ms=1_700_000_000_000 + i) for i in range(10)])
    assert kcat.run("-Q", "-t", f"{topic}:0:1700000000004").split()[-1] == b"4"


def test_the_listing_shows_brokers_topics_and_partitions(kcat: Kcat, create_topic, topic) -> None:
    create_topic(topic, 3)
    listing = json.loads(kcat.run("-L", "-J", "-t", topic))
    node = listing["brokers"][0]["id"]
    assert [broker["id"] for broker in listing["brokers"]] == [node]
    assert listing["controllerid"] == node
    (described,) = listing["topics"]
    assert described["topic"] == topic
    assert [(each["partition"], each["leader"]) for each in described["partitions"]] == [
        (0, node),
        (1, node),
        (2, node),
    ]


def test_an_unknown_partition_is_reported(kcat: Kcat, create_topic, topic) -> None:
    create_topic(topic)
    done = kcat.attempt("-C", "-e", "-t", topic, "-p", "7")
    assert done.returncode != 0
    assert b"partition 7 does not exist" in done.stderr
