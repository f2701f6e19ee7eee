"""DescribeLogDirs 1 to 5 and AlterReplicaLogDirs 1 to 2 (KIP-113, 827, 1066).

A broker has one log directory, so no replica can move: AlterReplicaLogDirs succeeds for the
directory that a replica already has, and finds no other one.
"""

from typing import TYPE_CHECKING, Protocol

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.core.ports import DiskError
from sawlog.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from sawlog.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from sawlog.broker.replicas import Replicas
    from sawlog.broker.request import Request
    from sawlog.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
    from sawlog.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
    from sawlog.storage.log import Log
    from sawlog.storage.log_directory import LogDirectory

    class LogDirsContext(Protocol):
        directory: LogDirectory
        replicas: Replicas


UNKNOWN_LAG = -1
"""The lag of a log that no replica uses."""

LONGEST_DIRECTORY_NAME = 255
FUTURE_SUFFIX_LENGTH = len(".") + 32 + len("-future")
"""What Kafka appends to the directory name of a replica that moves; the 32 are a UUID."""


# DescribeLogDirs


def describe_log_dirs(
    context: "LogDirsContext", _: "Request", message: "DescribeLogDirsRequest"
) -> DescribeLogDirsResponse:
    result = DescribeLogDirsResult(log_dir=context.directory.path)
    try:
        if context.directory.offline is not None:
            raise context.directory.offline
        result.total_bytes, result.usable_bytes = context.directory.space()
        result.topics = _describe_topics(context, message)
    except DiskError:
        result.error_code = int(ErrorCode.KAFKA_STORAGE_ERROR)
    return DescribeLogDirsResponse(results=[result])


def _describe_topics(
    context: "LogDirsContext", message: "DescribeLogDirsRequest"
) -> list[DescribeLogDirsTopic]:
    """Describe the requested logs that exist, by topic."""
    topics: dict[str, DescribeLogDirsTopic] = {}
    for name, log in _requested_logs(context.directory, message).items():
        topic = topics.setdefault(name.topic, DescribeLogDirsTopic(name.topic))
        topic.partitions.append(_describe_log(context.replicas, name, log))
    return list(topics.values())


def _requested_logs(
    directory: "LogDirectory", message: "DescribeLogDirsRequest"
) -> "dict[TopicPartition, Log]":
    if message.topics is None:
        return directory.logs
    names = (
        TopicPartition(TopicName(topic.topic), PartitionIndex(index))
        for topic in message.topics
        for index in topic.partitions
    )
    return {name: directory.logs[name] for name in names if name in directory.logs}


def _describe_log(
    replicas: "Replicas", name: TopicPartition, log: "Log"
) -> DescribeLogDirsPartition:
    replica = replicas.by_partition.get(name)
    return DescribeLogDirsPartition(
        partition_index=name.partition,
        partition_size=log.size_bytes,
        offset_lag=(
            UNKNOWN_LAG if replica is None else max(0, replica.high_watermark - log.end_offset)
        ),
        is_future_key=False,
    )


# AlterReplicaLogDirs


def alter_replica_log_dirs(
    context: "LogDirsContext", _: "Request", message: "AlterReplicaLogDirsRequest"
) -> AlterReplicaLogDirsResponse:
    """A partition that is named for several directories gets the result of the last one."""
    wanted = {
        (topic.name, index): directory.path
        for directory in message.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), path in wanted.items():
        code = _move(context, name, index, path)
        topic = topics.setdefault(name, AlterReplicaLogDirTopicResult(name))
        topic.partitions.append(AlterReplicaLogDirPartitionResult(index, int(code)))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _move(context: "LogDirsContext", topic: str, index: int, path: str) -> ErrorCode:
    """Return the result of moving a replica to `path`."""
    if len(f"{topic}-{index}") + FUTURE_SUFFIX_LENGTH > LONGEST_DIRECTORY_NAME:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path != context.directory.path:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if context.directory.offline is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        context.replicas.leader(topic, index)
    except KafkaError as error:
        if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return ErrorCode.REPLICA_NOT_AVAILABLE  # the code of the time before KIP-392
        return error.code
    return ErrorCode.NONE
