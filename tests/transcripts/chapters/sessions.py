"""Fetch sessions (KIP-227): made, used, changed, closed, and wrong."""

from typing import Any

from transcripts.chapters.fetching import fetch, partition
from transcripts.chapters.requests import batch, produce
from transcripts.dialogue import Dialogue, Differs

UNKNOWN_ID = bytes(range(16))
CLOSE, FRESH = -1, 0
UNKNOWN_SESSION = 12_345
GONE = Differs(
    "Kafka's session remembers the name behind the id; Sawlog's knows the id alone",
    {"responses.0.partitions.0.error_code": "UNKNOWN_TOPIC_ID"},
)


def chapter(talk: Dialogue) -> None:
    topic_id = talk.create("sessions", 3)
    for index in (0, 1):
        talk.quietly("Produce", 9, produce("sessions", batch("a", "b"), index))
    session = life(talk, 11, "sessions")
    errors(talk, session)
    life(talk, 13, topic_id)
    changes(talk, topic_id)
    unresolved(talk)


def of_session(session: int, epoch: int, **more: Any) -> dict[str, Any]:
    fields = {"session_id": session, "session_epoch": epoch}
    return {"max_wait_ms": 0, "min_bytes": 0, "topics": [], **fields, **more}


def life(talk: Dialogue, version: int, topic: str | bytes) -> int:
    whole = fetch(topic, partition(), partition(index=1), partition(index=2))
    answer = talk.ask("a new session", "Fetch", version, {**whole, "session_epoch": FRESH})
    session: int = answer.session_id
    talk.ask("nothing new", "Fetch", version, of_session(session, 1))
    ahead = fetch(topic, partition(2), partition(2, index=1))
    ahead |= {"session_id": session, "session_epoch": 2}
    talk.ask("on from what was read", "Fetch", version, ahead)
    talk.ask("nothing more", "Fetch", version, of_session(session, 3))
    talk.quietly("Produce", 9, produce("sessions", batch("c"), 1))
    talk.ask("one record more, in one partition", "Fetch", version, of_session(session, 4))
    talk.ask("it is still there", "Fetch", version, of_session(session, 5))
    key = "topic_id" if isinstance(topic, bytes) else "topic"
    without = of_session(session, 6, forgotten_topics_data=[{key: topic, "partitions": [1]}])
    talk.ask("without that partition", "Fetch", version, without)
    talk.ask("it is forgotten", "Fetch", version, of_session(session, 7))
    again = fetch(topic, partition(2, index=1)) | {"session_id": session, "session_epoch": 8}
    talk.ask("with it again", "Fetch", version, again)
    return session


def errors(talk: Dialogue, session: int) -> None:
    talk.ask("an epoch that was", "Fetch", 11, of_session(session, 3))
    talk.ask("an epoch to come", "Fetch", 11, of_session(session, 99))
    talk.ask("an unknown session", "Fetch", 11, of_session(UNKNOWN_SESSION, 1))
    talk.ask("a session below zero", "Fetch", 11, of_session(-7, 1))
    talk.ask("an epoch without session", "Fetch", 11, of_session(0, 5))
    talk.ask("an epoch below closing", "Fetch", 11, of_session(session, -9))
    talk.ask("it is closed", "Fetch", 11, of_session(session, CLOSE))
    talk.ask("it is gone", "Fetch", 11, of_session(session, 9))
    talk.ask("it is closed again", "Fetch", 11, of_session(session, CLOSE))
    replacing = fetch("sessions", partition(1)) | {"session_epoch": FRESH}
    first = talk.ask("a session to replace", "Fetch", 11, replacing)
    replacing |= {"session_id": first.session_id}
    talk.ask("another in its place", "Fetch", 11, replacing)
    talk.ask("the first is gone", "Fetch", 11, of_session(first.session_id, 1))
    nothing = {"max_wait_ms": 0, "topics": [], "session_epoch": FRESH}
    talk.ask("a session of nothing", "Fetch", 11, nothing)
    broken = fetch("sessions", partition(77), partition(index=9)) | {"session_epoch": FRESH}
    bad = talk.ask("a session of errors", "Fetch", 11, broken)
    if bad is not None and bad.session_id:
        talk.ask("the errors stay", "Fetch", 11, of_session(bad.session_id, 1))
    one_off = fetch("sessions", partition(1)) | {"session_epoch": CLOSE}
    talk.ask("no session wanted", "Fetch", 11, one_off)


def changes(talk: Dialogue, topic_id: bytes) -> None:
    whole = fetch(topic_id, partition(2)) | {"session_epoch": FRESH}
    session = talk.ask("a session with one partition", "Fetch", 15, whole).session_id
    more = fetch(topic_id, partition(index=1)) | {"session_id": session, "session_epoch": 1}
    talk.ask("another joins", "Fetch", 15, more)
    by_name = fetch("sessions", partition(2)) | {"session_id": session, "session_epoch": 2}
    talk.ask("ids and names in one session", "Fetch", 12, by_name)


def unresolved(talk: Dialogue) -> None:
    unknown = fetch(UNKNOWN_ID) | {"session_epoch": FRESH}
    answer = talk.ask("a session with an unknown id", "Fetch", 13, unknown)
    if answer is not None and answer.session_id:
        talk.ask("still unknown", "Fetch", 13, of_session(answer.session_id, 1))
    topic_id = talk.create("sessions-gone")
    talk.quietly("Produce", 9, produce("sessions-gone", batch("a")))
    whole = fetch(topic_id, partition(1)) | {"session_epoch": FRESH}
    session = talk.ask("a session with a topic", "Fetch", 13, whole).session_id
    gone = {"topic_names": ["sessions-gone"], "timeout_ms": 10_000}
    talk.quietly("DeleteTopics", 5, gone)
    request = {"topics": [{"name": "sessions-gone"}], "allow_auto_topic_creation": False}
    talk.wait(lambda: talk.quietly("Metadata", 9, request).topics[0].error_code != 0)
    talk.ask("the topic is gone", "Fetch", 13, of_session(session, 1), differs=GONE)
