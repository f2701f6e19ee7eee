"""FindCoordinator, versions 0 to 6: the coordinator of a group or a transactional id; of several
from 4 (KIP-699).

The id may be empty, as in Kafka. Share groups are not supported; their keys get an error that no
client retries.
"""

from typing import TYPE_CHECKING, Protocol

from sawlog.cluster.internal_topics import CoordinatorType
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.messages.find_coordinator_response import (
    Coordinator,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from sawlog.broker.group_coordinator import GroupCoordinator
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.request import Request
    from sawlog.broker.transaction_coordinator import TransactionCoordinator
    from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest

    class FindCoordinatorContext(Protocol):
        metadata: MetadataCache
        groups: GroupCoordinator
        transactions: TransactionCoordinator


FIRST_VERSION_WITH_KEYS = 4
NO_ERROR = "NONE"
"""Kafka's error message for success before version 4."""


def find_coordinator(
    context: "FindCoordinatorContext", request: "Request", message: "FindCoordinatorRequest"
) -> FindCoordinatorResponse:
    if request.api_version >= FIRST_VERSION_WITH_KEYS:
        return FindCoordinatorResponse(
            coordinators=[
                _coordinator(context, message.key_type, key) for key in message.coordinator_keys
            ]
        )
    found = _coordinator(context, message.key_type, message.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or NO_ERROR,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _coordinator(context: "FindCoordinatorContext", kind: int, key: str) -> Coordinator:
    try:
        if kind == CoordinatorType.GROUP:
            node_id = context.groups.coordinator_of(key)
        elif kind == CoordinatorType.TRANSACTION:
            node_id = context.transactions.coordinator_of(key)
        else:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Coordinator keys of type {kind} are not supported."
            )
        node = context.metadata.image.brokers[node_id]
    except KafkaError as error:
        return Coordinator(key, -1, "", -1, int(error.code), str(error))
    return Coordinator(key, node.id, node.host, node.port)
