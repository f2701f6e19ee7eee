"""Failures keep their kind and message in Spark's text."""

import errno

import pytest

from sawlog.client.errors import NoBrokerReachable
from sawlog.client.net.cluster import NoSuchTopic
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.pipeline.delta.errors import InvalidColumn, OffsetConflict
from sawlog.pipeline.delta.tail import RowsRemoved, SchemaChanged, SourceRewritten
from sawlog.pipeline.landing.failures import (
    FailureKind,
    LandingFailure,
    classify,
    parse_failure,
    tagged_failures,
)

SPARK = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted. SQLSTATE: XXKST
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "landing/task.py", line 7, in land
{}
\tat org.apache.spark.api.python.BasePythonRunner
"""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OffsetConflict(partition_of("t", 0), 5, 1, 9), FailureKind.CONFLICT),
        (NoBrokerReachable("nobody"), FailureKind.UNREACHABLE),
        (KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved"), FailureKind.UNREACHABLE),
        (NoSuchTopic("gone"), FailureKind.TOPIC_DELETED),
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "another"), FailureKind.TOPIC_DELETED),
        (OSError(errno.ENOSPC, "No space left on device", "/lake/x"), FailureKind.DISK_FULL),
        (InvalidColumn("no such type"), FailureKind.INVALID),
        (ZeroDivisionError("by zero"), FailureKind.OTHER),
    ],
)
def test_each_failure_has_its_kind(error: Exception, kind: FailureKind) -> None:
    assert classify(error).kind is kind


def test_a_tagged_failure_is_parsed_from_a_traceback() -> None:
    with pytest.raises(LandingFailure) as caught, tagged_failures():
        raise NoBrokerReachable("no broker can be reached: 127.0.0.1:1 refused")
    text = SPARK.format(f"sawlog.pipeline.landing.failures.LandingFailure: {caught.value}")
    told = parse_failure(text)
    assert (told.kind, told.message) == (
        FailureKind.UNREACHABLE, "no broker can be reached: 127.0.0.1:1 refused"
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "[PYTHON_DATA_SOURCE_ERROR] Failed to plan: sawlog.SourceError: no topic 'a'\n SQLSTATE: 1",
        "An exception was thrown from the Python worker:\nsawlog.SourceError: no topic 'a'",
    ],
)
def test_the_reason_of_the_source_is_found_without_a_traceback(text: str) -> None:
    assert parse_failure(text).message == "no topic 'a'"


def test_an_unknown_failure_keeps_its_last_line() -> None:
    told = parse_failure(SPARK.format("ZeroDivisionError: division by zero"))
    assert (told.kind, told.message) == (FailureKind.OTHER, "division by zero")


def test_an_error_of_ours_is_recognised_by_its_module() -> None:
    text = SPARK.format("sawlog.pipeline.delta.errors.TableNotFound: there is no table in /lake/t")
    assert parse_failure(text).message == "there is no table in /lake/t"


def test_without_a_traceback_the_first_line_is_the_message() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: The worker did not"
        " connect. SQLSTATE: XXKST\n=== Streaming Query ===\nThread State: RUNNABLE"
    )
    assert parse_failure(text).message == "The worker did not connect."


def test_an_unknown_failure_is_not_tagged() -> None:
    with pytest.raises(ZeroDivisionError), tagged_failures():
        raise ZeroDivisionError


def test_a_schema_change_is_parsed_from_a_traceback() -> None:
    error = SchemaChanged("version 3 of /lake/t has columns that the stream started without: 'b'")
    assert classify(error).kind is FailureKind.SCHEMA_CHANGED
    told = parse_failure(SPARK.format(f"sawlog.pipeline.delta.tail.SchemaChanged: {error}"))
    assert (told.kind, told.message) == (FailureKind.SCHEMA_CHANGED, str(error))


@pytest.mark.parametrize(
    "condition",
    [
        "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
        "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
        "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    ],
)
def test_incompatible_state_is_recognised_by_spark_s_condition(condition: str) -> None:
    assert (
        parse_failure(SPARK.format(f"SparkException: [{condition}] it differs")).kind
        is FailureKind.STATE_INCOMPATIBLE
    )


def test_a_full_disk_is_recognised_by_its_text_too() -> None:
    text = SPARK.format("OSError: [Errno 28] Error writing bytes. Detail: No space left on device")
    assert parse_failure(text).kind is FailureKind.DISK_FULL


@pytest.mark.parametrize("error", [RowsRemoved("rows"), SourceRewritten("created again")])
def test_a_rewritten_source_table_is_recognised_in_the_text_of_spark(error: Exception) -> None:
    text = SPARK.format(f"sawlog.pipeline.delta.tail.{type(error).__name__}: {error}")
    assert parse_failure(text).kind is FailureKind.SOURCE_REWRITTEN
    assert classify(error).kind is FailureKind.SOURCE_REWRITTEN
