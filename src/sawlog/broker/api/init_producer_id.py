"""InitProducerId, versions 0 to 6, for idempotent producers (KIP-98, 360).

An id comes from a block that is durable in the store before its first id is used. Transactional ids
are refused with INVALID_REQUEST, which no client retries.
"""

from typing import TYPE_CHECKING, Protocol

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.messages.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from sawlog.broker.request import Request
    from sawlog.cluster.producer_ids import ProducerIds
    from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest

    class ProducerIdContext(Protocol):
        producer_ids: ProducerIds


def init_producer_id(
    context: "ProducerIdContext", request: "Request", message: "InitProducerIdRequest"
) -> InitProducerIdResponse | None:
    if message.transactional_id is not None:
        return _error(ErrorCode.INVALID_REQUEST)
    if (message.producer_id == -1) != (message.producer_epoch == -1):
        return _error(ErrorCode.INVALID_REQUEST)

    def allocated(result: int | KafkaError) -> None:
        if isinstance(result, KafkaError):
            request.reply(_error(result.code))
        else:
            request.reply(InitProducerIdResponse(producer_id=result, producer_epoch=0))

    context.producer_ids.next(allocated)
    return None


def _error(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=int(code), producer_id=-1, producer_epoch=-1)
