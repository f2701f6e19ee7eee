"""A scripted broker that accepts records, and the batches that it was sent."""

from collections.abc import Callable
from typing import Any

from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.init_producer_id_response import InitProducerIdResponse
from sawlog.protocol.messages.produce_request import ProduceRequest
from sawlog.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from sawlog.protocol.record_batch import BatchHeader, check_produced
from sawlog.protocol.records import iterate
from support.client.scripted_broker import ScriptedBroker


def answering(code: int = 0, **fields: Any) -> Callable[[ProduceRequest], ProduceResponse]:
    """Respond with the same outcome for every partition of the request."""

    def answer(request: ProduceRequest) -> ProduceResponse:
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        PartitionProduceResponse(
                            index=data.index, error_code=code, base_offset=100, **fields
                        )
                        for data in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    return answer


def broker_with(**partition_counts: int) -> ScriptedBroker:
    broker = ScriptedBroker(**partition_counts)
    broker.always_reply(ApiKey.PRODUCE, answering())
    ids = iter(range(1_000, 2_000))
    broker.always_reply(
        ApiKey.INIT_PRODUCER_ID, lambda _: InitProducerIdResponse(producer_id=next(ids))
    )
    return broker


def batches(broker: ScriptedBroker) -> list[tuple[int, BatchHeader, list[bytes | None]]]:
    """Return partition, header and values of every batch sent, in order."""
    found = []
    for request in broker.requests_for(ApiKey.PRODUCE):
        for topic in request.topic_data:
            for data in topic.partition_data:
                header = check_produced(data.records, max_batch_bytes=1 << 20)
                records = iterate(data.records, max_decompressed_bytes=1 << 20)
                found.append((data.index, header, [record.value for record in records]))
    return found
