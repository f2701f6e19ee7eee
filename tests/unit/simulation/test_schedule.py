"""Scopes of simulated time: the events of one process end, or wait, without those of others."""

from sawlog.core.store import Create, Result, StoreError
from sawlog.simulation.schedule import Schedule
from sawlog.simulation.simulated_broker import SimulatedMachine
from sawlog.simulation.simulated_store import StoreService


def test_death_of_one_machine_leaves_the_timers_of_another() -> None:
    schedule = Schedule(1)
    one, two = SimulatedMachine(1, schedule=schedule), SimulatedMachine(2, schedule=schedule)
    one.boot()
    two.boot()
    ran: list[str] = []
    one.broker.components.timer.after(5, lambda: ran.append("one"))
    two.broker.components.timer.after(5, lambda: ran.append("two"))
    one.kill()
    schedule.run_for(10)
    assert ran == ["two"]
    one.boot()
    one.broker.components.timer.after(5, lambda: ran.append("one again"))
    schedule.run_for(10)
    assert ran == ["two", "one again"]


def test_events_of_a_closed_scope_never_run() -> None:
    schedule = Schedule(1)
    scope = schedule.scope()
    ran: list[str] = []
    scope.after(3, lambda: ran.append("before"))
    scope.close()
    scope.after(1, lambda: ran.append("after"))
    scope.soon(lambda: ran.append("soon"))
    scope.run(lambda: ran.append("now"))
    assert not schedule.step()
    assert ran == []


def test_cancelled_event_takes_no_step() -> None:
    schedule = Schedule(1)
    handle = schedule.scope().after(3, lambda: None)
    handle.cancel()
    assert not schedule.step()
    assert schedule.monotonic_ms() == 0


def test_events_of_a_paused_process_run_after_it_resumes() -> None:
    schedule = Schedule(1)
    scope = schedule.scope()
    ran: list[tuple[str, int]] = []

    def note(name: str) -> None:
        ran.append((name, schedule.monotonic_ms()))

    scope.after(3, lambda: note("due"))
    cancelled = scope.after(4, lambda: note("cancelled"))
    scope.after(20, lambda: note("later"))
    scope.pause()
    schedule.run_for(10)
    scope.run(lambda: note("told"))
    cancelled.cancel()
    assert ran == []
    scope.resume()
    schedule.run_for(30)
    assert sorted(ran) == [("due", 10), ("later", 20), ("told", 10)]


def test_held_events_of_a_process_that_dies_are_dropped() -> None:
    schedule = Schedule(1)
    scope = schedule.scope()
    ran: list[str] = []
    scope.after(3, lambda: ran.append("due"))
    scope.pause()
    schedule.run_for(10)
    scope.close()
    scope.resume()
    schedule.run_for(10)
    assert ran == []


def test_store_answers_a_paused_client_after_it_resumes() -> None:
    schedule = Schedule(1)
    service = StoreService(schedule)
    scope = schedule.scope()
    answers: list[list[Result] | StoreError] = []
    service.connect(scope).multi([Create("/a")], answers.append)
    scope.pause()
    schedule.run_for(100)
    assert service.tree.exists("/a") is not None  # the call was sent before the pause
    assert answers == []
    scope.resume()
    schedule.run_for(0)
    assert answers == [["/a"]]
