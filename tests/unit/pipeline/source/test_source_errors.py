"""Expected errors of the source are short in Spark's workers, and unchanged elsewhere."""

import os
from collections.abc import Iterator

import pytest

from sawlog.client.errors import NoBrokerReachable
from sawlog.pipeline.sink.sink_errors import BadRows, Refused
from sawlog.pipeline.source import source_errors
from sawlog.pipeline.source.option_values import BadOption
from sawlog.pipeline.source.source_errors import SourceError, short_errors
from sawlog.pipeline.source.topic_stream import DataLost


@short_errors
class Reader:
    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def partitions(self) -> list[int]:
        if self._error is not None:
            raise self._error
        return [1]

    def read(self) -> Iterator[int]:
        yield 1
        if self._error is not None:
            raise self._error


@pytest.fixture
def _in_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_errors, "_is_in_worker", lambda: True)
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")


@pytest.mark.usefixtures("_in_worker")
@pytest.mark.parametrize(
    "error",
    [
        BadOption("no such option"),
        NoBrokerReachable("none answers"),
        DataLost("t-0 lost 3 to 4"),
        Refused("batch 5 is refused"),
        BadRows("a row has no topic"),
    ],
)
def test_an_expected_error_is_raised_without_its_traceback(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SourceError, match=str(error)):
        Reader(error).partitions()
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"
    assert not capsys.readouterr().err  # the terminal of a Spark on one machine


@pytest.mark.usefixtures("_in_worker")
def test_an_error_that_may_be_a_defect_is_logged_with_its_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SourceError, match="too many values"):
        Reader(ValueError("too many values to unpack")).partitions()
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.usefixtures("_in_worker")
def test_errors_while_rows_are_read_are_short_too() -> None:
    rows = Reader(BadOption("lost")).read()
    assert next(rows) == 1
    with pytest.raises(SourceError, match="lost"):
        next(rows)


@pytest.mark.usefixtures("_in_worker")
def test_an_unexpected_error_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        Reader(ZeroDivisionError()).partitions()
    assert not os.environ["SPARK_HIDE_TRACEBACK"]


def test_errors_outside_workers_keep_their_type() -> None:
    with pytest.raises(BadOption):
        Reader(BadOption("no such option")).partitions()
    assert Reader().partitions() == [1]
    assert list(Reader().read()) == [1]
