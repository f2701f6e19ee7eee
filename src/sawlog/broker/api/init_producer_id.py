"""InitProducerId, versions 0 to 6: producer ids and epochs (KIP-98, 360, 588, 939).

An id comes from a block that is durable in the store before its first id is used. With a
transactional id the transaction coordinator decides, and fences earlier producers. Two-phase commit
(KIP-939) is refused with the errors of a Kafka broker that has it disabled.
"""

from typing import TYPE_CHECKING, Protocol

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.messages.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from sawlog.broker.request import Request
    from sawlog.broker.transaction_coordinator import TransactionCoordinator
    from sawlog.cluster.producer_ids import ProducerIds
    from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
    from sawlog.transactions.transaction_machine import InitReply

    class ProducerIdContext(Protocol):
        producer_ids: ProducerIds
        transactions: TransactionCoordinator


FIRST_VERSION_WITH_PRODUCER_FENCED = 4


def init_producer_id(
    context: "ProducerIdContext", request: "Request", message: "InitProducerIdRequest"
) -> InitProducerIdResponse | None:
    if (message.producer_id == -1) != (message.producer_epoch == -1):
        return _error(ErrorCode.INVALID_REQUEST)
    if message.transactional_id is not None:
        return _init_transactional(context, request, message, message.transactional_id)

    def allocated(result: int | KafkaError) -> None:
        if isinstance(result, KafkaError):
            request.reply(_error(result.code))
        else:
            request.reply(InitProducerIdResponse(producer_id=result, producer_epoch=0))

    context.producer_ids.next(allocated)
    return None


def _init_transactional(
    context: "ProducerIdContext",
    request: "Request",
    message: "InitProducerIdRequest",
    transactional_id: str,
) -> InitProducerIdResponse | None:
    from sawlog.core.ids import ProducerId
    from sawlog.transactions.transaction import Producer

    def answer(reply: "InitReply") -> None:
        if reply.error is not ErrorCode.NONE:
            request.reply(_error(reply.error))
            return
        identity = reply.producer
        request.reply(
            InitProducerIdResponse(producer_id=identity.id, producer_epoch=identity.epoch)
        )

    def refuse(error: KafkaError) -> None:
        code = error.code
        is_old = request.api_version < FIRST_VERSION_WITH_PRODUCER_FENCED
        if code is ErrorCode.PRODUCER_FENCED and is_old:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        request.reply(_error(code))

    if not transactional_id:
        return _error(ErrorCode.INVALID_REQUEST)
    if message.enable2_pc:
        return _error(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if message.keep_prepared_txn:
        return _error(ErrorCode.UNSUPPORTED_VERSION)
    expected = None
    if message.producer_id != -1:
        expected = Producer(ProducerId(message.producer_id), message.producer_epoch)
    context.transactions.init_producer_id(
        transactional_id, message.transaction_timeout_ms, expected, answer, refuse
    )
    return None


def _error(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=int(code), producer_id=-1, producer_epoch=-1)
