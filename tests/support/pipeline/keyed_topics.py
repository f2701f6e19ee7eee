"""Topics of changes: keyed records, a producer of them, and a dictionary of what they leave."""

import json
import random
from collections.abc import Iterable, Mapping
from typing import Any

from sawlog.client.net.cluster import Cluster
from sawlog.client.producer.producer import Producer
from support.pipeline.confluent_values import Sent
from support.pipeline.landing import records_of, rows_of
from support.pipeline.topic_load import TopicLoad

Json = Mapping[str, Any] | bytes | None
Record = tuple[Json | str | int, Json]  # key, value


def send_keyed(bootstrap: str, topic: str, records: Iterable[Record], partition: int = 0) -> None:
    """Send to one partition; mappings as JSON, text and numbers as text."""
    with Cluster(bootstrap) as cluster, Producer(cluster) as producer:
        for key, value in records:
            producer.send(topic, encoded(value), key=encoded(key), partition=partition)


def send_framed(
    bootstrap: str,
    topic: str,
    records: Iterable[tuple[Sent | None, Sent | None]],
    partition: int = 0,
) -> None:
    """Send keys and values of serializers, with the headers of both."""
    with Cluster(bootstrap) as cluster, Producer(cluster) as producer:
        for key, value in records:
            headers = [header for part in (key, value) if part for header in part.headers]
            producer.send(
                topic,
                None if value is None else value.value,
                None if key is None else key.value,
                headers=tuple(headers),
                partition=partition,
            )


def encoded(value: Json | str | int) -> bytes | None:
    if isinstance(value, Mapping):
        return json.dumps(value).encode()
    return str(value).encode() if isinstance(value, str | int) else value


def changes(count: int, first: int, partition: int) -> list[Record]:
    """Changes of 300 keys of a partition: rows, deletes by condition and tombstones."""
    found: list[Record] = []
    for number in range(first, first + count):
        choice = random.Random(number * 7 + partition)
        key = {"id": choice.randrange(300) * 3 + partition}
        kind = choice.randrange(10)
        value = None if kind == 0 else {**key, "n": number, "op": "d" if kind == 1 else "u"}
        found.append((key, value))
    return found


def keyed_load(bootstrap: str, topic: str) -> TopicLoad:
    """A producer of about two thousand changes per second in three partitions."""

    def send_round(number: int) -> None:
        for partition in range(3):
            send_keyed(bootstrap, topic, changes(70, number * 70, partition), partition)

    return TopicLoad(send_round)


def assert_table_is_the_replay(bootstrap: str, topic: str, path: str) -> None:
    """The rows of the table are what the topic leaves in a dictionary.

    A tombstone at offset N deletes the key of the change that `changes` made N-th.
    """
    expected: dict[int, tuple[int, int, int]] = {}
    for (partition, offset), value in records_of(bootstrap, topic):
        key = changes(1, offset, partition)[0][0]
        assert isinstance(key, Mapping)
        row = None if value is None else json.loads(value)
        if row is None or row["op"] == "d":
            expected.pop(key["id"], None)
        else:
            expected[row["id"]] = (partition, offset, row["n"])
    rows = rows_of(path)
    found = {row["id"]: (row["partition"], row["offset"], row["n"]) for row in rows}
    assert len(found) == len(rows), "a key has two rows"
    assert found == expected
