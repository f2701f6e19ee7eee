"""What can stop a table, told so that it survives the way from a task through Spark to the driver.

Spark hands on an exception of a task as text. What is known here is wrapped before it is raised,
and unwrapped from whatever text comes back; all else is `OTHER` and keeps its last line.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from sawlog.client.errors import UNANSWERED, ClientError
from sawlog.client.net.cluster import NoSuchTopic
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.pipeline.delta.errors import Overtaken, TableError, TooContended
from sawlog.pipeline.delta.tail import SchemaChanged, TakenOut

_LINE = re.compile(
    r"^\s*(?:[\w.]+(?:Error|Exception|Failure|Interrupt)\w*|sawlog(?:\.\w+)+): (.+)$", re.MULTILINE
)
_TOLD = re.compile(r"<sawlog:([a-z-]+)>(.*?)</sawlog>", re.DOTALL)
_FRAME = re.compile(r"^\[STREAM_FAILED\].*?terminated with exception: |SQLSTATE: \w+\s*$")
_CHANGED = re.compile(
    r"\bSchemaChanged: (.+?)(?:; begin it again from the same checkpoint.*)?$", re.M
)
_OTHER_STATE = re.compile(
    r"STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE"
    r"|STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
)
_LONGEST = 500
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Kind(Enum):
    """What became of a run, and so what to do about it."""

    OVERTAKEN = "overtaken"  # another driver moved the table: start over from where it is
    UNREACHABLE = "unreachable"  # no broker answers: wait for one
    NO_TOPIC = "no-topic"  # the topic, or the table that a query reads, is not there yet: wait
    SET_BACK = "set-back"  # a table that a query reads lost rows or its history: begin it anew
    EVOLVED = "evolved"  # a table that a query reads has new columns: begin it again with them
    OTHER_STATE = "other-state"  # a query's state has an incompatible schema: begin it anew
    DISK_FULL = "disk-full"  # wait for room
    LOST = "lost"  # records that were to land are gone: for somebody to decide
    TOPIC_GONE = "topic-gone"  # deleted, or another one by the same name
    REFUSED = "refused"  # the table, the file or the environment is not as it must be
    OTHER = "other"


FATAL = frozenset({Kind.LOST, Kind.TOPIC_GONE, Kind.REFUSED})


class LandingFailure(Exception):
    """A failure of a known kind, in words for whoever reads the terminal."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return f"<sawlog:{self.kind.value}>{self.message}</sawlog>"


def classify(error: BaseException) -> LandingFailure:
    """An exception of this process, as what it means for a table."""
    if isinstance(error, LandingFailure):
        return error
    if isinstance(error, Overtaken | TooContended):
        return LandingFailure(Kind.OVERTAKEN, str(error))
    if isinstance(error, TakenOut):
        return LandingFailure(Kind.SET_BACK, str(error))
    if isinstance(error, SchemaChanged):
        return LandingFailure(Kind.EVOLVED, str(error))
    if isinstance(error, TableError):
        return LandingFailure(Kind.REFUSED, str(error))
    if isinstance(error, OSError) and error.errno in _FULL:
        where = f" ({error.filename})" if error.filename else ""
        return LandingFailure(Kind.DISK_FULL, f"no room is left on the disk{where}")
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return LandingFailure(Kind.OTHER, f"{error.filename}: {error.strerror}")
    if isinstance(error, KafkaError | ClientError):
        if (lost := _lost(error)) is not None:
            return lost
        return LandingFailure(_kind_of_refusal(error), _words(error))
    return unwrap(str(error))


def _lost(error: KafkaError | ClientError) -> LandingFailure | None:
    """What a task found to be gone, in the words of the rule that planning goes by."""
    from sawlog.client.arrow.offset_range import OffsetsLost
    from sawlog.pipeline.landing.planning.topic_check import check_log

    if not isinstance(error, OffsetsLost):
        return None
    partition, available = error.partition, error.available
    try:
        check_log(
            {partition: error.wanted.start},
            {partition: available.start},
            {partition: max(available.stop, error.wanted.start)},
        )
    except LandingFailure as failure:
        return failure
    return LandingFailure(Kind.LOST, _words(error))


def _kind_of_refusal(error: KafkaError | ClientError) -> Kind:
    if isinstance(error, NoSuchTopic):
        return Kind.TOPIC_GONE
    if isinstance(error, UNANSWERED):
        return Kind.UNREACHABLE
    if isinstance(error, KafkaError):
        if error.code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID):
            return Kind.TOPIC_GONE
        if error.is_retriable:
            return Kind.UNREACHABLE
    return Kind.OTHER


def _words(error: KafkaError | ClientError) -> str:
    if isinstance(error, KafkaError):
        return f"{error.message or 'refused'} ({error.code.name})"
    return str(error)


def unwrap(text: str) -> LandingFailure:
    """The failure inside what Spark made of it."""
    told = _TOLD.search(text)
    if told is not None:
        return LandingFailure(Kind(told[1]), told[2])
    if "TakenOut:" in text or "TableError: version" in text or "is gone: it was replaced" in text:
        return LandingFailure(Kind.SET_BACK, "a table that it reads was set back or cleaned up")
    if (changed := _CHANGED.search(text)) is not None:
        return LandingFailure(Kind.EVOLVED, changed[1][:_LONGEST])
    if _OTHER_STATE.search(text) is not None:
        return LandingFailure(
            Kind.OTHER_STATE, "the state that the query keeps has other columns than it needs now"
        )
    if "No space left on device" in text:
        return LandingFailure(Kind.DISK_FULL, "no room is left on the disk")
    if "failed to connect back" in text or "CANNOT_OPEN_SOCKET" in text:
        return LandingFailure(
            Kind.OTHER, "a Python worker of Spark's did not start within Spark's limit of 10 s"
        )
    lines = _LINE.findall(text)
    if lines:
        return LandingFailure(Kind.OTHER, lines[-1].strip()[:_LONGEST])
    first = (text.strip().splitlines() or ["?"])[0]
    return LandingFailure(Kind.OTHER, _FRAME.sub("", first).strip()[:_LONGEST])


@contextmanager
def wrapped() -> Iterator[None]:
    """Around what runs where only text comes back: known failures leave it in their wrapping, and
    unknown ones as they are, for the sake of their traceback.
    """
    try:
        yield
    except LandingFailure:
        raise
    except Exception as error:
        failure = classify(error)
        if failure.kind is Kind.OTHER:
            raise
        raise failure from error
