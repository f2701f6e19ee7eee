"""End offsets while topics are deleted."""

from typing import Any

import pytest

from sawlog.client.admin.lag import end_offsets
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.errors import ErrorCode
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from support.client.scripted_broker import ScriptedBroker

END = 5
DOOMED = ("doomed", "lost")


@pytest.mark.parametrize("gone", [(), DOOMED[:1], DOOMED])
def test_end_offsets_survive_a_topic_deleted_meanwhile(
    gone: tuple[str, ...],
) -> None:
    """Each topic is in the metadata first, and deleted when its end offset is requested."""
    left = list(gone)
    with ScriptedBroker(stays=2, doomed=1, lost=1) as broker, Cluster(broker.bootstrap) as cluster:

        def answer(request: Any) -> ListOffsetsResponse:
            if left:
                del broker.partition_counts[left.pop()]
            topics = [
                ListOffsetsTopicResponse(
                    topic.name,
                    [
                        _told(partition.partition_index, topic.name in broker.partition_counts)
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
            return ListOffsetsResponse(topics=topics)

        broker.always_reply(ApiKey.LIST_OFFSETS, answer)
        wanted = [partition_of("stays", 0), partition_of("stays", 1)]
        doomed = [partition_of(name, 0) for name in DOOMED]
        found = end_offsets(cluster, [*wanted, *doomed, partition_of("never-was", 0)])
    there = [*wanted, *(each for each in doomed if each.topic not in gone)]
    assert found == dict.fromkeys(there, END)


def _told(index: int, is_there: bool) -> ListOffsetsPartitionResponse:
    if is_there:
        return ListOffsetsPartitionResponse(partition_index=index, offset=END)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)
