"""Which exceptions are a user's business, in one line each, and which exit code they mean."""

from collections.abc import Mapping, Sequence

import click

from sawlog.cli.output import counted, note
from sawlog.client.errors import UNANSWERED, ClientError
from sawlog.client.producer.delivery import DeliveryFailed
from sawlog.core.errors import ErrorCode, KafkaError

FAILED = 1
NO_BROKER = 3

_HINTS = {
    ErrorCode.OFFSET_OUT_OF_RANGE: "start within, or use --out-of-range earliest or latest",
    ErrorCode.INVALID_TIMESTAMP: "the topic's message.timestamp.before.max.ms and"
    " message.timestamp.after.max.ms say what is taken",
}


class Stopped(Exception):
    """Work that ended in the middle: because of what, at which place, and what was done by then."""

    def __init__(self, cause: Exception, place: str, done: str) -> None:
        super().__init__(f"{place}{cause}; {done}")
        self.cause = cause
        self.place = place
        self.done = done


def explain(error: Exception) -> tuple[str, int] | None:
    """The line and the exit code; None for what is a bug of ours and deserves its traceback."""
    if isinstance(error, Stopped):
        text, code = explain(error.cause) or (str(error.cause), FAILED)
        return f"{error.place}{text}; {error.done}", code
    if isinstance(error, KafkaError):
        return describe(error), FAILED
    if isinstance(error, DeliveryFailed):
        text, code = explain(error.first) or (str(error.first), FAILED)
        were = "was" if error.count == 1 else "were"
        return f"{counted(error.count, 'record')} {were} not delivered: {text}", code
    if isinstance(error, UNANSWERED):
        return str(error), NO_BROKER
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", FAILED
    if isinstance(error, ClientError | OSError):
        return str(error), FAILED
    return None


def describe(error: KafkaError) -> str:
    """A broker's refusal with its code, which is what people search for, and what helps."""
    text = f"{error.message} ({error.code.name})" if error.message else error.code.name
    hint = _HINTS.get(error.code)
    return f"{text}; {hint}" if hint else text


def complaint(name: str, error: KafkaError) -> str:
    """What is wrong with something of that name, which is said once."""
    text = describe(error)
    return f"sawlog: {text}" if repr(name) in text else f"sawlog: {name}: {text}"


def report_each(
    names: Sequence[str],
    refusals: Mapping[str, KafkaError],
    done: str,
    *,
    forgiven: ErrorCode | None = None,
) -> None:
    """Says for each name what became of it; exit code 1 where one was refused."""
    failed = {name: error for name, error in refusals.items() if error.code is not forgiven}
    for name in names:
        if name not in refusals:
            note(f"{name}: {done}")
    for name, error in failed.items():
        note(complaint(name, error))
    if failed:
        click.get_current_context().exit(FAILED)
