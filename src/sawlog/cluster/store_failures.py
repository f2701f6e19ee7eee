"""The errors of requests that the coordination store did not carry out."""

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.store import BadArguments, NoNode, StoreError, StoreUnavailable

_CODES = (
    (NoNode, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (StoreUnavailable, ErrorCode.KAFKA_STORAGE_ERROR),
)


def store_failure(error: StoreError) -> KafkaError:
    """Return the error for the client: a retriable one, as Kafka does if its controller does not
    respond, unless another attempt would fail too."""
    if isinstance(error, BadArguments):
        text = f"This cannot be stored: {error}; shorten the names or values"
        return KafkaError(ErrorCode.INVALID_REQUEST, text)
    found = (code for kind, code in _CODES if isinstance(error, kind))
    return KafkaError(next(found, ErrorCode.REQUEST_TIMED_OUT), str(error))
