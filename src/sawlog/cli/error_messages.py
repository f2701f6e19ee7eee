"""Error messages of the commands: one line and an exit code for each exception of user interest."""

from collections.abc import Mapping, Sequence

import click

from sawlog.cli.exit_codes import FAILED, NO_BROKER
from sawlog.cli.output import counted, note
from sawlog.client.errors import UNANSWERED, ClientError
from sawlog.client.producer.delivery import DeliveryFailed
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.wire_primitives import NotEncodable

_HINTS = {
    ErrorCode.OFFSET_OUT_OF_RANGE: "start within this range, or use --offset-reset earliest or"
    " latest",
    ErrorCode.TOPIC_ALREADY_EXISTS: "--if-not-exists ignores topics that exist",
    ErrorCode.INVALID_TIMESTAMP: "the topic's message.timestamp.before.max.ms and"
    " message.timestamp.after.max.ms limit timestamps",
}


class Stopped(Exception):
    """A command failed in the middle: the cause, the place, and the work done until then."""

    def __init__(self, cause: Exception, place: str, done: str) -> None:
        super().__init__(f"{place}{cause}; {done}")
        self.cause = cause
        self.place = place
        self.done = done


def explain(error: Exception) -> tuple[str, int] | None:
    """Return the message and the exit code; None for a bug, which is shown with its traceback."""
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
    if isinstance(error, NotEncodable):
        return f"a name or a value is too long: {error}", FAILED
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", FAILED
    if isinstance(error, ClientError | OSError):
        return str(error), FAILED
    return None


def describe(error: KafkaError) -> str:
    """Return a broker's error message with its code, by which users search, and a hint."""
    message = (error.message or "").removesuffix(".")
    text = f"{message} ({error.code.name})" if message else error.code.name
    hint = _HINTS.get(error.code)
    return f"{text}; {hint}" if hint else text


def error_line(name: str, error: KafkaError) -> str:
    """Return the line for an error about `name`, without naming it twice."""
    text = describe(error)
    return f"sawlog: {text}" if repr(name) in text else f"sawlog: {name}: {text}"


def report_each(
    names: Sequence[str],
    refusals: Mapping[str, KafkaError],
    done: str,
    *,
    ignored: ErrorCode | None = None,
) -> None:
    """Print the result for each name; exit with FAILED if any was refused."""
    failed = {name: error for name, error in refusals.items() if error.code is not ignored}
    for name in names:
        if name not in refusals:
            note(f"{name}: {done}")
    for name, error in failed.items():
        note(error_line(name, error))
    if failed:
        click.get_current_context().exit(FAILED)
