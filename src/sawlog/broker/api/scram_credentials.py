"""DescribeUserScramCredentials, version 0 (KIP-554), on a broker that stores no credentials.

All users are none; a named user is not found.
"""

from collections import Counter
from typing import TYPE_CHECKING

from sawlog.core.errors import ErrorCode
from sawlog.protocol.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from sawlog.broker.request import Request
    from sawlog.protocol.messages.describe_user_scram_credentials_request import (
        DescribeUserScramCredentialsRequest,
    )


def describe_user_scram_credentials(
    _: object, __: "Request", message: "DescribeUserScramCredentialsRequest"
) -> DescribeUserScramCredentialsResponse:
    counts = Counter(user.name for user in message.users or ())
    return DescribeUserScramCredentialsResponse(
        results=[_not_described(name, count) for name, count in counts.items()],
    )


def _not_described(name: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        text = f"user {name!r} is named {count} times in the request; name each user once"
    else:
        code = ErrorCode.RESOURCE_NOT_FOUND
        text = f"user {name!r} has no SCRAM credentials"
    return DescribeUserScramCredentialsResult(name, int(code), text)
