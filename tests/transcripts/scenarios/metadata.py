"""Metadata: by name and by id, all and no topics, and auto-creation."""

from typing import Any

from transcripts.script_client import KAFKA_FAILS
from transcripts.steps import Differs
from transcripts.transcript import Transcript

UNKNOWN_ID = bytes(range(16))
PREFIX = "metadata-"
VERSIONS = range(14)


def of_this_scenario(answer: dict[str, Any]) -> dict[str, Any]:
    """Keep the topics of this scenario."""
    kept = [each for each in answer["topics"] if (each["name"] or "").startswith(PREFIX)]
    return {**answer, "topics": kept}


def named(*names: str, create: bool = False, **more: Any) -> dict[str, Any]:
    return {
        "topics": [{"name": name} for name in names],
        "allow_auto_topic_creation": create,
        **more,
    }


def run(transcript: Transcript) -> None:
    one = transcript.create_topic("metadata-one")
    transcript.create_topic("metadata-three", 3)
    for version in VERSIONS:
        wanted = {"topics": [{"name": "metadata-one"}, {"name": "metadata-three"}]}
        transcript.request("two topics", "Metadata", version, wanted)
    transcript.request(
        "all topics, version 0", "Metadata", 0, {"topics": []}, keep=of_this_scenario
    )
    for version in (1, 9, 12, 13):
        transcript.request(
            "all topics", "Metadata", version, {"topics": None}, keep=of_this_scenario
        )
        transcript.request("no topics", "Metadata", version, {"topics": []})
    for version in (4, 8, 9, 12):
        transcript.request("an unknown topic", "Metadata", version, named("metadata-none"))
        transcript.request("an invalid topic name", "Metadata", version, named("not a name!", ""))
    transcript.request("the same topic twice", "Metadata", 9, named("metadata-one", "metadata-one"))
    transcript.request(
        "a known topic and an unknown one", "Metadata", 9, named("metadata-one", "m-none")
    )
    everything = {"include_topic_authorized_operations": True}
    transcript.request(
        "with authorized operations", "Metadata", 12, named("metadata-one", **everything)
    )
    everything["include_cluster_authorized_operations"] = True
    transcript.request(
        "with authorized operations of topic and cluster",
        "Metadata",
        8,
        named("metadata-one", **everything),
    )
    by_id(transcript, one)
    auto_creation(transcript)


def by_id(transcript: Transcript, one: bytes) -> None:
    for version in (12, 13):
        transcript.request(
            "a topic by its id",
            "Metadata",
            version,
            {"topics": [{"name": None, "topic_id": one}], "allow_auto_topic_creation": False},
        )
        transcript.request(
            "an unknown id",
            "Metadata",
            version,
            {"topics": [{"name": None, "topic_id": UNKNOWN_ID}]},
        )
    transcript.request(
        "a known id and an unknown one",
        "Metadata",
        12,
        {"topics": [{"name": None, "topic_id": one}, {"name": None, "topic_id": UNKNOWN_ID}]},
    )
    nameless = Differs(KAFKA_FAILS, {"topics.0.error_code": "INVALID_REQUEST"})
    transcript.request(
        "neither name nor id", "Metadata", 12, {"topics": [{"name": None}]}, differs=nameless
    )
    transcript.request(
        "an id in version 10, which is ignored",
        "Metadata",
        10,
        {"topics": [{"name": None, "topic_id": one}]},
    )
    transcript.request(
        "an id beside a name in version 11",
        "Metadata",
        11,
        {"topics": [{"name": "metadata-one", "topic_id": one}]},
    )
    transcript.request(
        "a name and the id of another topic",
        "Metadata",
        12,
        {"topics": [{"name": "metadata-three", "topic_id": one}]},
    )
    transcript.request(
        "names and ids in one request",
        "Metadata",
        12,
        {"topics": [{"name": "metadata-three"}, {"name": None, "topic_id": one}]},
    )


def auto_creation(transcript: Transcript) -> None:
    for version in (1, 4, 12):
        name = f"metadata-created-{version}"
        transcript.request(
            "auto-creation of a topic", "Metadata", version, named(name, create=True)
        )
        transcript.wait_until_led(name)
        transcript.request("the created topic", "Metadata", version, named(name, create=True))
    transcript.request(
        "no auto-creation of an invalid name", "Metadata", 4, named("metadata bad", create=True)
    )
