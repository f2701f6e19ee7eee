"""Fetch without sessions: partitions, offsets, sizes, leader epochs and versions."""

from typing import Any

from sawlog.protocol.records import Record, build_batch
from transcripts.scenarios.produce_requests import batch, produce
from transcripts.transcript import Transcript

UNKNOWN_ID = bytes(range(16))
BY_NAME = 12
NEWEST = 18
PLENTY = 1 << 20
HUGE = 1 << 62


def partition(offset: int = 0, index: int = 0, *, size: int = PLENTY, **more: Any) -> Any:
    return {
        "partition": index,
        "fetch_offset": offset,
        "partition_max_bytes": size,
        **more,
    }


def fetch(topic: str | bytes, *partitions: Any, **more: Any) -> dict[str, Any]:
    key = "topic_id" if isinstance(topic, bytes) else "topic"
    topics = [{key: topic, "partitions": list(partitions) or [partition()]}]
    return {"max_wait_ms": 0, "min_bytes": 0, "topics": topics, **more}


def run(transcript: Transcript) -> None:
    topic_id = transcript.create_topic("fetching", 3)
    for records in (batch("a", "b"), batch("c", codec=3), batch("d", "e", "f", codec=1)):
        transcript.request_unrecorded("Produce", 9, produce("fetching", records))
    for version in range(4, BY_NAME + 1):
        transcript.request("from the beginning", "Fetch", version, fetch("fetching"))
    for version in range(BY_NAME + 1, NEWEST + 1):
        transcript.request("from the beginning, by id", "Fetch", version, fetch(topic_id))
    for offset in (1, 3, 4, 5, 6):
        transcript.request(
            f"from offset {offset}", "Fetch", 11, fetch("fetching", partition(offset))
        )
    for offset in (7, -1, -2, HUGE, -HUGE):
        for version in (4, 11, 12):
            request = fetch("fetching", partition(offset))
            transcript.request(f"from offset {offset}, out of range", "Fetch", version, request)
    partitions(transcript, topic_id)
    sizes(transcript)
    epochs(transcript, topic_id)
    replicas(transcript, topic_id)
    after_delete_records(transcript)


def partitions(transcript: Transcript, topic_id: bytes) -> None:
    transcript.request("no topics", "Fetch", 11, {"max_wait_ms": 0, "topics": []})
    for version in (4, 11, 12):
        transcript.request("an unknown topic", "Fetch", version, fetch("fetching-none"))
        unknown = fetch("fetching", partition(index=9))
        transcript.request("an unknown partition", "Fetch", version, unknown)
    transcript.request("a negative partition", "Fetch", 11, fetch("fetching", partition(index=-1)))
    for version in (13, NEWEST):
        transcript.request("an unknown id", "Fetch", version, fetch(UNKNOWN_ID))
        transcript.request("the zero id", "Fetch", version, fetch(bytes(16)))
        unknown = fetch(topic_id, partition(index=9))
        transcript.request("an unknown partition, by id", "Fetch", version, unknown)
    both = fetch("fetching", partition(4), partition(index=1))
    transcript.request("two partitions", "Fetch", 11, both)
    mixed = fetch("fetching", partition(4), partition(index=9))
    transcript.request("a known and an unknown partition", "Fetch", 11, mixed)
    twice = fetch("fetching", partition(0), partition(4))
    transcript.request("the same partition twice", "Fetch", 11, twice)
    request = fetch("fetching", partition(3), isolation_level=1)
    transcript.request("read_committed", "Fetch", 11, request)
    transcript.request("with a rack id", "Fetch", 11, fetch("fetching", partition(4), rack_id="r1"))
    transcript.request(
        "with the id of another cluster", "Fetch", 12, fetch("fetching", cluster_id="elsewhere")
    )


def sizes(transcript: Transcript) -> None:
    transcript.create_topic("fetching-sizes", 2)
    large = bytes(build_batch([Record(0, 1_000, None, b"x" * 1_000)]))
    for index in (0, 1):
        for _ in range(3):
            transcript.request_unrecorded("Produce", 9, produce("fetching-sizes", large, index))
    for size in (0, 1, len(large) - 1, len(large), len(large) + 1, 2 * len(large)):
        request = fetch("fetching-sizes", partition(size=size))
        transcript.request(f"{size} bytes of the partition", "Fetch", 11, request)
    for size in (0, 1, len(large), len(large) + 500, 4 * len(large)):
        both = fetch("fetching-sizes", partition(), partition(index=1), max_bytes=size)
        transcript.request(f"{size} bytes in total", "Fetch", 11, both)
    both = fetch("fetching-sizes", partition(size=1), partition(index=1, size=1))
    transcript.request("one byte of each partition", "Fetch", 11, both)
    request = fetch("fetching-sizes", partition(3), min_bytes=1, max_wait_ms=1)
    transcript.request("no records before the maximum wait", "Fetch", 11, request)
    request = fetch("fetching-sizes", partition(3), min_bytes=-1, max_wait_ms=-1)
    transcript.request("negative maximum wait and minimum size", "Fetch", 11, request)
    request = fetch("fetching-sizes", partition(9), partition(index=1), max_wait_ms=20_000)
    request["min_bytes"] = PLENTY
    transcript.request("an error is returned without waiting", "Fetch", 11, request)


def epochs(transcript: Transcript, topic_id: bytes) -> None:
    for epoch in (0, 1, 99, -2):
        request = fetch("fetching", partition(4, current_leader_epoch=epoch))
        transcript.request(f"with leader epoch {epoch}", "Fetch", 11, request)
        request = fetch(topic_id, partition(4, current_leader_epoch=epoch))
        transcript.request(f"with leader epoch {epoch}, by id", "Fetch", 16, request)
    for epoch in (0, 1, 99):
        request = fetch("fetching", partition(4, last_fetched_epoch=epoch))
        transcript.request(f"with last fetched epoch {epoch}", "Fetch", 12, request)
    request = fetch("fetching", partition(6, last_fetched_epoch=0, current_leader_epoch=0))
    transcript.request("at the end of the epoch", "Fetch", 12, request)


def replicas(transcript: Transcript, topic_id: bytes) -> None:
    for replica in (1, 9, -2):
        request = fetch("fetching", partition(4), replica_id=replica)
        transcript.request(f"as replica {replica}", "Fetch", 11, request)
    state = {"replica_id": 9, "replica_epoch": 5}
    transcript.request(
        "as replica 9", "Fetch", 17, fetch(topic_id, partition(4), replica_state=state)
    )


def after_delete_records(transcript: Transcript) -> None:
    transcript.create_topic("fetching-deleted")
    for value in "abcd":
        transcript.request_unrecorded("Produce", 9, produce("fetching-deleted", batch(value)))
    up_to = [{"partition_index": 0, "offset": 2}]
    topics = [{"name": "fetching-deleted", "partitions": up_to}]
    transcript.request(
        "up to offset 2", "DeleteRecords", 2, {"topics": topics, "timeout_ms": 10_000}
    )
    for offset in (0, 1, 2, 3):
        request = fetch("fetching-deleted", partition(offset))
        transcript.request(f"after DeleteRecords, from offset {offset}", "Fetch", 11, request)
