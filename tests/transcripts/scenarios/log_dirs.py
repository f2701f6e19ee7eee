"""DescribeLogDirs and AlterReplicaLogDirs."""

from typing import Any

from transcripts.scenarios.produce_requests import TIME, batch, produce
from transcripts.steps import Differs
from transcripts.transcript import Transcript

TOPIC, EMPTY = "log-dirs", "log-dirs-empty"
LONGEST = 213
"""The longest topic name for which Kafka can name the directory of a future replica."""

REMOVED = Differs(
    "Sawlog removes whole segments at once, Kafka with its next retention check",
    {"results.0.topics.0.partitions.0.partition_size": 179},
)


def topics(**partitions: list[int]) -> list[dict[str, Any]]:
    return [
        {"topic": name.replace("_", "-"), "partitions": indexes}
        for name, indexes in partitions.items()
    ]


def own_topics(answer: dict[str, Any]) -> dict[str, Any]:
    """Keep the topics of this scenario, and hide the space of the machine's file system."""
    for result in answer["results"]:
        result["topics"] = [each for each in result["topics"] if each["name"] in (TOPIC, EMPTY)]
        for name in ("total_bytes", "usable_bytes"):
            if result.get(name, -1) >= 0:
                result[name] = "<some>"
    return answer


def run(transcript: Transcript) -> None:
    transcript.create_topic(TOPIC, 3, segment_ms="60000")
    transcript.create_topic(EMPTY)
    for minutes in (0, 10, 20):  # each batch begins a new segment
        records = batch("a" * 100, "b", at=TIME + minutes * 60_000)
        transcript.request_unrecorded("Produce", 9, produce(TOPIC, records, 1))
    transcript.request_unrecorded("Produce", 9, produce(TOPIC, batch("c"), 2))
    response = transcript.request_unrecorded("DescribeLogDirs", 1, {"topics": None})
    log_dir = response.results[0].log_dir
    transcript.names.add_log_dir(log_dir)
    describe(transcript)
    alter(transcript, log_dir)


def describe(transcript: Transcript) -> None:
    def ask(title: str, wanted: list[dict[str, Any]] | None, version: int = 5) -> None:
        transcript.request(title, "DescribeLogDirs", version, {"topics": wanted}, keep=own_topics)

    for title, wanted in (("all logs", None), ("some partitions", topics(log_dirs=[2, 1]))):
        for version in range(1, 6):
            ask(title, wanted, version)
    ask("no topics", [])
    ask("no partitions", topics(log_dirs=[]))
    ask("an empty topic", topics(log_dirs_empty=[0]))
    ask("an unknown topic", topics(log_dirs_none=[0]))
    ask("an unknown partition", topics(log_dirs=[7, -1]))
    ask("an unknown partition and a known one", topics(log_dirs=[7, 1]))
    ask("two topics, one of them unknown", topics(log_dirs=[0], log_dirs_none=[0]))
    ask("a partition twice", topics(log_dirs=[1, 1]))
    ask("a topic twice", topics(log_dirs=[1]) + topics(log_dirs=[2]))
    ask("a topic twice with the same partition", topics(log_dirs=[1]) * 2)
    ask("an invalid topic name", [{"topic": "not a name!", "partitions": [0]}])
    deleted = [{"partition_index": index, "offset": -1} for index in (1, 2)]
    transcript.request(
        "all records are deleted",
        "DeleteRecords",
        2,
        {"topics": [{"name": TOPIC, "partitions": deleted}], "timeout_ms": 10_000},
    )
    transcript.request(
        "files that remain count in full",
        "DescribeLogDirs",
        5,
        {"topics": topics(log_dirs=[1, 2])},
        keep=own_topics,
        differs=REMOVED,
    )


def alter(transcript: Transcript, log_dir: str) -> None:
    def to(path: str, *named: tuple[str, list[int]]) -> dict[str, Any]:
        wanted = [{"name": name, "partitions": indexes} for name, indexes in named]
        return {"path": path, "topics": wanted}

    def ask(title: str, *dirs: dict[str, Any], version: int = 2) -> None:
        transcript.request(title, "AlterReplicaLogDirs", version, {"dirs": list(dirs)})

    for version in (1, 2):
        ask("the directory of the replica", to(log_dir, (TOPIC, [0])), version=version)
    for version in (1, 2):
        ask("another directory", to("/no/such", (TOPIC, [0])), version=version)
    ask("several partitions and topics", to(log_dir, (TOPIC, [2, 0]), (EMPTY, [0])))
    ask("no directories")
    ask("a directory without topics", to(log_dir))
    ask("a topic without partitions", to(log_dir, (TOPIC, [])))
    ask("an unknown topic", to(log_dir, ("log-dirs-none", [0])))
    ask("an unknown partition", to(log_dir, (TOPIC, [9])))
    ask("a negative partition", to(log_dir, (TOPIC, [-1])))
    ask("an unknown partition and a known one", to(log_dir, (TOPIC, [9, 1])))
    ask("an invalid topic name", to(log_dir, ("not a name!", [0])))
    ask("an unknown topic in another directory", to("/no/such", ("log-dirs-none", [0])))
    ask("an empty path", to("", (TOPIC, [0])))
    ask("a relative path", to("data", (TOPIC, [0])))
    ask("the path with a slash at its end", to(f"{log_dir}/", (TOPIC, [0])))
    ask("a directory in the log directory", to(f"{log_dir}/{TOPIC}-0", (TOPIC, [0])))
    ask("a partition twice", to(log_dir, (TOPIC, [0, 0])))
    own, other = to(log_dir, (TOPIC, [0])), to("/no/such", (TOPIC, [0]))
    ask("the own directory, then another one", own, other)
    ask("another directory, then the own one", other, own)
    ask("two directories with a partition each", own, to("/no/such", (TOPIC, [1])))
    ask("the longest name", to(log_dir, ("x" * LONGEST, [0])))
    ask("a name that is too long", to(log_dir, ("x" * (LONGEST + 1), [0])))
    ask("a name that is too long with its index", to(log_dir, ("x" * LONGEST, [10])))
    ask("a name that is too long in another directory", to("/no", ("x" * (LONGEST + 1), [0])))
