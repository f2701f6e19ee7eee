"""The fields of log lines, which `caplog.text` does not show."""

from typing import Any

import pytest


def fields_of(caplog: pytest.LogCaptureFixture, event: str) -> dict[str, Any]:
    """Return the fields of the only line with this event."""
    (found,) = (record for record in caplog.records if record.message == event)
    fields: dict[str, Any] = vars(found)["fields"]
    return fields
