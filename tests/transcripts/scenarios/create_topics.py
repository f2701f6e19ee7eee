"""CreateTopics, with every kind of invalid request."""

from typing import Any

from transcripts.transcript import Transcript


def topic(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}


def assigned(*replicas: list[int], first: int = 0) -> list[dict[str, Any]]:
    return [
        {"partition_index": index, "broker_ids": ids} for index, ids in enumerate(replicas, first)
    ]


def config(**values: str | None) -> list[dict[str, Any]]:
    return [{"name": key.replace("_", "."), "value": value} for key, value in values.items()]


def without_configs(answer: dict[str, Any]) -> dict[str, Any]:
    """Replace the list of configs by its length."""
    for each in answer["topics"]:
        if each.get("configs"):
            each["configs"] = f"<{len(each['configs'])} configs>"
    return answer


def run(transcript: Transcript) -> None:
    for version in range(2, 8):
        wanted = {"topics": [topic(f"topics-v{version}", 2)]}
        transcript.request("a topic", "CreateTopics", version, wanted, keep=without_configs)
    transcript.request(
        "a topic with configs",
        "CreateTopics",
        7,
        {
            "topics": [
                topic("topics-configs", configs=config(retention_ms="1", segment_bytes="2000000"))
            ]
        },
    )
    create(transcript, "validate only", 7, topic("topics-validated", 3), validate_only=True)
    create(
        transcript,
        "a topic that was only validated can be created",
        7,
        topic("topics-validated", 3),
    )
    create(transcript, "an existing topic", 7, topic("topics-validated"))
    create(transcript, "an existing topic, old version", 2, topic("topics-validated"))
    create(
        transcript,
        "validate only, an existing topic",
        7,
        topic("topics-validated"),
        validate_only=True,
    )
    for version in (4, 7):
        create(
            transcript,
            "default partition count and replication factor",
            version,
            topic(f"topics-defaults-{version}", -1, -1),
        )
    create(transcript, "no topics", 7)
    names(transcript)
    numbers(transcript)
    assignments(transcript)
    configs(transcript)
    several(transcript)


def create(
    transcript: Transcript, title: str, version: int, *topics: Any, validate_only: bool = False
) -> None:
    fields = {"topics": list(topics), "validate_only": validate_only}
    transcript.request(title, "CreateTopics", version, fields, keep=without_configs)


def names(transcript: Transcript) -> None:
    for name in ("", ".", "..", "with space", "with/slash", "ünï", "x" * 249, "x" * 250, "nul\0"):
        title = f"the name {name if len(name) < 20 else f'x times {len(name)}'!r}"
        create(transcript, title, 7, topic(name), validate_only=True)
    create(transcript, "a name with dots", 7, topic("topics.with.dots"))
    create(transcript, "a name with underscores that collides", 7, topic("topics_with_dots"))
    create(
        transcript,
        "a name with dots and underscores that collides",
        7,
        topic("topics.with_dots"),
        validate_only=True,
    )


def numbers(transcript: Transcript) -> None:
    for partitions in (0, -2, 10_001):
        create(
            transcript,
            f"{partitions} partitions",
            7,
            topic("topics-n", partitions),
            validate_only=True,
        )
    for replicas in (0, -2, 2, 32_767):
        create(
            transcript,
            f"{replicas} replicas",
            7,
            topic("topics-n", 1, replicas),
            validate_only=True,
        )
    create(transcript, "no partitions, old version", 3, topic("topics-n", 0))


def assignments(transcript: Transcript) -> None:
    cases = {
        "an explicit assignment": assigned([1], [1]),
        "assigned to an unknown broker": assigned([9]),
        "assigned to a negative broker id": assigned([-1]),
        "assigned to no broker": assigned([]),
        "assigned to the same broker twice": assigned([1, 1]),
        "partition indexes that do not start at zero": assigned([1], first=1),
        "partitions with a gap": assigned([1]) + assigned([1], first=2),
        "the same partition twice": assigned([1]) + assigned([1]),
        "different replica counts": assigned([1], [1, 1]),
    }
    for number, (title, wanted) in enumerate(cases.items()):
        create(transcript, title, 7, topic(f"topics-a{number}", -1, -1, assignments=wanted))
    by_hand = assigned([1])
    create(
        transcript,
        "an assignment and a partition count",
        7,
        topic("topics-h", 1, -1, assignments=by_hand),
    )
    create(
        transcript,
        "an assignment and a replication factor",
        7,
        topic("topics-h", -1, 1, assignments=by_hand),
    )
    create(
        transcript,
        "an assignment, a partition count and a replication factor",
        7,
        topic("topics-h", 1, 1, assignments=by_hand),
    )


def configs(transcript: Transcript) -> None:
    cases = {
        "an unknown config": config(no_such_config="1"),
        "a config without a name": [{"name": "", "value": "1"}],
        "a config without a value": config(retention_ms=None),
        "a config with an empty value": config(retention_ms=""),
        "text for a number": config(retention_ms="soon"),
        "a number out of range": config(max_message_bytes="-1"),
        "a fraction for an integer": config(retention_ms="1.5"),
        "spaces around a number": config(retention_ms=" 1000 "),
        "an invalid boolean": config(preallocate="maybe"),
        "a boolean in capitals": config(preallocate="TRUE"),
        "an unknown cleanup policy": config(cleanup_policy="burn"),
        "two cleanup policies": config(cleanup_policy="compact,delete"),
        "an empty cleanup policy": config(cleanup_policy=""),
        "an unknown compression type": config(compression_type="rar"),
        "a ratio above one": config(min_cleanable_dirty_ratio="1.5"),
        "a broker config": config(log_retention_ms="1"),
        "the same config twice": config(retention_ms="1") + config(retention_ms="2"),
        "a segment size below the minimum": config(segment_bytes="13"),
        "an unknown timestamp type": config(message_timestamp_type="Never"),
        "min.insync.replicas above the replication factor": config(min_insync_replicas="2"),
        "min.insync.replicas below one": config(min_insync_replicas="0"),
    }
    for number, (title, wanted) in enumerate(cases.items()):
        create(transcript, title, 7, topic(f"topics-c{number}", configs=wanted), validate_only=True)


def several(transcript: Transcript) -> None:
    create(transcript, "two topics", 7, topic("topics-s1"), topic("topics-s2", 2))
    create(transcript, "a valid and an invalid topic", 7, topic("topics-s3"), topic("not a name!"))
    create(transcript, "the same topic twice", 7, topic("topics-s4"), topic("topics-s4"))
    create(
        transcript,
        "the same topic twice, and another one",
        7,
        topic("topics-s5"),
        topic("topics-s5"),
        topic("topics-s6"),
    )
    create(
        transcript,
        "which of them were created",
        7,
        topic("topics-s4"),
        topic("topics-s6"),
        validate_only=True,
    )
