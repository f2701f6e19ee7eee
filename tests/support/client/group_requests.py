"""What a member of a group asks for, in the tests of its machines."""

from typing import Any

from sawlog.client.consumer.membership.membership_protocol import CoordinatorRequest, TopicLookup
from sawlog.protocol.apis import ApiKey, valid_versions
from sawlog.protocol.codec import encode


def requested(asked: CoordinatorRequest | TopicLookup | None) -> Any:
    """The request, which has to fit onto the wire, or what else it is."""
    if not isinstance(asked, CoordinatorRequest):
        return asked
    encode(asked.request, valid_versions(ApiKey(asked.request.SCHEMA.api_key))[1])
    return asked.request
