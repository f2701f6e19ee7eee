"""Failures of a table, in a form that survives the way from a task through Spark to the driver.

Spark passes an exception of a task on as text. Known failures are tagged before they are raised and
parsed from the text; all others are `OTHER` with the last line of the text.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from sawlog.client.errors import UNANSWERED, ClientError
from sawlog.client.net.cluster import NoSuchTopic
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.pipeline.delta.errors import (
    OffsetConflict,
    StoreUnavailable,
    TableError,
    TooManyConflicts,
)
from sawlog.pipeline.delta.tail import RowsRemoved, SchemaChanged, SourceRewritten
from sawlog.pipeline.registry.registry_client import RegistryRefused, RegistryUnavailable

_ERROR_LINE = re.compile(
    r"(?:^\s*(?:[\w.]+(?:Error|Exception|Failure|Interrupt)\w*|sawlog(?:\.\w+)+)"
    r"|: sawlog\.SourceError): (.+)$",
    re.MULTILINE,
)
_TAGGED = re.compile(r"<sawlog:([a-z-]+)>(.*?)</sawlog>", re.DOTALL)
_STREAM_FAILED = re.compile(r"^\[STREAM_FAILED\].*?terminated with exception: |SQLSTATE: \w+\s*$")
_SCHEMA_CHANGED = re.compile(
    r"\bSchemaChanged: (.+?)(?:; restart it from the same checkpoint.*)?$", re.M
)
_STATE_INCOMPATIBLE = re.compile(
    r"STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE"
    r"|STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
)
_SOURCE_REWRITTEN = re.compile(rf"\b(?:{SourceRewritten.__name__}|{RowsRemoved.__name__}): ")
_MAX_MESSAGE_CHARS = 500
_DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})


class FailureKind(Enum):
    """The kind of a failure, which decides what to do about it."""

    CONFLICT = "conflict"  # another driver moved the table: restart from its offsets
    UNREACHABLE = "unreachable"  # no broker answers: wait for one
    STORE_UNREACHABLE = "store-unreachable"  # the lake's object store does not answer: wait for it
    REGISTRY_UNREACHABLE = "registry-unreachable"  # the schema registry does not answer: wait
    NOT_FOUND = "not-found"  # the topic, or a table that a query reads, does not exist yet: wait
    SOURCE_REWRITTEN = "source-rewritten"  # a table that a query reads lost rows: start over
    SCHEMA_CHANGED = "schema-changed"  # a table that a query reads has new columns: restart
    STATE_INCOMPATIBLE = "state-incompatible"  # Spark cannot use the query's state: start over
    DISK_FULL = "disk-full"  # wait for space
    DATA_LOSS = "data-loss"  # records were lost before they landed: the operator must decide
    TOPIC_DELETED = "topic-deleted"  # the topic was deleted, or created again
    INVALID = "invalid"  # the table, the file or the environment is wrong
    OTHER = "other"


FATAL = frozenset({FailureKind.DATA_LOSS, FailureKind.TOPIC_DELETED, FailureKind.INVALID})


class LandingFailure(Exception):
    """A failure of a known kind with a message for the operator."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return f"<sawlog:{self.kind.value}>{self.message}</sawlog>"


def classify(error: BaseException) -> LandingFailure:
    """Convert an exception of this process."""
    if isinstance(error, LandingFailure):
        return error
    if isinstance(error, OffsetConflict | TooManyConflicts):
        return LandingFailure(FailureKind.CONFLICT, str(error))
    if isinstance(error, SourceRewritten):
        return LandingFailure(FailureKind.SOURCE_REWRITTEN, str(error))
    if isinstance(error, SchemaChanged):
        return LandingFailure(FailureKind.SCHEMA_CHANGED, str(error))
    if isinstance(error, TableError):
        return LandingFailure(FailureKind.INVALID, str(error))
    if isinstance(error, OSError) and error.errno in _DISK_FULL_ERRNOS:
        where = f" ({error.filename})" if error.filename else ""
        return LandingFailure(FailureKind.DISK_FULL, f"no space is left on the disk{where}")
    if isinstance(error, StoreUnavailable):
        text = f"{error.filename}: {error.strerror}"
        return LandingFailure(FailureKind.STORE_UNREACHABLE, text)
    if isinstance(error, RegistryUnavailable):
        return LandingFailure(FailureKind.REGISTRY_UNREACHABLE, str(error))
    if isinstance(error, RegistryRefused):
        return LandingFailure(FailureKind.INVALID, str(error))
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return LandingFailure(FailureKind.OTHER, f"{error.filename}: {error.strerror}")
    if isinstance(error, KafkaError | ClientError):
        return LandingFailure(_kind_of_refusal(error), _words(error))
    return parse_failure(str(error))


def _kind_of_refusal(error: KafkaError | ClientError) -> FailureKind:
    if isinstance(error, NoSuchTopic):
        return FailureKind.TOPIC_DELETED
    if isinstance(error, UNANSWERED):
        return FailureKind.UNREACHABLE
    if isinstance(error, KafkaError):
        if error.code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID):
            return FailureKind.TOPIC_DELETED
        if error.is_retriable:
            return FailureKind.UNREACHABLE
    return FailureKind.OTHER


def _words(error: KafkaError | ClientError) -> str:
    if isinstance(error, KafkaError):
        return f"{error.message or 'refused'} ({error.code.name})"
    return str(error)


def parse_failure(text: str) -> LandingFailure:
    """Find the failure in the text that Spark made of it."""
    match = _TAGGED.search(text)
    if match is not None:
        return LandingFailure(FailureKind(match[1]), match[2])
    if _SOURCE_REWRITTEN.search(text) is not None:
        return LandingFailure(
            FailureKind.SOURCE_REWRITTEN, "a table that it reads was restored or vacuumed"
        )
    if (changed := _SCHEMA_CHANGED.search(text)) is not None:
        return LandingFailure(FailureKind.SCHEMA_CHANGED, changed[1][:_MAX_MESSAGE_CHARS])
    if _STATE_INCOMPATIBLE.search(text) is not None:
        return LandingFailure(
            FailureKind.STATE_INCOMPATIBLE,
            "Spark cannot use the state of the query with its new columns",
        )
    if "No space left on device" in text:
        return LandingFailure(FailureKind.DISK_FULL, "no space is left on the disk")
    if "failed to connect back" in text or "CANNOT_OPEN_SOCKET" in text:
        return LandingFailure(
            FailureKind.OTHER,
            "a Python worker of Spark did not start within Spark's limit of 10 s",
        )
    lines = _ERROR_LINE.findall(text)
    if lines:
        return LandingFailure(FailureKind.OTHER, lines[-1].strip()[:_MAX_MESSAGE_CHARS])
    first = (text.strip().splitlines() or ["?"])[0]
    return LandingFailure(
        FailureKind.OTHER, _STREAM_FAILED.sub("", first).strip()[:_MAX_MESSAGE_CHARS]
    )


@contextmanager
def tagged_failures() -> Iterator[None]:
    """Tag known failures that leave the block; others keep their type and traceback."""
    try:
        yield
    except LandingFailure:
        raise
    except Exception as error:
        failure = classify(error)
        if failure.kind is FailureKind.OTHER:
            raise
        raise failure from error
