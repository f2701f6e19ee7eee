"""Looks at the brokers while a pipeline runs: how far the topics are, and whether anybody answers.

A thread of its own, because an answer may take long when a broker is in trouble, which is just when
somebody wants to know.
"""

import threading
from collections.abc import Sequence
from typing import Protocol, Self

from sawlog.client.admin.list_offsets import LATEST, list_offsets
from sawlog.client.errors import UNANSWERED, ClientError
from sawlog.client.net.cluster import Cluster
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.pipeline.landing.driver.events import Events

POLL_EVERY_S = 1.0
_TIMEOUT_MS = 3_000


class MonitoredTable(Protocol):
    @property
    def name(self) -> str: ...

    def landed_offsets(self) -> dict[TopicPartition, int]:
        """The next offset of each partition, as far as it is known."""


class BrokerMonitor:
    """Tells how far each table is, once a second, and when brokers go and come back."""

    def __init__(self, brokers: str, tables: Sequence[MonitoredTable], events: Events) -> None:
        self._brokers = brokers
        self._tables = tables
        self._events = events
        self._is_silent = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="sawlog-monitor", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_TIMEOUT_MS / 1_000)

    def _run_loop(self) -> None:
        with Cluster(
            self._brokers,
            client_id="sawlog-pipeline",
            timeout_ms=_TIMEOUT_MS,
            request_timeout_ms=_TIMEOUT_MS,
        ) as cluster:
            while not self._stop.wait(POLL_EVERY_S):
                self._poll(cluster)

    def _poll(self, cluster: Cluster) -> None:
        for table in self._tables:
            offsets = table.landed_offsets()
            if not offsets:
                continue
            try:
                found = list_offsets(cluster, dict.fromkeys(offsets, LATEST))
            except UNANSWERED:
                self._heard(False)
                return
            except (KafkaError, ClientError):
                continue  # the table's own query meets it, and says what it means
            self._heard(True)
            ends = sum(told.offset for told in found.values())
            self._events.measured(table.name, sum(offsets.values()), ends)

    def _heard(self, is_there: bool) -> None:
        if is_there is self._is_silent:
            text = "the brokers are back" if is_there else "no broker answers; waiting for one"
            self._events.said("brokers", text)
        self._is_silent = not is_there
