"""Disk threads run tasks or report failures, also if no thread can be started."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import pytest

from sawlog.core.ports import DiskError
from sawlog.server.disk_threads import DiskThreads

DEADLINE_SECONDS = 30.0

Outcome = tuple[str, DiskError | None]


class ManualLoop:
    """Replaces the loop: delivers what threads have finished when the test says so."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.threads = DiskThreads(self._calls.put, limit=4)
        self.outcomes: list[Outcome] = []

    def run(self, name: str, task: Callable[[], None]) -> None:
        self.threads.run(task, lambda error: self.outcomes.append((name, error)))

    def until(self, count: int) -> None:
        while len(self.outcomes) < count:
            self._calls.get(timeout=DEADLINE_SECONDS)()


@pytest.fixture
def loop() -> Iterator[ManualLoop]:
    loop = ManualLoop()
    yield loop
    loop.threads.stop()


@contextmanager
def no_more_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        yield


def test_results_are_delivered_on_the_loop(loop: ManualLoop) -> None:
    def fail() -> None:
        raise DiskError("a-file", "broken")

    loop.run("good", lambda: None)
    loop.until(1)
    loop.run("bad", fail)
    assert loop.outcomes == [("good", None)]
    loop.until(2)
    assert str(loop.outcomes[1][1]) == str(DiskError("a-file", "broken"))
    assert loop.threads.under_way == 0


def test_running_threads_do_the_work_if_no_other_can_be_started(
    loop: ManualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def wait() -> None:
        assert go_on.wait(DEADLINE_SECONDS)

    loop.run("first", wait)
    with no_more_threads(monkeypatch):
        loop.run("second", lambda: None)
    go_on.set()
    loop.until(2)
    assert loop.outcomes == [("first", None), ("second", None)]


def test_without_any_thread_a_task_fails_and_later_tasks_run(
    loop: ManualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    with no_more_threads(monkeypatch):
        loop.run("no thread", lambda: ran.append("no thread"))
    assert loop.outcomes == []
    loop.until(1)
    assert isinstance(loop.outcomes[0][1], DiskError)
    assert loop.threads.under_way == 0
    loop.run("a thread again", lambda: ran.append("a thread again"))
    loop.until(2)
    assert loop.outcomes[1] == ("a thread again", None)
    assert ran == ["a thread again"]
