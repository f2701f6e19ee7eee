"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments on a single broker."""

from typing import Any

from transcripts.transcript import Transcript

TOPIC = "reassigned"
UNKNOWN = "reassigned-none"


def run(transcript: Transcript) -> None:
    transcript.create_topic(TOPIC, 2)
    elections(transcript)
    response = transcript.request_unrecorded("DescribeCluster", 0, {})
    reassignments(transcript, response.brokers[0].broker_id)


def elections(transcript: Transcript) -> None:
    def ask(title: str, kind: int, topics: list[dict[str, Any]] | None, version: int = 2) -> None:
        fields: dict[str, Any] = {"topic_partitions": topics, "timeout_ms": 10_000}
        if version:
            fields["election_type"] = kind
        transcript.request(title, "ElectLeaders", version, fields)

    one = [{"topic": TOPIC, "partitions": [0]}]
    for version in range(3):
        ask("the preferred replica leads already", 0, one, version)
    ask("an unclean election with a live leader", 1, one)
    ask("an unknown topic", 0, [{"topic": UNKNOWN, "partitions": [0]}])
    ask("unknown partitions", 0, [{"topic": TOPIC, "partitions": [7, -1, 1]}])
    ask("a topic without partitions", 0, [{"topic": TOPIC, "partitions": []}])
    ask("no topics", 0, [])
    ask("an unknown election type", 9, one)


def reassignments(transcript: Transcript, node: int) -> None:
    def ask(title: str, version: int = 1, may_change: bool = True, **changes: Any) -> None:
        partitions = [
            {"partition_index": int(index.removeprefix("p")), "replicas": replicas}
            for index, replicas in changes.items()
        ]
        fields = {"timeout_ms": 10_000, "topics": [{"name": TOPIC, "partitions": partitions}]}
        if version:
            fields["allow_replication_factor_change"] = may_change
        transcript.request(title, "AlterPartitionReassignments", version, fields)

    for version in range(2):
        ask("the present replicas", version, p0=[node])
        ask("nothing to cancel", version, p0=None)
    ask("no replicas", p0=[])
    ask("an unknown broker", p0=[node, 4711])
    ask("a broker twice", p0=[node, node])
    ask("an unknown partition", p7=[node])
    ask("partitions succeed and fail by themselves", p0=None, p1=[node])
    ask("another replication factor is refused", may_change=False, p0=[node, 4711])
    ask("the same replication factor", may_change=False, p0=[node])
    ask("no partitions")
    transcript.request(
        "an unknown topic",
        "AlterPartitionReassignments",
        1,
        {
            "timeout_ms": 10_000,
            "topics": [
                {"name": UNKNOWN, "partitions": [{"partition_index": 0, "replicas": [node]}]}
            ],
        },
    )
    transcript.request("no topics", "AlterPartitionReassignments", 1, {"topics": []})
    for title, topics in (
        ("no reassignment is in progress", None),
        ("of one topic", [{"name": TOPIC, "partition_indexes": [0, 7]}]),
        ("of an unknown topic", [{"name": UNKNOWN, "partition_indexes": [0]}]),
        ("of no topics", []),
    ):
        fields = {"timeout_ms": 10_000, "topics": topics}
        transcript.request(title, "ListPartitionReassignments", 0, fields)
