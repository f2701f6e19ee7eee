"""Compacted topics under test: their settings, what is left of them, and the wait for the cleaner.

A partition is compacted when no key has two records below its active segment.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from support.client_libraries.client_library import GUARD_S, BrokerError, Row
from support.client_libraries.confluent_library import Confluent
from support.kafka.shared_brokers import Server
from support.process import wait_until

COMPACTION_S = 120.0
SMALL_SEGMENTS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "16384",
    "min.cleanable.dirty.ratio": "0.01",
}


class Kept(NamedTuple):
    """A record that a consumer reads."""

    offset: int
    key: bytes | None
    value: bytes | None


def write(library: Confluent, topic: str, rows: Sequence[Row], codec: str = "none") -> None:
    """Append rows to partition 0 with an idempotent producer, in batches of a few kilobytes."""
    _, end = library.bounds(topic)
    settings = {"compression.type": codec, "enable.idempotence": True, "batch.num.messages": 40}
    producer = library.producer(**settings)
    for row in rows:
        producer.produce(topic, row.value, row.key, partition=0, timestamp=row.timestamp_ms)
    assert producer.flush(GUARD_S) == 0
    assert library.bounds(topic)[1] == end + len(rows)


def active_base_offset(server: Server, topic: str, partition: int = 0) -> int:
    """The base offset of the last segment, which is never compacted."""
    return max(int(log.stem) for log in (server.data / f"{topic}-{partition}").glob("*.log"))


def compacted(written: Sequence[Row], active: int) -> list[Kept]:
    """What a compaction leaves of a partition whose active segment begins at `active`.

    The record at index n of `written` has the offset n.
    """
    last = {row.key: offset for offset, row in enumerate(written[:active])}
    return [
        Kept(offset, row.key, row.value)
        for offset, row in enumerate(written)
        if offset >= active or last[row.key] == offset
    ]


def read_all(library: Confluent, topic: str, partition: int = 0) -> list[Kept]:
    """All records of a partition, from its first offset to its end."""
    found: list[Kept] = []
    first, end = library.bounds(topic, partition)
    if first == end:
        return found
    with library.consumer(**{"enable.partition.eof": True}) as consumer:
        consumer.assign([TopicPartition(topic, partition, first)])
        while True:
            message = consumer.poll(GUARD_S)
            assert message is not None, f"no record and no end in {GUARD_S} s"
            error = message.error()
            if error is None:
                found.append(Kept(message.offset(), message.key(), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise BrokerError(error.code(), error.str())


def is_compacted(kept: Iterable[Kept], active: int) -> bool:
    keys = [record.key for record in kept if record.offset < active]
    return bool(keys) and len(keys) == len(set(keys))


def wait_until_compacted(
    server: Server, library: Confluent, topic: str, partition: int = 0
) -> list[Kept]:
    """Wait for the cleaner; returns all records that are left. Nothing may be written meanwhile."""
    active = active_base_offset(server, topic, partition)
    assert active > 0, f"{topic}-{partition} has only one segment"
    kept: list[Kept] = []

    def look() -> bool:
        kept[:] = read_all(library, topic, partition)
        return is_compacted(kept, active)

    wait_until(look, server.process, patience_s=COMPACTION_S)
    return kept


def set_config(library: Confluent, topic: str, name: str, value: str) -> None:
    """Set one configuration of a topic."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = library.admin()
    admin.incremental_alter_configs([resource])[resource].result(GUARD_S)
