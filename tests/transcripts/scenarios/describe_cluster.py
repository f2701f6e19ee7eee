"""DescribeCluster and DescribeTopicPartitions."""

from typing import Any

from transcripts.transcript import Transcript


def run(transcript: Transcript) -> None:
    for version in (0, 1, 2):
        transcript.request("the cluster", "DescribeCluster", version)
        transcript.request(
            "the cluster, with authorized operations",
            "DescribeCluster",
            version,
            {"include_cluster_authorized_operations": True},
        )
    transcript.request(
        "with fenced brokers", "DescribeCluster", 2, {"include_fenced_brokers": True}
    )
    for endpoint_type in (0, 2, 3):
        wanted = {"endpoint_type": endpoint_type}
        transcript.request(f"endpoints of type {endpoint_type}", "DescribeCluster", 1, wanted)
    partitions(transcript)


def partitions(transcript: Transcript) -> None:
    transcript.create_topic("cluster-a", 2)
    transcript.create_topic("cluster-b", 3)

    def request_partitions(title: str, *names: str, limit: int = 2_000, cursor: Any = None) -> None:
        fields = {
            "topics": [{"name": name} for name in names],
            "response_partition_limit": limit,
            "cursor": cursor,
        }
        transcript.request(title, "DescribeTopicPartitions", 0, fields)

    request_partitions("partitions of two topics", "cluster-a", "cluster-b")
    request_partitions("partitions of two topics in another order", "cluster-b", "cluster-a")
    request_partitions("an unknown topic", "cluster-none")
    request_partitions("an invalid topic name", "not a name!")
    request_partitions("an unknown topic and a known one", "cluster-none", "cluster-a")
    request_partitions("the same topic twice", "cluster-a", "cluster-a")
    request_partitions("a limit of three partitions", "cluster-a", "cluster-b", limit=3)
    request_partitions("a limit of two partitions", "cluster-a", "cluster-b", limit=2)
    request_partitions("a limit of zero", "cluster-a", limit=0)
    request_partitions("a negative limit", "cluster-a", limit=-1)
    at = {"topic_name": "cluster-b", "partition_index": 1}
    request_partitions("from a cursor on", "cluster-a", "cluster-b", cursor=at)
    request_partitions(
        "from a cursor on, one partition", "cluster-a", "cluster-b", limit=1, cursor=at
    )
    at = {"topic_name": "cluster-b", "partition_index": 9}
    request_partitions("a cursor at an unknown partition", "cluster-a", "cluster-b", cursor=at)
    at = {"topic_name": "cluster-b", "partition_index": -1}
    request_partitions("a cursor at a negative partition", "cluster-a", "cluster-b", cursor=at)
    at = {"topic_name": "cluster-aa", "partition_index": 0}
    request_partitions(
        "a cursor at a topic that is not requested", "cluster-a", "cluster-b", cursor=at
    )
    at = {"topic_name": "cluster-c", "partition_index": 0}
    request_partitions("a cursor after the last topic", "cluster-a", "cluster-b", cursor=at)
