"""Work for threads is done or reported, also where the system grants no more of them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import pytest

from sawlog.core.ports import DiskError
from sawlog.server.disk_threads import DiskThreads

DEADLINE_SECONDS = 30.0

Outcome = tuple[str, DiskError | None]


class Desk:
    """Stands for the loop: what threads hand over is run when the test says so."""

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
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.threads.stop()


@contextmanager
def no_more_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        yield


def test_the_outcome_comes_back_by_way_of_the_loop(desk: Desk) -> None:
    def fail() -> None:
        raise DiskError("a-file", "broken")

    desk.run("good", lambda: None)
    desk.until(1)
    desk.run("bad", fail)
    assert desk.outcomes == [("good", None)]
    desk.until(2)
    assert str(desk.outcomes[1][1]) == str(DiskError("a-file", "broken"))
    assert desk.threads.under_way == 0


def test_where_no_other_thread_can_be_started_those_that_run_do_the_work(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def wait() -> None:
        assert go_on.wait(DEADLINE_SECONDS)

    desk.run("first", wait)
    with no_more_threads(monkeypatch):
        desk.run("second", lambda: None)
    go_on.set()
    desk.until(2)
    assert desk.outcomes == [("first", None), ("second", None)]


def test_without_any_thread_the_failure_is_reported_and_later_work_is_done(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    with no_more_threads(monkeypatch):
        desk.run("no thread", lambda: ran.append("no thread"))
    assert desk.outcomes == []
    desk.until(1)
    assert isinstance(desk.outcomes[0][1], DiskError)
    assert desk.threads.under_way == 0
    desk.run("a thread again", lambda: ran.append("a thread again"))
    desk.until(2)
    assert desk.outcomes[1] == ("a thread again", None)
    assert ran == ["a thread again"]
