"""Errors of the client itself; an error of a broker is a `KafkaError` with its code.

Each message says what happened, what was expected and, where it helps, what to do.
"""

from sawlog.core.errors import ErrorCode, KafkaError


class ClientError(Exception):
    """The request got no response: it was not sent, or its outcome is unknown."""


class NoBrokerReachable(ClientError):
    """No connection could be opened; nothing was sent."""


class ConnectionLost(ClientError):
    """The connection was lost with requests in flight; their outcome is unknown."""


class RequestTimedOut(ClientError):
    """A broker did not respond in time; the outcome of the request is unknown."""


class UnsupportedRequest(ClientError):
    """The broker does not offer the request in a version that this client has."""


class UnexpectedResponse(ClientError):
    """The response is not one of the Kafka protocol."""


UNANSWERED = (NoBrokerReachable, ConnectionLost, RequestTimedOut)
"""Errors after which an idempotent request can be sent again."""


ErrorsByName = dict[str, KafkaError]
"""The errors of a call about several topics or groups; names that succeeded are left out."""


def kafka_error(code: int, message: str | None) -> KafkaError:
    """Make the error of a response; an unknown code of a newer broker is named in the text."""
    try:
        return KafkaError(ErrorCode(code), message or "")
    except ValueError:
        text = f"error code {code}" + (f": {message}" if message else "")
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
