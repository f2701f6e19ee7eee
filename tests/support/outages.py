"""Outages that tests measure, for the summary of their tier."""

from collections.abc import Callable

from tools.test_report import OUTAGE, Outage

RecordOutage = Callable[[str, float, float], None]
"""Gets the fault, the seconds without an acknowledgement, and the session timeout in seconds."""


def outage_recorder(record_property: Callable[[str, object], None]) -> RecordOutage:
    """Return a function that prints an outage and records it as a property of the test."""

    def record(fault: str, seconds: float, session_s: float) -> None:
        print(f"{fault}: no acknowledgement for {seconds:.2f} s", flush=True)
        record_property(OUTAGE, Outage(fault=fault, seconds=seconds, session_s=session_s))

    return record
