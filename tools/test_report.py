"""A pytest plugin that writes the outcome and time of every test, and the outages that it measured,
to a JSON file.

Load it with `-p tools.test_report`; SAWLOG_TEST_REPORT names the file. The time of a test is that
of its setup, call and teardown. Under pytest-xdist the controller writes the file.
"""

import json
import os
from pathlib import Path
from typing import TypedDict, cast

import pytest

REPORT_VARIABLE = "SAWLOG_TEST_REPORT"
OUTAGE = "outage"
"""The property (`record_property`) with which a test records an Outage."""


class Outage(TypedDict):
    """How long a partition acknowledged nothing after a fault."""

    fault: str
    seconds: float
    session_s: float


class ReportedTest(TypedDict):
    outcome: str
    seconds: float
    outages: list[Outage]


class TestReport:
    """Outcomes and times by node id; a test that failed in any phase has failed."""

    __test__ = False  # a plugin, not a test class

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self._outages: dict[str, list[Outage]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        self._seconds[name] = self._seconds.get(name, 0.0) + report.duration
        if report.failed:
            self._outcomes[name] = "failed"
        elif report.skipped:
            self._outcomes.setdefault(name, "skipped")
        elif report.when == "call":
            self._outcomes.setdefault(name, "passed")
        if report.when == "call":
            self._outages[name] = [
                cast("Outage", value) for key, value in report.user_properties if key == OUTAGE
            ]

    def pytest_sessionfinish(self) -> None:
        found = {
            name: ReportedTest(
                outcome=outcome,
                seconds=round(self._seconds[name], 3),
                outages=self._outages.get(name, []),
            )
            for name, outcome in self._outcomes.items()
        }
        self._path.write_text(json.dumps(found))


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get(REPORT_VARIABLE)
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(TestReport(Path(path)))
