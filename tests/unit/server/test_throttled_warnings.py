"""Clients cannot flood the log."""

import logging

import pytest

from sawlog.server.throttled_warnings import ThrottledWarnings
from support.server.shell import ManualClock


def test_one_line_a_second_says_how_many_went_unmentioned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    complaints = ThrottledWarnings(clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            complaints.warning("refused", client="10.0.0.1")
        complaints.warning("something else")
        clock.advance(1000)
        complaints.warning("refused", client="10.0.0.2")
    lines = [(record.getMessage(), record.fields) for record in caplog.records]  # type: ignore[attr-defined]
    assert lines == [
        ("refused", {"client": "10.0.0.1", "unmentioned": 0}),
        ("something else", {"unmentioned": 0}),
        ("refused", {"client": "10.0.0.2", "unmentioned": 49}),
    ]
