"""What a client can meet besides a broker's refusal, which is a `KafkaError` with its code.

Each message says what happened, what was expected and, where it helps, what to do.
"""

from sawlog.core.errors import ErrorCode, KafkaError


class ClientError(Exception):
    """The request was not answered, so it is unknown or known not to have happened."""


class NoBrokerReachable(ClientError):
    """No connection could be made; nothing was sent."""


class ConnectionLost(ClientError):
    """The connection ended with requests under way: they may or may not have been carried out."""


class RequestTimedOut(ClientError):
    """A broker did not answer in time: the request may or may not have been carried out."""


class UnsupportedRequest(ClientError):
    """The broker does not offer the request in any version that we know."""


class UnexpectedResponse(ClientError):
    """The other side does not speak Kafka's protocol as it is known here."""


UNANSWERED = (NoBrokerReachable, ConnectionLost, RequestTimedOut)
"""After these a request that may safely happen twice can be sent again."""


ErrorsByName = dict[str, KafkaError]
"""What became of those names, of all that a call was about, which were refused."""


def kafka_error(code: int, message: str | None) -> KafkaError:
    """What an answer says went wrong; a code from a newer broker keeps its number in the text."""
    try:
        return KafkaError(ErrorCode(code), message or "")
    except ValueError:
        text = f"error code {code}" + (f": {message}" if message else "")
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
