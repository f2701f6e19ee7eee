"""Builders of Produce and Fetch requests for a simulated machine."""

from typing import Any

from sawlog.protocol.compression import Codec
from sawlog.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sawlog.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from sawlog.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sawlog.protocol.record_batch import batches_in
from sawlog.protocol.records import Record, build_batch, iterate
from sawlog.simulation.simulated_broker import SimulatedMachine

TOPIC = "t"
NAMED = 12
"""The last version of Produce and Fetch with topic names instead of ids."""


def machine_with_topic(
    partitions: int = 1, configs: dict[str, str] | None = None, **settings: str
) -> SimulatedMachine:
    machine = SimulatedMachine(1, **settings)
    machine.boot()
    topic = CreatableTopic(
        TOPIC,
        partitions,
        1,
        configs=[CreatableTopicConfig(key, value) for key, value in (configs or {}).items()],
    )
    answer = machine.ask(CreateTopicsRequest([topic], timeout_ms=10_000))
    assert answer.topics[0].error_code == 0, answer
    return machine


def batch_of(
    machine: SimulatedMachine, *values: bytes, key: bytes | None = b"k", **fields: Any
) -> bytes:
    now_ms = machine.schedule.now_ms()
    records = [Record(place, now_ms, key, value, ()) for place, value in enumerate(values)]
    return bytes(build_batch(records, **{"codec": Codec.NONE, **fields}))


def produce(
    *batches: bytes | None, acks: int = -1, timeout_ms: int = 30_000, topic: str = TOPIC
) -> ProduceRequest:
    """Build a request with one batch for each partition, from 0."""
    data = [PartitionProduceData(index, batch) for index, batch in enumerate(batches)]
    return ProduceRequest(None, acks, timeout_ms, [TopicProduceData(topic, partition_data=data)])


def answers(response: Any) -> list[tuple[int, int]]:
    """Return error code and base offset of every partition."""
    return [
        (answer.error_code, answer.base_offset)
        for topic in response.responses
        for answer in topic.partition_responses
    ]


def fetch(*offsets: int, topic: str = TOPIC, **fields: Any) -> FetchRequest:
    """Build a fetch with one offset for each partition, from 0; by default without a session."""
    limit = fields.pop("partition_max_bytes", 1 << 20)
    partitions = [
        FetchPartition(index, fetch_offset=offset, partition_max_bytes=limit)
        for index, offset in enumerate(offsets)
    ]
    defaults = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
    return FetchRequest(topics=[FetchTopic(topic, partitions=partitions)], **{**defaults, **fields})


def values(response: Any) -> list[list[bytes | None]]:
    """Return the record values of every partition, of whole batches only."""
    found = []
    for topic in response.responses:
        for data in topic.partitions:
            assert data.error_code == 0, data
            records = data.records
            found.append(
                [
                    record.value
                    for position, header in batches_in(records)
                    for record in iterate(
                        records[position : position + header.size],
                        max_decompressed_bytes=1 << 24,
                    )
                ]
            )
    return found
