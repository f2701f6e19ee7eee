"""A log event is one line, whatever characters its fields have."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.core.event_logger import EventLogger
from sawlog.server.log_format import JsonFormatter, LineFormatter, set_up_logging


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before = (root.handlers[:], root.level, logging.raiseExceptions)
    yield
    root.handlers[:], level, logging.raiseExceptions = before
    root.setLevel(level)


def lines_of(*, as_json: bool, level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    set_up_logging(as_json=as_json, level=level, stream=stream)
    return stream


def test_fields_keep_their_names_and_order() -> None:
    stream = lines_of(as_json=False)
    EventLogger("sawlog.server.test").warning("it happened", client="10.0.0.1", count=3, ok=True)
    line = stream.getvalue()
    assert line.startswith("time=20")
    assert line.endswith(
        'Z level=warning logger=server.test event="it happened" client=10.0.0.1 count=3 ok=true\n'
    )


def test_lists_are_written_without_brackets() -> None:
    stream = lines_of(as_json=False)
    EventLogger("sawlog.server.test").info("changed", isr=(1, 3), left=[], joined=[2])
    assert stream.getvalue().endswith('event=changed isr=1,3 left="" joined=2\n')


def test_json_lines_have_the_same_fields() -> None:
    stream = lines_of(as_json=True)
    EventLogger("sawlog.server.test").info("it happened", count=3, name=b"\xff\n", level="x")
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "server.test",
        "event": "it happened",
        "count": 3,
        "name": "\\xff\n",
        "level_": "x",
    }


def test_lines_below_the_level_are_not_written() -> None:
    stream = lines_of(as_json=False, level="warning")
    EventLogger("sawlog.server.test").info("nothing")
    assert stream.getvalue() == ""


@pytest.mark.parametrize("as_json", [False, True])
def test_a_traceback_stays_on_the_line(as_json: bool) -> None:
    stream = lines_of(as_json=as_json)
    try:
        raise ValueError("bad\nnews")
    except ValueError:
        EventLogger("sawlog.server.test").exception("it broke")
    [line] = stream.getvalue().splitlines()
    assert "ValueError: bad" in line


@given(
    value=st.one_of(st.text(), st.binary()), kind=st.sampled_from([LineFormatter, JsonFormatter])
)
def test_no_control_character_reaches_the_log(
    value: str | bytes, kind: type[logging.Formatter]
) -> None:
    record = logging.LogRecord("sawlog.x", logging.INFO, "", 0, "event", (), None)
    record.fields = {"value": value}
    line = kind().format(record)
    assert line.splitlines() == [line]
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in line)


def test_a_percent_sign_is_not_a_placeholder() -> None:
    stream = lines_of(as_json=False)
    EventLogger("sawlog.server.test").info("100 %s full")
    assert 'event="100 %s full"' in stream.getvalue()
