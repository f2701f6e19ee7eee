"""Fetch sessions (KIP-227): created, used, changed, closed, and invalid."""

from typing import Any

from transcripts.scenarios.fetch import fetch, partition
from transcripts.scenarios.produce_requests import batch, produce
from transcripts.steps import Differs
from transcripts.transcript import Transcript

UNKNOWN_ID = bytes(range(16))
CLOSE, FRESH = -1, 0
UNKNOWN_SESSION = 12_345
GONE = Differs(
    "Kafka's session remembers the topic name of the id; Sawlog's keeps the id only",
    {"responses.0.partitions.0.error_code": "UNKNOWN_TOPIC_ID"},
)


def run(transcript: Transcript) -> None:
    topic_id = transcript.create_topic("sessions", 3)
    for index in (0, 1):
        transcript.request_unrecorded("Produce", 9, produce("sessions", batch("a", "b"), index))
    session = use_session(transcript, 11, "sessions")
    errors(transcript, session)
    use_session(transcript, 13, topic_id)
    changes(transcript, topic_id)
    unresolved(transcript)


def of_session(session: int, epoch: int, **more: Any) -> dict[str, Any]:
    fields = {"session_id": session, "session_epoch": epoch}
    return {"max_wait_ms": 0, "min_bytes": 0, "topics": [], **fields, **more}


def use_session(transcript: Transcript, version: int, topic: str | bytes) -> int:
    whole = fetch(topic, partition(), partition(index=1), partition(index=2))
    answer = transcript.request(
        "a new session", "Fetch", version, {**whole, "session_epoch": FRESH}
    )
    session: int = answer.session_id
    transcript.request(
        "the same records at the same positions", "Fetch", version, of_session(session, 1)
    )
    ahead = fetch(topic, partition(2), partition(2, index=1))
    ahead |= {"session_id": session, "session_epoch": 2}
    transcript.request("positions move to the log end", "Fetch", version, ahead)
    transcript.request("no records at the new positions", "Fetch", version, of_session(session, 3))
    transcript.request_unrecorded("Produce", 9, produce("sessions", batch("c"), 1))
    transcript.request("a new record in one partition", "Fetch", version, of_session(session, 4))
    transcript.request(
        "the record is returned until the position moves", "Fetch", version, of_session(session, 5)
    )
    key = "topic_id" if isinstance(topic, bytes) else "topic"
    without = of_session(session, 6, forgotten_topics_data=[{key: topic, "partitions": [1]}])
    transcript.request("a partition is removed", "Fetch", version, without)
    transcript.request(
        "the removed partition has no news", "Fetch", version, of_session(session, 7)
    )
    again = fetch(topic, partition(2, index=1)) | {"session_id": session, "session_epoch": 8}
    transcript.request("the partition is added again", "Fetch", version, again)
    return session


def errors(transcript: Transcript, session: int) -> None:
    transcript.request("a previous epoch", "Fetch", 11, of_session(session, 3))
    transcript.request("a future epoch", "Fetch", 11, of_session(session, 99))
    transcript.request("an unknown session", "Fetch", 11, of_session(UNKNOWN_SESSION, 1))
    transcript.request("a negative session id", "Fetch", 11, of_session(-7, 1))
    transcript.request("an epoch without a session", "Fetch", 11, of_session(0, 5))
    transcript.request("an epoch below -1", "Fetch", 11, of_session(session, -9))
    transcript.request("the session is closed", "Fetch", 11, of_session(session, CLOSE))
    transcript.request("the closed session is unknown", "Fetch", 11, of_session(session, 9))
    transcript.request("the session is closed again", "Fetch", 11, of_session(session, CLOSE))
    replacing = fetch("sessions", partition(1)) | {"session_epoch": FRESH}
    first = transcript.request("a session to replace", "Fetch", 11, replacing)
    replacing |= {"session_id": first.session_id}
    transcript.request("a new session replaces it", "Fetch", 11, replacing)
    transcript.request(
        "the replaced session is unknown", "Fetch", 11, of_session(first.session_id, 1)
    )
    nothing = {"max_wait_ms": 0, "topics": [], "session_epoch": FRESH}
    transcript.request("a session without partitions", "Fetch", 11, nothing)
    broken = fetch("sessions", partition(77), partition(index=9)) | {"session_epoch": FRESH}
    bad = transcript.request("a session with unknown partitions", "Fetch", 11, broken)
    if bad is not None and bad.session_id:
        transcript.request("errors are returned again", "Fetch", 11, of_session(bad.session_id, 1))
    one_off = fetch("sessions", partition(1)) | {"session_epoch": CLOSE}
    transcript.request("a fetch without a session", "Fetch", 11, one_off)


def changes(transcript: Transcript, topic_id: bytes) -> None:
    whole = fetch(topic_id, partition(2)) | {"session_epoch": FRESH}
    session = transcript.request("a session with one partition", "Fetch", 15, whole).session_id
    more = fetch(topic_id, partition(index=1)) | {"session_id": session, "session_epoch": 1}
    transcript.request("another partition is added", "Fetch", 15, more)
    by_name = fetch("sessions", partition(2)) | {"session_id": session, "session_epoch": 2}
    transcript.request("a session of ids used with names", "Fetch", 12, by_name)


def unresolved(transcript: Transcript) -> None:
    unknown = fetch(UNKNOWN_ID) | {"session_epoch": FRESH}
    answer = transcript.request("a session with an unknown id", "Fetch", 13, unknown)
    if answer is not None and answer.session_id:
        transcript.request("still unknown", "Fetch", 13, of_session(answer.session_id, 1))
    topic_id = transcript.create_topic("sessions-gone")
    transcript.request_unrecorded("Produce", 9, produce("sessions-gone", batch("a")))
    whole = fetch(topic_id, partition(1)) | {"session_epoch": FRESH}
    session = transcript.request("a session with a topic", "Fetch", 13, whole).session_id
    gone = {"topic_names": ["sessions-gone"], "timeout_ms": 10_000}
    transcript.request_unrecorded("DeleteTopics", 5, gone)
    request = {"topics": [{"name": "sessions-gone"}], "allow_auto_topic_creation": False}
    transcript.wait_until(
        lambda: transcript.request_unrecorded("Metadata", 9, request).topics[0].error_code != 0
    )
    transcript.request("the topic was deleted", "Fetch", 13, of_session(session, 1), differs=GONE)
