"""The task of a job that tables share: a failure is a result, with its kind and message."""

import json
from pathlib import Path

import pytest

from sawlog.client.errors import RequestTimedOut
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import NO_TOPIC_ID
from sawlog.pipeline.formats.landed_rows import RECORD
from sawlog.pipeline.formats.parsed import Format
from sawlog.pipeline.landing.configuration.pipeline_config import CommitBounds
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.landing.task import table_task
from sawlog.pipeline.landing.task.landing_task import LandingParameters, columns_text
from sawlog.pipeline.landing.task.table_task import TableTask, run_task
from sawlog.pipeline.landing.task.task_report import TaskReport
from sawlog.pipeline.source.batch_planning import OffsetRange

RANGES = (OffsetRange(partition_of("t", 0), 0, 5),)


def task(directory: Path) -> TableTask:
    parameters = LandingParameters(
        "", {"t": NO_TOPIC_ID}, "g", str(directory / "t"), str(directory / "t__dead"),
        Format("raw"), None, (), True, CommitBounds(),
    )  # fmt: skip
    return TableTask("t", parameters.to_json(), columns_text(RECORD), RANGES)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (RequestTimedOut("nothing came"), FailureKind.UNREACHABLE, "nothing came"),
        (LandingFailure(FailureKind.DATA_LOSS, "3 are lost"), FailureKind.DATA_LOSS, "3 are lost"),
        (OSError(28, "No space left on device"), FailureKind.DISK_FULL, "no space is left"),
        (ZeroDivisionError("a bug"), FailureKind.OTHER, "a bug"),
    ],
)
def test_a_failure_is_a_result(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    kind: FailureKind,
    message: str,
) -> None:
    def fail(*_: object, **__: object) -> TaskReport:
        raise error

    monkeypatch.setattr(table_task, "land_ranges", fail)
    result = run_task(task(tmp_path))
    assert result.table == "t"
    found = result.read()
    assert isinstance(found, LandingFailure)
    assert found.kind is kind
    assert found.message.startswith(message)


def test_a_report_is_returned_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = TaskReport(RANGES, 5, 0, 100, (), ())
    monkeypatch.setattr(table_task, "land_ranges", lambda *_, **__: report)
    result = run_task(task(tmp_path))
    assert json.loads(result.report or "")["rows"] == 5
    assert result.read() == report
