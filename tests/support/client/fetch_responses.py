"""Responses to fetches of the client, for tests without a broker."""

from collections.abc import Callable, Mapping
from typing import Any

from sawlog.protocol.messages.fetch_request import FetchRequest
from sawlog.protocol.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)


def requested(request: FetchRequest) -> dict[tuple[str, int], int]:
    """Return the fetch offset of each topic and partition index."""
    return {
        (topic.topic, partition.partition): partition.fetch_offset
        for topic in request.topics
        for partition in topic.partitions
    }


def fetch_response(
    records: Mapping[int, bytes] | None = None, **fields: Any
) -> Callable[[FetchRequest], FetchResponse]:
    """Answer every partition of a request with these fields, and records by partition index."""

    def respond(request: FetchRequest) -> FetchResponse:
        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        PartitionData(
                            partition_index=partition.partition,
                            records=(records or {}).get(partition.partition),
                            **fields,
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return respond
