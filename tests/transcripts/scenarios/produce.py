"""Produce: valid batches in every version, partitions, sizes, timestamps and cleanup policies."""

from typing import Any

from transcripts.scenarios.produce_requests import batch, data, produce, without_error_start_offsets
from transcripts.steps import Differs
from transcripts.transcript import Transcript

UNKNOWN_ID = bytes(range(16))
TIMEOUT_MS = 10_000
NEWEST = 13
BY_NAME = 12
AHEAD_MS = 4_000_000_000_000


def appended(index: int, offset: int) -> dict[str, Any]:
    return {
        "index": index,
        "error_code": "NONE",
        "base_offset": offset,
        "log_append_time_ms": -1,
        "log_start_offset": 0,
        "record_errors": [],
        "error_message": None,
    }


SAME_TOPIC = Differs(
    "Kafka merges the two topics; Sawlog answers in the form of the request",
    {
        "responses": [
            {"name": "producing-several", "partition_responses": [appended(0, 2)]},
            {"name": "producing-several", "partition_responses": [appended(1, 1)]},
        ]
    },
)
SAME_PARTITION = Differs(
    "Kafka appends only the last of the two; Sawlog appends both",
    {"responses.0.partition_responses": [appended(0, 0), appended(0, 1)]},
)


def ask(
    transcript: Transcript, title: str, version: int, request: dict, differs: Differs | None = None
) -> None:
    keep = without_error_start_offsets
    transcript.request(title, "Produce", version, request, keep=keep, differs=differs)


def run(transcript: Transcript) -> None:
    topic_id = transcript.create_topic("producing", 2)
    for version in range(3, NEWEST):
        ask(transcript, "two records", version, produce("producing", batch("a", "b")))
    ask(transcript, "two records, by id", NEWEST, produce(topic_id, batch("a", "b")))
    for acks in (1, 2, -2, 100):
        ask(transcript, f"acks={acks}", BY_NAME, produce("producing", batch("a"), acks=acks))
    partitions(transcript, topic_id)
    several(transcript)
    codecs(transcript)
    sizes(transcript)
    timestamps(transcript)
    policies(transcript)
    acks_0(transcript)


def partitions(transcript: Transcript, topic_id: bytes) -> None:
    ask(transcript, "no topics", BY_NAME, {"acks": -1, "topic_data": []})
    nameless = Differs(
        "Sawlog includes a topic without partitions",
        {"responses": [{"name": "producing", "partition_responses": []}]},
    )
    nothing = {"acks": -1, "topic_data": [data("producing")]}
    ask(transcript, "no partitions", BY_NAME, nothing, nameless)
    for version in (3, 9, BY_NAME):
        ask(transcript, "an unknown topic", version, produce("producing-none", batch("a")))
        ask(transcript, "an unknown partition", version, produce("producing", batch("a"), 9))
    ask(transcript, "a negative partition", 9, produce("producing", batch("a"), -1))
    ask(transcript, "an invalid topic name", 9, produce("not a name!", batch("a")))
    ask(transcript, "an unknown id", NEWEST, produce(UNKNOWN_ID, batch("a")))
    ask(transcript, "the zero id", NEWEST, produce(bytes(16), batch("a")))
    ask(transcript, "an unknown partition, by id", NEWEST, produce(topic_id, batch("a"), 9))


def several(transcript: Transcript) -> None:
    def request(*topics: dict) -> dict:
        return {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": list(topics)}

    transcript.create_topic("producing-several", 2)
    both = request(data("producing-several", (0, batch("a")), (1, batch("b"))))
    ask(transcript, "two partitions", 9, both)
    mixed = request(data("producing-several", (0, batch("a")), (7, batch("b"))))
    ask(transcript, "a known and an unknown partition", 9, mixed)
    twice = (data("producing-several", (index, batch("a"))) for index in (0, 1))
    ask(transcript, "the same topic twice", 9, request(*twice), SAME_TOPIC)
    transcript.create_topic("producing-same")
    same = request(data("producing-same", (0, batch("a")), (0, batch("b"))))
    ask(transcript, "the same partition twice", 9, same, SAME_PARTITION)


def codecs(transcript: Transcript) -> None:
    transcript.create_topic("producing-codecs")
    for codec in range(1, 5):
        records = batch("squeezed", "twice", codec=codec)
        ask(transcript, f"codec {codec}", 9, produce("producing-codecs", records))
    for version in (3, 6, 7):
        ask(transcript, "zstd", version, produce("producing-codecs", batch("squeezed", codec=4)))


def sizes(transcript: Transcript) -> None:
    transcript.create_topic("producing-small", max_message_bytes="200")
    for records in (batch("x" * 130), batch("x" * 131), batch("x" * 5_000)):
        ask(transcript, f"{len(records)} bytes, limit 200", 9, produce("producing-small", records))
    squeezed = batch("x" * 5_000, codec=1)
    ask(
        transcript,
        "5000 bytes, compressed below the limit",
        9,
        produce("producing-small", squeezed),
    )


def timestamps(transcript: Transcript) -> None:
    transcript.create_topic("producing-append", message_timestamp_type="LogAppendTime")
    for version in (3, 9):
        request = produce("producing-append", batch("a", "b"))
        ask(transcript, "LogAppendTime", version, request)
    bounds = {"message_timestamp_before_max_ms": "1000", "message_timestamp_after_max_ms": "1000"}
    transcript.create_topic("producing-timed", **bounds)
    early = produce("producing-timed", batch("a", at=1_000))
    ask(transcript, "a timestamp before the limit", 9, early)
    ask(transcript, "a timestamp before the limit, old version", 3, early)
    late = produce("producing-timed", batch("a", at=AHEAD_MS))
    ask(transcript, "a timestamp after the limit", 9, late)
    transcript.create_topic("producing-untimed")
    ahead = produce("producing-untimed", batch("a", at=AHEAD_MS))
    ask(transcript, "a timestamp after the default limit", 9, ahead)
    ask(transcript, "no timestamp", 9, produce("producing-untimed", batch("a", at=-1)))


def policies(transcript: Transcript) -> None:
    transcript.create_topic("producing-compacted", cleanup_policy="compact")
    without = produce("producing-compacted", batch("a"))
    ask(transcript, "no key in a compacted topic", 9, without)
    ask(transcript, "no key in a compacted topic, old version", 3, without)
    keyed = produce("producing-compacted", batch("a", key=b"k"))
    ask(transcript, "a key in a compacted topic", 9, keyed)
    transcript.create_topic("producing-safe", min_insync_replicas="2")
    strict = Differs(
        "Kafka lowers min.insync.replicas to the replication factor; Sawlog does not",
        {
            "responses.0.partition_responses.0.error_code": "NOT_ENOUGH_REPLICAS",
            "responses.0.partition_responses.0.error_message": "<words>",
            "responses.0.partition_responses.0.base_offset": -1,
            "responses.0.partition_responses.0.log_start_offset": "<any>",
        },
    )
    request = produce("producing-safe", batch("a"))
    ask(transcript, "acks=all with one of two required in-sync replicas", 9, request, strict)


def acks_0(transcript: Transcript) -> None:
    """acks=0 has no response; the next request shows whether the connection is still open."""
    for title, topic in (("a topic", "producing"), ("an unknown topic", "producing-none")):
        transcript.send_without_response(
            f"acks=0, {title}", "Produce", 9, produce(topic, batch("z"), acks=0)
        )
        transcript.request(f"the next request after acks=0, {title}", "Metadata", 4, {"topics": []})
