"""Commits landed offsets to consumer groups, for monitoring, in a thread of its own.

The offsets of a group that wait are replaced by newer ones. So a broker that does not answer, or a
slow one, delays no landing.
"""

import threading
from typing import Self

from sawlog.pipeline.landing.driver.pipeline_cluster import pipeline_cluster
from sawlog.pipeline.source.group_progress import COMMIT_TIMEOUT_MS, GroupProgress
from sawlog.pipeline.source.offset_json import Offsets

_LAST_WAIT_S = COMMIT_TIMEOUT_MS / 1_000


class GroupCommits:
    """Commits while the block lasts; at its end what waits is committed, within a few seconds."""

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers
        self._waiting: dict[str, Offsets] = {}
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run_loop, name="sawlog-groups", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(_LAST_WAIT_S)

    def commit(self, group: str, offsets: Offsets) -> None:
        with self._changed:
            self._waiting.setdefault(group, {}).update(offsets)
            self._changed.notify()

    def _run_loop(self) -> None:
        groups: dict[str, GroupProgress] = {}
        with pipeline_cluster(self._brokers, COMMIT_TIMEOUT_MS) as cluster:
            while (taken := self._next()) is not None:
                group, offsets = taken
                if group not in groups:
                    groups[group] = GroupProgress(cluster, group)
                groups[group].commit(offsets)

    def _next(self) -> tuple[str, Offsets] | None:
        with self._changed:
            while not self._waiting:
                if self._is_closed:
                    return None
                self._changed.wait()
            group = next(iter(self._waiting))
            return group, self._waiting.pop(group)
