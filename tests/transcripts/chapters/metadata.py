"""Metadata: names, ids, all, none, and topics that the question creates."""

from typing import Any

from transcripts.dialogue import KAFKA_FAILS, Dialogue, Differs

UNKNOWN_ID = bytes(range(16))
PREFIX = "metadata-"
VERSIONS = range(14)


def ours(answer: dict[str, Any]) -> dict[str, Any]:
    """Other topics of the broker are none of this chapter's."""
    kept = [each for each in answer["topics"] if (each["name"] or "").startswith(PREFIX)]
    return {**answer, "topics": kept}


def named(*names: str, create: bool = False, **more: Any) -> dict[str, Any]:
    return {
        "topics": [{"name": name} for name in names],
        "allow_auto_topic_creation": create,
        **more,
    }


def chapter(talk: Dialogue) -> None:
    one = talk.create("metadata-one")
    talk.create("metadata-three", 3)
    for version in VERSIONS:
        wanted = {"topics": [{"name": "metadata-one"}, {"name": "metadata-three"}]}
        talk.ask("two topics", "Metadata", version, wanted)
    talk.ask("all topics, as version 0 asks for them", "Metadata", 0, {"topics": []}, keep=ours)
    for version in (1, 9, 12, 13):
        talk.ask("all topics", "Metadata", version, {"topics": None}, keep=ours)
        talk.ask("no topics", "Metadata", version, {"topics": []})
    for version in (4, 8, 9, 12):
        talk.ask("an unknown topic", "Metadata", version, named("metadata-none"))
        talk.ask("a name that is none", "Metadata", version, named("not a name!", ""))
    talk.ask("the same topic twice", "Metadata", 9, named("metadata-one", "metadata-one"))
    talk.ask("a known topic and an unknown one", "Metadata", 9, named("metadata-one", "m-none"))
    everything = {"include_topic_authorized_operations": True}
    talk.ask("with what one may do", "Metadata", 12, named("metadata-one", **everything))
    everything["include_cluster_authorized_operations"] = True
    talk.ask("with what one may do, everywhere", "Metadata", 8, named("metadata-one", **everything))
    by_id(talk, one)
    automatic(talk)


def by_id(talk: Dialogue, one: bytes) -> None:
    for version in (12, 13):
        talk.ask(
            "a topic by its id",
            "Metadata",
            version,
            {"topics": [{"name": None, "topic_id": one}], "allow_auto_topic_creation": False},
        )
        talk.ask(
            "an unknown id",
            "Metadata",
            version,
            {"topics": [{"name": None, "topic_id": UNKNOWN_ID}]},
        )
    talk.ask(
        "a known id and an unknown one",
        "Metadata",
        12,
        {"topics": [{"name": None, "topic_id": one}, {"name": None, "topic_id": UNKNOWN_ID}]},
    )
    nameless = Differs(KAFKA_FAILS, {"topics.0.error_code": "INVALID_REQUEST"})
    talk.ask("neither name nor id", "Metadata", 12, {"topics": [{"name": None}]}, differs=nameless)
    talk.ask(
        "an id in version 10, which does not look at it",
        "Metadata",
        10,
        {"topics": [{"name": None, "topic_id": one}]},
    )
    talk.ask(
        "an id beside a name in version 11",
        "Metadata",
        11,
        {"topics": [{"name": "metadata-one", "topic_id": one}]},
    )
    talk.ask(
        "a name and an id at once",
        "Metadata",
        12,
        {"topics": [{"name": "metadata-three", "topic_id": one}]},
    )
    talk.ask(
        "names and ids in one question",
        "Metadata",
        12,
        {"topics": [{"name": "metadata-three"}, {"name": None, "topic_id": one}]},
    )


def automatic(talk: Dialogue) -> None:
    for version in (1, 4, 12):
        name = f"metadata-created-{version}"
        talk.ask("a topic that the question creates", "Metadata", version, named(name, create=True))
        talk.wait_until_led(name)
        talk.ask("and there it is", "Metadata", version, named(name, create=True))
    talk.ask("a bad name is not created", "Metadata", 4, named("metadata bad", create=True))
