"""Log directories of brokers: their free space, and the size of each replica in them."""

from collections.abc import Iterable
from dataclasses import dataclass

from sawlog.client.errors import ClientError, kafka_error
from sawlog.client.net.addresses import Address
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.connection import Connection
from sawlog.client.net.leader_requests import group_by_topic
from sawlog.core.errors import KafkaError
from sawlog.core.ids import NodeId, TopicPartition
from sawlog.protocol.messages.describe_log_dirs_request import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from sawlog.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


@dataclass(frozen=True, slots=True)
class LogDirReplica:
    """The log of one partition. `size_bytes` counts record batches, without the indexes."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int | None  # behind the high watermark; None: the broker does not know
    is_future: bool = False  # a copy that replaces the replica in another directory when complete


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker. One with an `error` is offline and has no replicas."""

    path: str
    error: KafkaError | None
    total_bytes: int | None  # of the file system; None: offline, or a broker before Kafka 3.3
    usable_bytes: int | None
    replicas: list[LogDirReplica]


def describe_log_dirs(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None = None
) -> dict[NodeId, list[LogDir]]:
    """Return the log directories of every broker, with all replicas or those of `partitions`.

    Partitions without a replica are left out. KafkaError if a broker refuses the request.
    """
    request = DescribeLogDirsRequest(topics=None)
    if partitions is not None:
        by_topic = group_by_topic(sorted(set(partitions)))
        request.topics = [DescribableLogDirTopic(name, [*by_topic[name]]) for name in by_topic]
    found: dict[NodeId, list[LogDir]] = {}

    def attempt() -> None:
        for node in sorted(cluster.fetch_metadata([]).nodes):
            if node not in found:
                connection = cluster.connection(node)
                response = connection.request(request, DescribeLogDirsResponse)
                if response.error_code:
                    text = f"broker {node} refused to describe its log directories"
                    raise kafka_error(response.error_code, text)
                found[node] = [_log_dir(result) for result in response.results]

    cluster.retry(attempt)
    return dict(sorted(found.items()))


def has_offline_log_dir(address: Address, timeout_ms: float) -> bool:
    """Whether the broker at this address reports a log directory as offline. One try: a broker that
    does not answer in time, or refuses the request, reports none."""
    try:
        connection = Connection(
            address, request_timeout_ms=timeout_ms, connect_timeout_ms=timeout_ms
        )
        try:
            response = connection.request(
                DescribeLogDirsRequest(topics=[]), DescribeLogDirsResponse
            )
        finally:
            connection.close()
    except ClientError:
        return False
    return any(result.error_code for result in response.results)


def _log_dir(result: DescribeLogDirsResult) -> LogDir:
    error = None
    if result.error_code:
        error = kafka_error(result.error_code, f"the log directory {result.log_dir!r} is offline")
    replicas = [
        LogDirReplica(
            topic.name,
            partition.partition_index,
            partition.partition_size,
            _known(partition.offset_lag),
            partition.is_future_key,
        )
        for topic in result.topics
        for partition in topic.partitions
    ]
    return LogDir(
        result.log_dir,
        error,
        _known(result.total_bytes),
        _known(result.usable_bytes),
        sorted(replicas, key=lambda replica: (replica.topic, replica.partition)),
    )


def _known(value: int) -> int | None:
    """The protocol has -1 for unknown."""
    return value if value >= 0 else None
