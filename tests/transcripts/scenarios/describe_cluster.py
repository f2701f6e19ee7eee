"""DescribeCluster and DescribeTopicPartitions."""

from typing import Any

from transcripts.transcript import Transcript


def run(transcript: Transcript) -> None:
    for version in (0, 1, 2):
        transcript.request("the cluster", "DescribeCluster", version)
        transcript.request(
            "the cluster, with what one may do",
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

    def ask(title: str, *names: str, limit: int = 2_000, cursor: Any = None) -> None:
        fields = {
            "topics": [{"name": name} for name in names],
            "response_partition_limit": limit,
            "cursor": cursor,
        }
        transcript.request(title, "DescribeTopicPartitions", 0, fields)

    ask("partitions of two topics", "cluster-a", "cluster-b")
    ask("in another order", "cluster-b", "cluster-a")
    ask("of an unknown topic", "cluster-none")
    ask("of a name that is none", "not a name!")
    ask("of an unknown topic and a known one", "cluster-none", "cluster-a")
    ask("of one topic twice", "cluster-a", "cluster-a")
    ask("only three of them", "cluster-a", "cluster-b", limit=3)
    ask("only two of them", "cluster-a", "cluster-b", limit=2)
    ask("none of them", "cluster-a", limit=0)
    ask("fewer than none", "cluster-a", limit=-1)
    at = {"topic_name": "cluster-b", "partition_index": 1}
    ask("from a place on", "cluster-a", "cluster-b", cursor=at)
    ask("from a place on, one", "cluster-a", "cluster-b", limit=1, cursor=at)
    at = {"topic_name": "cluster-b", "partition_index": 9}
    ask("from a partition that is not there", "cluster-a", "cluster-b", cursor=at)
    at = {"topic_name": "cluster-b", "partition_index": -1}
    ask("from a partition below zero", "cluster-a", "cluster-b", cursor=at)
    at = {"topic_name": "cluster-aa", "partition_index": 0}
    ask("from a topic that is not asked for", "cluster-a", "cluster-b", cursor=at)
    at = {"topic_name": "cluster-c", "partition_index": 0}
    ask("from beyond the last topic", "cluster-a", "cluster-b", cursor=at)
