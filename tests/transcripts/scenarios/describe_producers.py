"""DescribeProducers: idempotent producers of a partition, and what is not there."""

from typing import Any

from transcripts.scenarios.produce_requests import batch, produce
from transcripts.transcript import Transcript

TOPIC = "producers"
PRODUCER = 9_100_000_001


def in_order(answer: dict[str, Any]) -> dict[str, Any]:
    """Producers in the order of their ids, without the time of their last append."""
    for topic in answer["topics"]:
        for partition in topic["partitions"]:
            partition["active_producers"] = sorted(
                (
                    {**each, "last_timestamp": "<some>"}
                    for each in partition.get("active_producers", [])
                ),
                key=lambda each: str(each["producer_id"]),
            )
    return answer


def run(transcript: Transcript) -> None:
    transcript.create_topic(TOPIC, 2)
    for producer, epoch, sequence, values in ((0, 0, 0, "ab"), (1, 3, 7, "a"), (0, 0, 2, "c")):
        records = batch(
            *values,
            producer_id=PRODUCER + producer,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        transcript.request_unrecorded("Produce", 9, produce(TOPIC, records))
    for title, topics in (
        ("two producers, none, and no such partition", {TOPIC: [0, 1, 2]}),
        ("an unknown topic", {"producers-unknown": [0]}),
        ("an invalid name", {"producers unknown": [0]}),
        ("no partition", {TOPIC: []}),
        ("nothing", {}),
    ):
        fields = {
            "topics": [
                {"name": name, "partition_indexes": indexes} for name, indexes in topics.items()
            ]
        }
        transcript.request(title, "DescribeProducers", 0, fields, keep=in_order)
