"""A simulated machine with a group coordinator, and builders of offset requests."""

from collections.abc import Mapping
from typing import Any

from sawlog.coordinator.runtime import State
from sawlog.core.ids import TopicName
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sawlog.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from sawlog.simulation.simulated_broker import SimulatedMachine
from support.broker.requests import machine_with_topic

PARTITIONS = 4
FIRST_VERSION_WITH_TOPIC_IDS = 10
FIRST_VERSION_WITH_GROUPS = 8


def machine_with_groups(**settings: str) -> SimulatedMachine:
    """Return a machine with a topic `t` of three partitions and a loaded coordinator."""
    machine = machine_with_topic(3, offsets_topic_num_partitions=str(PARTITIONS), **settings)
    machine.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
    assert machine.schedule.run(lambda: is_ready(machine))
    return machine


def is_ready(machine: SimulatedMachine) -> bool:
    runtimes = machine.broker.groups.runtimes.values()
    return len(runtimes) == PARTITIONS and all(
        runtime.state is State.ACTIVE for runtime in runtimes
    )


def reboot(machine: SimulatedMachine) -> None:
    """Kill the broker, boot a new one, and wait until its coordinator is loaded."""
    machine.kill()
    machine.boot()
    assert machine.schedule.run(lambda: is_ready(machine))


def id_of(machine: SimulatedMachine, topic: str) -> bytes:
    return machine.broker.metadata.image.topics[TopicName(topic)].id


def commit_request(
    group: str,
    offsets: Mapping[tuple[str | bytes, int], int],
    metadata: str = "",
    **fields: Any,
) -> OffsetCommitRequest:
    """Build a commit; a topic is a name, or an id as bytes."""
    topics: dict[str | bytes, OffsetCommitRequestTopic] = {}
    for (topic, partition), offset in offsets.items():
        if topic not in topics:
            topics[topic] = OffsetCommitRequestTopic()
            setattr(topics[topic], "name" if isinstance(topic, str) else "topic_id", topic)
        topics[topic].partitions.append(
            OffsetCommitRequestPartition(partition, offset, -1, metadata)
        )
    return OffsetCommitRequest(group, topics=list(topics.values()), **fields)


def committed(response: Any) -> dict[tuple[str | bytes, int], int]:
    """Return the error codes by topic and partition."""
    return {
        (topic.name or getattr(topic, "topic_id", ""), partition.partition_index): (
            partition.error_code
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def commit(
    machine: SimulatedMachine,
    group: str,
    offsets: Mapping[tuple[str | bytes, int], int],
    version: int = 9,
    **fields: Any,
) -> dict[tuple[str | bytes, int], int]:
    return committed(machine.ask(commit_request(group, offsets, **fields), version))


def fetch_request(
    group: str, wanted: Mapping[str | bytes, list[int]] | None, version: int
) -> OffsetFetchRequest:
    if version < FIRST_VERSION_WITH_GROUPS:
        topics = None
        if wanted is not None:
            topics = [OffsetFetchRequestTopic(str(name), ids) for name, ids in wanted.items()]
        return OffsetFetchRequest(group, topics)
    return OffsetFetchRequest(groups=[fetch_group(group, wanted)])


def fetch_group(
    group: str, wanted: Mapping[str | bytes, list[int]] | None
) -> OffsetFetchRequestGroup:
    if wanted is None:
        return OffsetFetchRequestGroup(group, topics=None)
    topics = []
    for topic, indexes in wanted.items():
        topics.append(OffsetFetchRequestTopics(partition_indexes=indexes))
        setattr(topics[-1], "name" if isinstance(topic, str) else "topic_id", topic)
    return OffsetFetchRequestGroup(group, topics=topics)


def fetched(group: Any) -> dict[tuple[str | bytes, int], tuple[int, str, int]]:
    """Return offset, metadata and error code by topic and partition."""
    return {
        (topic.name or topic.topic_id, partition.partition_index): (
            partition.committed_offset,
            partition.metadata,
            partition.error_code,
        )
        for topic in group.topics
        for partition in topic.partitions
    }


def fetch(
    machine: SimulatedMachine,
    group: str,
    wanted: Mapping[str | bytes, list[int]] | None = None,
    version: int = 9,
) -> dict[tuple[str | bytes, int], tuple[int, str, int]]:
    response = machine.ask(fetch_request(group, wanted, version), version)
    if version >= FIRST_VERSION_WITH_GROUPS:
        [response] = response.groups
    assert response.error_code == 0
    return fetched(response)
