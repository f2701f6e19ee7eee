"""Receives the progress of tasks and reports that of batches, twice a second, as events.

It listens on a UDP port of the driver's host, which executors reach anyway (`spark.driver.host`).
Without a single report, batches still have their size and their time.
"""

import secrets
import select
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from sawlog.pipeline.landing.driver.events import Events
from sawlog.pipeline.landing.planning.batch_progress import BatchesInFlight
from sawlog.pipeline.landing.task.progress_report import (
    REPORT_BYTES,
    TOKEN_BYTES,
    ProgressAddress,
    decode_report,
)

if TYPE_CHECKING:
    from pyspark import SparkContext

_TICK_S = 0.5
_DRAINED = 1_000  # reports at a time; a task sends four per second
_LAST_WAIT_S = 2.0


class ProgressReceiver:
    """Reports the progress of batches while the block lasts.

    No event about a batch follows `ended`, so that none comes after its commit.
    """

    def __init__(self, host: str, bind_host: str, events: Events) -> None:
        self._events = events
        self._lock = threading.Lock()
        self._batches = BatchesInFlight()
        self._closing = threading.Event()
        self._token = secrets.token_bytes(TOKEN_BYTES)
        self._socket = _listening(bind_host)
        self.address = (
            None
            if self._socket is None
            else ProgressAddress(host, self._socket.getsockname()[1], self._token)
        )
        self._thread = threading.Thread(target=self._run_loop, name="sawlog-progress", daemon=True)

    @classmethod
    def of(cls, context: "SparkContext", events: Events) -> Self:
        """A receiver on the host of this driver."""
        host = context.getConf().get("spark.driver.host", "127.0.0.1")
        assert host is not None
        return cls(host, context.getConf().get("spark.driver.bindAddress", host) or host, events)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(_LAST_WAIT_S)
        if self._socket is not None and not self._thread.is_alive():
            self._socket.close()

    def began(self, table: str, planned: Mapping[int, int]) -> None:
        """A batch begins; `planned` has the offsets of each of its tasks."""
        with self._lock:
            self._batches.began(table, planned, time.monotonic())

    def all_read(self, table: str) -> None:
        """All tasks of the batch have ended. There is an event of it for every batch."""
        with self._lock:
            self._drain()
            now_s = time.monotonic()
            self._batches.all_read(table, now_s)
            self._events.batch_progressed(table, self._batches.progress(now_s)[table])

    def ended(self, table: str) -> None:
        """The batch is about to be reported as committed, or has failed."""
        with self._lock:
            self._batches.ended(table)

    def _run_loop(self) -> None:
        tick_s = time.monotonic() + _TICK_S
        while not self._closing.is_set():
            self._wait(max(0.0, tick_s - time.monotonic()))
            with self._lock:
                self._drain()
                now_s = time.monotonic()
                if now_s < tick_s:
                    continue
                tick_s = now_s + _TICK_S
                for table, progress in self._batches.progress(now_s).items():
                    self._events.batch_progressed(table, progress)

    def _wait(self, seconds: float) -> None:
        if self._socket is None:
            self._closing.wait(seconds)
        else:
            select.select([self._socket], [], [], seconds)

    def _drain(self) -> None:
        """Take all reports that have arrived."""
        if self._socket is None:
            return
        with suppress(OSError):  # BlockingIOError: no more
            for _ in range(_DRAINED):
                report = decode_report(self._socket.recv(REPORT_BYTES + 1), self._token)
                if report is not None:
                    self._batches.reported(*report, time.monotonic())


def _listening(host: str) -> socket.socket | None:
    """A socket at any port; None if this host has no such address."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
        listening = socket.socket(family, kind, protocol)
    except OSError:
        return None
    try:
        listening.bind(place)
        listening.setblocking(False)
    except OSError:
        listening.close()
        return None
    return listening
