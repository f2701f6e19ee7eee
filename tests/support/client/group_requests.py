"""Requests of the membership state machines, for their tests."""

from typing import Any

from sawlog.client.consumer.membership.membership_protocol import CoordinatorRequest, TopicLookup
from sawlog.protocol.apis import ApiKey, valid_versions
from sawlog.protocol.codec import encode


def requested(due: CoordinatorRequest | TopicLookup | None) -> Any:
    """Return the request, checked to be encodable, or a TopicLookup or None."""
    if not isinstance(due, CoordinatorRequest):
        return due
    encode(due.request, valid_versions(ApiKey(due.request.SCHEMA.api_key))[1])
    return due.request
