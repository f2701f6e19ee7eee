"""DeleteTopics and CreatePartitions."""

from typing import Any

from transcripts.script_client import KAFKA_FAILS
from transcripts.steps import Differs
from transcripts.transcript import Transcript

UNKNOWN_ID = bytes(range(16))
TIMEOUT_MS = 10_000


def named(*names: str) -> dict[str, Any]:
    return {"topic_names": list(names), "timeout_ms": TIMEOUT_MS}


def run(transcript: Transcript) -> None:
    for version in range(1, 6):
        name = f"deleting-v{version}"
        transcript.create_topic(name)
        transcript.request("a topic by name", "DeleteTopics", version, named(name))
        wait_until_gone(transcript, name)
        transcript.request("a deleted topic", "DeleteTopics", version, named(name))
    transcript.request("no topics", "DeleteTopics", 5, named())
    transcript.request("an invalid topic name", "DeleteTopics", 5, named("not a name!", ""))
    transcript.create_topic("deleting-twice")
    transcript.request(
        "the same topic twice", "DeleteTopics", 5, named("deleting-twice", "deleting-twice")
    )
    by_id(transcript)
    partitions(transcript)


def wait_until_gone(transcript: Transcript, name: str) -> None:
    request = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
    transcript.wait_until(
        lambda: transcript.request_unrecorded("Metadata", 9, request).topics[0].error_code != 0
    )


def by_id(transcript: Transcript) -> None:
    def delete(title: str, *topics: dict[str, Any]) -> None:
        transcript.request(
            title, "DeleteTopics", 6, {"topics": list(topics), "timeout_ms": TIMEOUT_MS}
        )

    first = transcript.create_topic("deleting-id")
    delete("a topic by its id", {"topic_id": first})
    wait_until_gone(transcript, "deleting-id")
    delete("the id of a deleted topic", {"topic_id": first})
    delete("an unknown id", {"topic_id": UNKNOWN_ID})
    delete("by neither name nor id", {})
    second = transcript.create_topic("deleting-both")
    delete("by name and id", {"name": "deleting-both", "topic_id": second})
    delete("by name, twice", {"name": "deleting-both"}, {"name": "deleting-both"})
    delete("the same topic by name and by id", {"name": "deleting-both"}, {"topic_id": second})
    delete("by id, twice", {"topic_id": second}, {"topic_id": second})
    delete("by name, in version 6", {"name": "deleting-both"})
    wait_until_gone(transcript, "deleting-both")
    delete("an unknown name", {"name": "deleting-both"})


def partitions(transcript: Transcript) -> None:
    def create(
        title: str,
        version: int,
        *topics: dict[str, Any],
        differs: Differs | None = None,
        **more: Any,
    ) -> None:
        fields = {"topics": list(topics), "timeout_ms": TIMEOUT_MS, **more}
        transcript.request(title, "CreatePartitions", version, fields, differs=differs)

    def topic(name: str, count: int, *replicas: list[int]) -> dict[str, Any]:
        assignments = [{"broker_ids": ids} for ids in replicas] or None
        return {"name": name, "count": count, "assignments": assignments}

    transcript.create_topic("deleting-parts", 2)
    for version in (0, 1, 2, 3):
        create("one more partition", version, topic("deleting-parts", 3 + version))
        transcript.wait_until_led("deleting-parts", 3 + version)
    create("the current partition count", 3, topic("deleting-parts", 6))
    create("a lower count", 3, topic("deleting-parts", 1))
    create("a count of zero", 3, topic("deleting-parts", 0))
    create("a negative count", 3, topic("deleting-parts", -1))
    refused = Differs(KAFKA_FAILS, {"results.0.error_code": "INVALID_PARTITIONS"})
    wanted = topic("deleting-parts", 20_000)
    create("more partitions than allowed", 3, wanted, validate_only=True, differs=refused)
    create("validate only", 3, topic("deleting-parts", 8), validate_only=True)
    create("an unknown topic", 3, topic("deleting-none", 3))
    create("an invalid topic name", 3, topic("not a name!", 3))
    create("no topics", 3)
    create("the same topic twice", 3, topic("deleting-parts", 7), topic("deleting-parts", 8))
    create("an explicit assignment", 3, topic("deleting-parts", 7, [1]))
    create("too few assignments", 3, topic("deleting-parts", 9, [1]))
    create("too many assignments", 3, topic("deleting-parts", 8, [1], [1]))
    create("an unknown broker", 3, topic("deleting-parts", 8, [9]))
    create("the same broker twice", 3, topic("deleting-parts", 8, [1, 1]))
    create("assigned to no broker", 3, topic("deleting-parts", 8, []))
    empty = {"name": "deleting-parts", "count": 8, "assignments": []}
    create("an empty list of assignments", 3, empty)
