"""The cleanings that a broker reports in its log: Apache Kafka's LogCleaner and Sawlog's."""

import re
import time
from collections.abc import Collection
from dataclasses import dataclass

from bench.brokers import Broker, Name
from bench.process import ChildFailed

LOOK_AGAIN_S = 0.02
TIMEOUT_S = 60.0
_MEBIBYTE = 1 << 20
_KAFKA = re.compile(
    r"cleaned log (?P<log>\S+) \(dirty section.*\s+(?P<mebibytes>[\d,.]+) MB of log processed in"
    r" (?P<seconds>[\d,.]+) seconds"
)
_SAWLOG = re.compile(
    r'event="log cleaned" log=(?P<log>\S+) .*bytes_read=(?P<bytes>\d+) .*'
    r"milliseconds=(?P<milliseconds>\d+)"
)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """One cleaning of one partition's log."""

    log: str
    bytes_read: float
    seconds: float


def parse(name: Name, text: str) -> list[Cleaned]:
    """The cleanings in the output of a broker, in order."""
    if name is Name.SAWLOG:
        return [
            Cleaned(match["log"], float(match["bytes"]), int(match["milliseconds"]) / 1000)
            for match in _SAWLOG.finditer(text)
        ]
    return [
        Cleaned(
            match["log"],
            float(match["mebibytes"].replace(",", "")) * _MEBIBYTE,
            float(match["seconds"].replace(",", "")),
        )
        for match in _KAFKA.finditer(text)
    ]


class CleaningLog:
    """The cleanings that a broker reports from now on, or has reported from its first start on."""

    def __init__(self, broker: Broker, *, from_start: bool = False) -> None:
        self._broker = broker
        self._position = 0 if from_start else broker.server.output.stat().st_size

    def read(self) -> list[Cleaned]:
        with self._broker.server.output.open("rb") as output:
            output.seek(self._position)
            return parse(self._broker.name, output.read().decode(errors="replace"))

    def wait_for(self, logs: Collection[str], timeout_s: float = TIMEOUT_S) -> list[Cleaned]:
        """Return when each of these logs was cleaned and the cleaner's processes have ended."""
        deadline = time.monotonic() + timeout_s
        while True:
            cleaned = self.read()
            if {one.log for one in cleaned}.issuperset(logs) and self._is_idle():
                return cleaned
            self._broker.server.check_running()
            if time.monotonic() > deadline:
                raise ChildFailed(
                    f"{', '.join(sorted(logs))} not cleaned within {timeout_s:.0f} s:"
                    f"\n{self._broker.server.tail()}"
                )
            time.sleep(LOOK_AGAIN_S)

    def _is_idle(self) -> bool:
        return not self._broker.server.children()
