"""DescribeClientQuotas, versions 0 to 1 (KIP-546), on a broker without client quotas.

A valid filter matches nothing. Filters are checked as in Kafka, so that a client learns of its
mistakes here, too. AlterClientQuotas is not served: no quota would be enforced.
"""

from typing import TYPE_CHECKING

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse

if TYPE_CHECKING:
    from sawlog.broker.request import Request
    from sawlog.protocol.messages.describe_client_quotas_request import (
        ComponentData,
        DescribeClientQuotasRequest,
    )

IP = "ip"
ENTITY_TYPES = frozenset({"user", "client-id", IP})
EXACT, DEFAULT, SPECIFIED = range(3)
"""The match types: the entity of one name, the default entity, and any entity with a name."""


def describe_client_quotas(
    _: object, __: "Request", message: "DescribeClientQuotasRequest"
) -> DescribeClientQuotasResponse:
    try:
        _check_filter(message.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(
            error_code=int(error.code), error_message=error.message, entries=None
        )
    return DescribeClientQuotasResponse()


def _check_filter(components: "list[ComponentData]") -> None:
    """Raise the error of an invalid filter."""
    seen: set[str] = set()
    for component in components:
        entity_type = component.entity_type
        if not entity_type:
            raise _invalid("a filter component has an empty entity type")
        if entity_type in seen:
            raise _invalid(f"entity type {entity_type!r} appears twice in the filter")
        if entity_type not in ENTITY_TYPES:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"entity type {entity_type!r} is not supported; expected user, client-id or ip",
            )
        _check_match(component)
        seen.add(entity_type)
    if IP in seen and len(seen) > 1:
        raise _invalid("entity type 'ip' cannot be combined with user or client-id in a filter")


def _check_match(component: "ComponentData") -> None:
    match_type = component.match_type
    if match_type not in (EXACT, DEFAULT, SPECIFIED):
        raise _invalid(f"match type {match_type} is unknown; expected 0, 1 or 2")
    if match_type == EXACT and component.match is None:
        raise _invalid("an exact match needs a name to match")
    if match_type != EXACT and component.match is not None:
        raise _invalid(f"match type {match_type} takes no name to match")


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
