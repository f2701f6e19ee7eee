"""Measures the lag of each table while a pipeline runs, and reports unreachable brokers.

It has a thread of its own, because requests may take long when a broker is in trouble.
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
        """The next offset of each partition, as far as known."""


class BrokerMonitor:
    """Reports the progress of each table every second, and brokers that go and come back."""

    def __init__(self, brokers: str, tables: Sequence[MonitoredTable], events: Events) -> None:
        self._brokers = brokers
        self._tables = tables
        self._events = events
        self._is_unreachable = False
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
                self._set_reachable(False)
                return
            except (KafkaError, ClientError):
                continue  # the query of the table fails too, and reports it
            self._set_reachable(True)
            ends = sum(end.offset for end in found.values())
            self._events.progress_measured(table.name, sum(offsets.values()), ends)

    def _set_reachable(self, is_there: bool) -> None:
        if is_there is self._is_unreachable:
            text = "the brokers answer again" if is_there else "no broker answers; waiting for one"
            self._events.report("brokers", text)
        self._is_unreachable = not is_there
