"""ListOffsets and OffsetForLeaderEpoch."""

from typing import Any

from transcripts.scenarios.produce_requests import TIME, batch, produce
from transcripts.steps import Differs
from transcripts.transcript import Transcript

SPECIAL = {
    -1: "latest",
    -2: "earliest",
    -3: "max timestamp",
    -4: "earliest local",
    -5: "latest tiered",
}
LARGEST = -3
UNNAMED = (-6, -7, -100)
NO_LARGEST = Differs(
    "Kafka returns a deleted record",
    {
        "topics.0.partitions.0.timestamp": -1,
        "topics.0.partitions.0.offset": -1,
        "topics.0.partitions.0.leader_epoch": -1,
    },
)
NAMED = Differs(
    "Sawlog includes a topic without partitions",
    {"topics": [{"name": "offsets", "partitions": []}]},
)


def both_refused(version: int) -> Differs:
    refusal = {"partition_index": 0, "error_code": "INVALID_REQUEST", "timestamp": -1, "offset": -1}
    if version >= 4:
        refusal["leader_epoch"] = -1
    reason = "Sawlog refuses both partitions"
    return Differs(reason, {"topics.0.partitions": [refusal, refusal]})


def listing(topic: str, *partitions: Any, **more: Any) -> dict[str, Any]:
    topics = [{"name": topic, "partitions": list(partitions)}]
    return {"replica_id": -1, "topics": topics, **more}


def at(timestamp: int, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"partition_index": index, "timestamp": timestamp, **more}


def run(transcript: Transcript) -> None:
    transcript.create_topic("offsets", 2)
    for records in (
        batch("a", "b", at=TIME),
        batch("c", at=TIME + 9_000),
        batch("d", "e", at=TIME + 5_000, codec=3),
    ):
        transcript.request_unrecorded("Produce", 9, produce("offsets", records))
    for version in range(1, 12):
        for timestamp, name in SPECIAL.items():
            transcript.request(name, "ListOffsets", version, listing("offsets", at(timestamp)))
    for version in (7, 9, 11):
        for timestamp in UNNAMED:
            transcript.request(
                f"timestamp {timestamp}", "ListOffsets", version, listing("offsets", at(timestamp))
            )
    for delta in (-1, 0, 1, 1_000, 1_001, 5_001, 9_000, 9_001):
        for version in (1, 4, 10):
            request = listing("offsets", at(TIME + delta))
            transcript.request(
                f"the first offset at {delta} ms or later", "ListOffsets", version, request
            )
    for timestamp, name in (*SPECIAL.items(), (0, "any"), (TIME, "a time")):
        transcript.request(
            f"{name}, empty partition", "ListOffsets", 10, listing("offsets", at(timestamp, 1))
        )
    partitions(transcript)
    epochs(transcript)
    after_deletion(transcript)


def partitions(transcript: Transcript) -> None:
    for version in (1, 5, 10):
        transcript.request(
            "an unknown topic", "ListOffsets", version, listing("offsets-none", at(-1))
        )
        transcript.request(
            "an unknown partition", "ListOffsets", version, listing("offsets", at(-1, 9))
        )
    transcript.request("an invalid topic name", "ListOffsets", 5, listing("not a name!", at(-1)))
    transcript.request("a negative partition", "ListOffsets", 5, listing("offsets", at(-1, -1)))
    transcript.request("two partitions", "ListOffsets", 5, listing("offsets", at(-1), at(-1, 1)))
    for version in (1, 5, 10):
        twice = listing("offsets", at(-1), at(-2))
        transcript.request(
            "the same partition twice", "ListOffsets", version, twice, differs=both_refused(version)
        )
    transcript.request("no topics", "ListOffsets", 5, {"replica_id": -1, "topics": []})
    committed = listing("offsets", at(-1), isolation_level=1)
    transcript.request("read_committed", "ListOffsets", 5, committed)
    for replica in (-2, 1, 9):
        request = {**listing("offsets", at(-1)), "replica_id": replica}
        transcript.request(f"as replica {replica}", "ListOffsets", 5, request)


def epochs(transcript: Transcript) -> None:
    for epoch in (0, 1, 99):
        request = listing("offsets", at(-1, current_leader_epoch=epoch))
        transcript.request(f"with leader epoch {epoch}", "ListOffsets", 5, request)

    def ask(title: str, version: int, topic: str, index: int, epoch: int, **more: Any) -> None:
        partition = {"partition": index, "leader_epoch": epoch, **more}
        topics = [{"topic": topic, "partitions": [partition]}]
        transcript.request(
            title, "OffsetForLeaderEpoch", version, {"replica_id": -1, "topics": topics}
        )

    for version in (2, 3, 4):
        for epoch in (0, 1, 99, -1):
            ask(f"the end of epoch {epoch}", version, "offsets", 0, epoch)
        ask("the end of epoch 0, of nothing", version, "offsets", 1, 0)
        ask("an unknown topic", version, "offsets-none", 0, 0)
        ask("an unknown partition", version, "offsets", 9, 0)
    for current in (0, 1, 99):
        ask(f"with leader epoch {current}", 4, "offsets", 0, 0, current_leader_epoch=current)
    partition = {"partition": 0, "leader_epoch": 0}
    topics = [{"topic": "offsets", "partitions": [partition]}]
    for replica in (-2, 9):
        request = {"replica_id": replica, "topics": topics}
        transcript.request(f"as replica {replica}", "OffsetForLeaderEpoch", 4, request)
    transcript.request("no topics", "OffsetForLeaderEpoch", 4, {"topics": []})


def after_deletion(transcript: Transcript) -> None:
    def delete(title: str, version: int, topic: str, index: int, offset: int) -> None:
        partition = {"partition_index": index, "offset": offset}
        topics = [{"name": topic, "partitions": [partition]}]
        transcript.request(
            title, "DeleteRecords", version, {"topics": topics, "timeout_ms": 10_000}
        )

    for version in (0, 1, 2):
        delete("up to offset 0", version, "offsets", 0, 0)
        delete("beyond the log end", version, "offsets", 0, 6)
        delete("an unknown topic", version, "offsets-none", 0, 0)
        delete("an unknown partition", version, "offsets", 9, 0)
    delete("a negative offset", 2, "offsets", 0, -2)
    delete("one record", 2, "offsets", 0, 1)
    delete("one record, again", 2, "offsets", 0, 1)
    delete("below the log start offset", 2, "offsets", 0, 0)
    for timestamp, name in (*SPECIAL.items(), (0, "any"), (TIME, "the first time")):
        transcript.request(
            f"after deleting one record: {name}",
            "ListOffsets",
            10,
            listing("offsets", at(timestamp)),
        )
    delete("all records", 2, "offsets", 0, -1)
    for timestamp, name in (*SPECIAL.items(), (0, "any")):
        differs = NO_LARGEST if timestamp == LARGEST else None
        request = listing("offsets", at(timestamp))
        transcript.request(
            f"after deleting all records: {name}", "ListOffsets", 10, request, differs=differs
        )
    topics = [{"name": "offsets", "partitions": []}]
    request = {"topics": topics, "timeout_ms": 10_000}
    transcript.request("no partitions", "DeleteRecords", 2, request, differs=NAMED)
    transcript.request("no topics", "DeleteRecords", 2, {"topics": [], "timeout_ms": 10_000})
