"""Which exceptions are a user's business, in one line each, and which exit code they mean."""

from sawlog.client.delivery import DeliveryFailed
from sawlog.client.errors import UNANSWERED, ClientError
from sawlog.core.errors import KafkaError

FAILED = 1
NO_BROKER = 3


def explain(error: Exception) -> tuple[str, int] | None:
    """The line and the exit code; None for what is a bug of ours and deserves its traceback."""
    if isinstance(error, KafkaError):
        return describe(error), FAILED
    if isinstance(error, DeliveryFailed):
        first = error.first
        text = describe(first) if isinstance(first, KafkaError) else str(first)
        code = NO_BROKER if isinstance(first, UNANSWERED) else FAILED
        return f"{error.count} records were not delivered; the first: {text}", code
    if isinstance(error, UNANSWERED):
        return str(error), NO_BROKER
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", FAILED
    if isinstance(error, ClientError | OSError):
        return str(error), FAILED
    return None


def describe(error: KafkaError) -> str:
    """A broker's refusal with its code, which is what people search for."""
    return f"{error.message} ({error.code.name})" if error.message else error.code.name
