"""Clients cannot flood the log: a throttled logger suppresses repeated events."""

import logging

import pytest

from sawlog.core.event_logger import EventLogger, ThrottledLogger
from support.server.shell import ManualClock


def test_one_line_per_second_and_event_counts_the_suppressed_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    throttled = ThrottledLogger(EventLogger("sawlog.test"), clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            throttled.warning("rejected", client="10.0.0.1")
        throttled.warning("something else")
        clock.advance(1000)
        throttled.warning("rejected", client="10.0.0.2")
    lines = [(record.getMessage(), record.fields) for record in caplog.records]  # type: ignore[attr-defined]
    assert lines == [
        ("rejected", {"client": "10.0.0.1", "suppressed": 0}),
        ("something else", {"suppressed": 0}),
        ("rejected", {"client": "10.0.0.2", "suppressed": 49}),
    ]
