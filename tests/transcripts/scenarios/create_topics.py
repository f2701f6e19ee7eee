"""CreateTopics, with every mistake that one can make."""

from typing import Any

from transcripts.transcript import Transcript

CLUSTER_SIZE = 1


def topic(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}


def assigned(*replicas: list[int], first: int = 0) -> list[dict[str, Any]]:
    return [
        {"partition_index": index, "broker_ids": ids} for index, ids in enumerate(replicas, first)
    ]


def config(**values: str | None) -> list[dict[str, Any]]:
    return [{"name": key.replace("_", "."), "value": value} for key, value in values.items()]


def without_configs(answer: dict[str, Any]) -> dict[str, Any]:
    """The list of all configs is kept where a step is about it."""
    for each in answer["topics"]:
        if each.get("configs"):
            each["configs"] = f"<{len(each['configs'])} configs>"
    return answer


def run(transcript: Transcript) -> None:
    for version in range(2, 8):
        wanted = {"topics": [topic(f"topics-v{version}", 2)]}
        transcript.request("a topic", "CreateTopics", version, wanted, keep=without_configs)
    transcript.request(
        "a topic with configs of its own",
        "CreateTopics",
        7,
        {
            "topics": [
                topic("topics-configs", configs=config(retention_ms="1", segment_bytes="2000000"))
            ]
        },
    )
    create(transcript, "only validated", 7, topic("topics-validated", 3), validate_only=True)
    create(transcript, "it was not created, so it can be", 7, topic("topics-validated", 3))
    create(transcript, "it is there already", 7, topic("topics-validated"))
    create(transcript, "it is there already, in an old version", 2, topic("topics-validated"))
    create(
        transcript, "validating one that is there", 7, topic("topics-validated"), validate_only=True
    )
    for version in (4, 7):
        create(transcript, "defaults", version, topic(f"topics-defaults-{version}", -1, -1))
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
    create(transcript, "dots", 7, topic("topics.with.dots"))
    create(transcript, "lines where there are dots", 7, topic("topics_with_dots"))
    create(transcript, "dots and lines", 7, topic("topics.with_dots"), validate_only=True)


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
    create(transcript, "no partitions in an old version", 3, topic("topics-n", 0))


def assignments(transcript: Transcript) -> None:
    cases = {
        "assigned by hand": assigned([1], [1]),
        "assigned to an unknown broker": assigned([9]),
        "assigned to a broker below zero": assigned([-1]),
        "assigned to nobody": assigned([]),
        "assigned twice to the same": assigned([1, 1]),
        "partitions that do not begin at zero": assigned([1], first=1),
        "partitions with a gap": assigned([1]) + assigned([1], first=2),
        "the same partition twice": assigned([1]) + assigned([1]),
        "replicas of different number": assigned([1], [1, 1]),
    }
    for number, (title, wanted) in enumerate(cases.items()):
        create(transcript, title, 7, topic(f"topics-a{number}", -1, -1, assignments=wanted))
    by_hand = assigned([1])
    create(transcript, "by hand, and a number", 7, topic("topics-h", 1, -1, assignments=by_hand))
    create(transcript, "by hand, and a factor", 7, topic("topics-h", -1, 1, assignments=by_hand))
    create(transcript, "by hand, and both", 7, topic("topics-h", 1, 1, assignments=by_hand))


def configs(transcript: Transcript) -> None:
    cases = {
        "an unknown config": config(no_such_config="1"),
        "a config without a name": [{"name": "", "value": "1"}],
        "a config without a value": config(retention_ms=None),
        "a config with an empty value": config(retention_ms=""),
        "a number that is none": config(retention_ms="soon"),
        "a number out of range": config(max_message_bytes="-1"),
        "a fraction": config(retention_ms="1.5"),
        "spaces around a number": config(retention_ms=" 1000 "),
        "a truth that is neither": config(preallocate="maybe"),
        "a truth in capitals": config(preallocate="TRUE"),
        "a policy that is none": config(cleanup_policy="burn"),
        "two policies": config(cleanup_policy="compact,delete"),
        "no policy": config(cleanup_policy=""),
        "a codec that is none": config(compression_type="rar"),
        "a ratio above one": config(min_cleanable_dirty_ratio="1.5"),
        "a config of the broker": config(log_retention_ms="1"),
        "the same config twice": config(retention_ms="1") + config(retention_ms="2"),
        "a segment too small": config(segment_bytes="13"),
        "a timestamp type that is none": config(message_timestamp_type="Never"),
        "more in sync than replicas": config(min_insync_replicas="2"),
        "fewer in sync than one": config(min_insync_replicas="0"),
    }
    for number, (title, wanted) in enumerate(cases.items()):
        create(transcript, title, 7, topic(f"topics-c{number}", configs=wanted), validate_only=True)


def several(transcript: Transcript) -> None:
    create(transcript, "two good ones", 7, topic("topics-s1"), topic("topics-s2", 2))
    create(transcript, "a good one and a bad one", 7, topic("topics-s3"), topic("not a name!"))
    create(transcript, "the same one twice", 7, topic("topics-s4"), topic("topics-s4"))
    create(
        transcript,
        "twice, and another",
        7,
        topic("topics-s5"),
        topic("topics-s5"),
        topic("topics-s6"),
    )
    create(
        transcript,
        "which came to be?",
        7,
        topic("topics-s4"),
        topic("topics-s6"),
        validate_only=True,
    )
