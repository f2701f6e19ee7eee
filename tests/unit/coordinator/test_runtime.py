"""The coordinator runtime applies what it wrote and replies when that is committed."""

from collections.abc import Callable
from typing import Any

import pytest

from sawlog.broker.coordinator_partition import CoordinatorPartition
from sawlog.coordinator.coordinator_records import Entry
from sawlog.coordinator.plan import Operation, Plan, Timers
from sawlog.coordinator.runtime import RELOAD_MS, CoordinatorRuntime, State
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import LeaderEpoch
from sawlog.groups.group_records import GROUP_RECORDS
from sawlog.protocol.messages.offset_commit_key import OffsetCommitKey
from sawlog.protocol.messages.offset_commit_value import OffsetCommitValue
from sawlog.replication.replica import Replica
from sawlog.storage.log import Log
from support.coordinator.partition import PartitionWorld


class NumberMachine:
    """A machine that keeps the last number of each name."""

    def __init__(self, timers: Timers) -> None:
        self.timers = timers
        self.numbers: dict[str, int] = {}
        self.is_active = False
        self.deactivated_with: KafkaError | None = None

    def replay(self, entry: Entry) -> None:
        assert isinstance(entry.key, OffsetCommitKey)
        if entry.value is None:
            self.numbers.pop(entry.key.group, None)
        else:
            assert isinstance(entry.value, OffsetCommitValue)
            self.numbers[entry.key.group] = entry.value.offset

    def replay_encoded(self, key: bytes, value: bytes) -> bool:
        return False

    def activate(self) -> None:
        self.is_active = True

    def deactivate(self, error: KafkaError) -> None:
        self.deactivated_with = error


def record(name: str, number: int | None) -> Entry:
    value = None if number is None else OffsetCommitValue(number)
    return Entry(OffsetCommitKey(name, "t", 0), value, 3)


def write(*entries: Entry) -> Operation:
    return lambda: Plan("done", entries)


class Answers(list[Any]):
    def refuse(self, error: KafkaError) -> None:
        self.append(error.code)


def loaded_runtime(
    world: PartitionWorld, partition: Replica | None = None
) -> CoordinatorRuntime[NumberMachine]:
    runtime = new_runtime(world, partition)
    runtime.load()
    world.schedule.run_for(100)
    assert runtime.state is State.ACTIVE
    return runtime


def new_runtime(
    world: PartitionWorld,
    partition: Replica | None = None,
    on_failure: Callable[[object], None] = lambda _: None,
) -> CoordinatorRuntime[NumberMachine]:
    access = CoordinatorPartition(partition or world.partition)
    return CoordinatorRuntime(
        access,
        access,
        GROUP_RECORDS,
        NumberMachine,
        clock=world.schedule,
        timer=world.schedule,
        on_failure=on_failure,
    )


def test_a_reply_waits_until_its_records_are_committed() -> None:
    world = PartitionWorld()
    runtime, answers = loaded_runtime(world), Answers()
    runtime.run(write(record("a", 1), record("b", 2)), answers.append, answers.refuse)
    assert runtime.machine.numbers == {"a": 1, "b": 2}
    assert answers == []
    world.schedule.run_for(100)
    assert answers == ["done"]
    assert world.partition.high_watermark == 2


def test_a_read_waits_until_all_that_it_saw_is_committed() -> None:
    world = PartitionWorld()
    runtime, answers = loaded_runtime(world), Answers()
    runtime.run(write(record("a", 1)), answers.append, answers.refuse)
    runtime.run(lambda: Plan(dict(runtime.machine.numbers)), answers.append, answers.refuse)
    assert answers == []
    world.schedule.run_for(100)
    assert answers == ["done", {"a": 1}]
    runtime.run(lambda: Plan("at once"), answers.append, answers.refuse)
    assert answers[-1] == "at once"


def test_an_operation_that_raises_is_refused_at_once_and_writes_nothing() -> None:
    world = PartitionWorld()
    runtime, answers = loaded_runtime(world), Answers()

    def refuse() -> Plan:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    runtime.run(refuse, answers.append, answers.refuse)
    assert answers == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.partition.log.end_offset == 0


def test_a_failed_append_leaves_the_state_unchanged() -> None:
    world = PartitionWorld()
    runtime, answers = loaded_runtime(world), Answers()
    runtime.run(write(record("a", 1)), answers.append, answers.refuse)
    world.schedule.run_for(100)
    outcomes: list[KafkaError | None] = []
    world.disk.free_bytes = 0
    plan = Plan("done", [record("a", 2)], on_committed=outcomes.append)
    runtime.run(lambda: plan, answers.append, answers.refuse)
    assert runtime.machine.numbers == {"a": 1}
    assert answers == ["done", ErrorCode.NOT_COORDINATOR]
    assert [error and error.code for error in outcomes] == [ErrorCode.NOT_COORDINATOR]
    world.disk.free_bytes = None
    runtime.run(write(record("a", 3)), answers.append, answers.refuse)
    world.schedule.run_for(100)
    assert answers[-1] == "done"


def test_records_that_exceed_the_batch_limit_are_all_refused() -> None:
    world = PartitionWorld()
    runtime, answers = loaded_runtime(world), Answers()
    many = [record(f"{number:0100}", number) for number in range(10_000)]
    runtime.run(write(*many), answers.append, answers.refuse)
    assert answers == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert runtime.machine.numbers == {}


def test_apply_replaces_replay() -> None:
    world = PartitionWorld()
    runtime, answers = loaded_runtime(world), Answers()
    plan = Plan("done", [record("a", 1)], apply=lambda: runtime.machine.numbers.update(other=9))
    runtime.run(lambda: plan, answers.append, answers.refuse)
    assert runtime.machine.numbers == {"other": 9}


def test_a_plan_without_a_reply_is_not_answered_by_the_runtime() -> None:
    world = PartitionWorld()
    runtime, answers = loaded_runtime(world), Answers()
    runtime.run(Plan, answers.append, answers.refuse)
    world.schedule.run_for(100)
    assert answers == []


def test_a_restart_restores_the_state_from_the_log() -> None:
    world = PartitionWorld()
    runtime, answers = loaded_runtime(world), Answers()
    for number in range(2_500):
        entry = record(f"n{number % 1_200}", number)
        runtime.run(write(entry), answers.append, answers.refuse)
    runtime.run(write(record("n7", None)), answers.append, answers.refuse)
    world.schedule.run_for(100)
    again = loaded_runtime(world, world.reopened())
    assert again.machine.numbers == runtime.machine.numbers
    assert "n7" not in again.machine.numbers
    assert again.machine.is_active


def test_a_record_that_cannot_be_replayed_is_skipped_by_the_load() -> None:
    world = PartitionWorld()
    runtime = loaded_runtime(world)
    answers = Answers()
    runtime.run(
        write(record("a", 1), record("b", 2), record("c", 3)), answers.append, answers.refuse
    )
    world.schedule.run_for(100)

    def replay(self: NumberMachine, entry: Entry) -> None:
        if entry.key.group == "b":
            raise ZeroDivisionError
        self.numbers[entry.key.group] = entry.value.offset

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NumberMachine, "replay", replay)
        assert loaded_runtime(world).machine.numbers == {"a": 1, "c": 3}


def test_operations_are_refused_during_the_load() -> None:
    world = PartitionWorld()
    answers = Answers()
    runtime = new_runtime(world)
    runtime.load()
    runtime.run(write(record("a", 1)), answers.append, answers.refuse)
    assert answers == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


def test_closing_stops_the_load() -> None:
    world = PartitionWorld()
    runtime = new_runtime(world)
    runtime.load()
    runtime.close(KafkaError(ErrorCode.NOT_COORDINATOR))
    world.schedule.run_for(100)
    assert runtime.state is State.CLOSED
    assert not runtime.machine.is_active


def test_a_failed_commit_closes_the_runtime() -> None:
    world = PartitionWorld()
    runtime, answers = loaded_runtime(world), Answers()
    runtime.run(write(record("a", 1)), answers.append, answers.refuse)
    world.partition.close(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert answers == [ErrorCode.NOT_COORDINATOR]
    assert runtime.state is State.CLOSED
    assert runtime.machine.deactivated_with is not None
    runtime.run(write(record("a", 2)), answers.append, answers.refuse)
    assert answers[-1] is ErrorCode.NOT_COORDINATOR


def test_a_failed_commit_is_reported_after_the_reload_delay() -> None:
    world = PartitionWorld()
    answers = Answers()
    failures: list[object] = []
    runtime = new_runtime(world, on_failure=failures.append)
    runtime.load()
    world.schedule.run_for(100)
    for number in range(2):
        runtime.run(write(record("a", number)), answers.append, answers.refuse)
    world.partition._fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
    assert answers == [ErrorCode.NOT_COORDINATOR] * 2
    world.schedule.run_for(RELOAD_MS - 1)
    assert failures == []
    world.schedule.run_for(1)
    assert failures == [runtime]
    assert loaded_runtime(world).machine.numbers == {"a": 1}


@pytest.mark.parametrize(
    ("code", "may_recover"),
    [(ErrorCode.KAFKA_STORAGE_ERROR, True), (ErrorCode.CORRUPT_MESSAGE, False)],
)
def test_a_failed_load_is_reported_unless_the_log_is_corrupt(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode, may_recover: bool
) -> None:
    world = PartitionWorld()
    failures: list[object] = []
    runtime = new_runtime(world, on_failure=failures.append)

    def fail(*_: object, **__: object) -> None:
        raise KafkaError(code)

    with monkeypatch.context() as patch:
        patch.setattr(Log, "read", fail)
        runtime.load()
        world.schedule.run_for(100)
    assert runtime.state is State.CLOSED
    world.schedule.run_for(2 * RELOAD_MS)
    assert bool(failures) is may_recover


def add_record(runtime: CoordinatorRuntime[NumberMachine], name: str) -> Callable[[], Plan]:
    return lambda: Plan(None, [record(name, len(runtime.machine.numbers))])


def test_a_timer_runs_its_operation_once() -> None:
    world = PartitionWorld()
    runtime = loaded_runtime(world)
    runtime.set("k", 50, add_record(runtime, "late"))
    runtime.set("k", 80, add_record(runtime, "later"))
    runtime.set("other", 60, add_record(runtime, "never"))
    assert runtime.is_set("other")
    runtime.cancel("other")
    world.schedule.run_for(79)
    assert runtime.machine.numbers == {}
    world.schedule.run_for(1)
    assert runtime.machine.numbers == {"later": 0}
    assert not runtime.is_set("k")


def test_a_timer_that_fires_after_a_stall_waits_for_queued_requests() -> None:
    world = PartitionWorld()
    runtime = loaded_runtime(world)
    runtime.set("silence", 1_000, add_record(runtime, "late"))
    runtime.set("other", 1_000, add_record(runtime, "gone"))
    world.schedule.stall(5_000)
    assert runtime.machine.numbers == {}
    runtime.set("silence", 1_000, add_record(runtime, "in time"))
    world.schedule.run_for(500)
    assert list(runtime.machine.numbers) == ["gone"]


def test_a_timer_operation_that_cannot_be_written_is_retried() -> None:
    world = PartitionWorld()
    runtime = loaded_runtime(world)
    world.disk.free_bytes = 0
    runtime.set("k", 10, add_record(runtime, "a"))
    world.schedule.run_for(300)
    assert runtime.machine.numbers == {}
    world.disk.free_bytes = None
    world.schedule.run_for(500)
    assert runtime.machine.numbers == {"a": 0}


def test_no_timer_fires_after_close() -> None:
    world = PartitionWorld()
    runtime = loaded_runtime(world)
    runtime.set("k", 10, add_record(runtime, "a"))
    runtime.close(KafkaError(ErrorCode.NOT_COORDINATOR))
    world.schedule.run_for(100)
    assert runtime.machine.numbers == {}


def test_a_machine_that_cannot_apply_its_records_closes_the_runtime() -> None:
    world = PartitionWorld()
    answers: list[Any] = []
    failures: list[object] = []
    runtime = new_runtime(world, on_failure=failures.append)
    runtime.load()
    world.schedule.run_for(100)

    def fail() -> None:
        raise ZeroDivisionError

    plan = Plan("done", [record("a", 1)], apply=fail)
    runtime.run(lambda: plan, answers.append, lambda error: answers.append(error.code))
    assert answers == [ErrorCode.NOT_COORDINATOR]
    assert failures == [runtime]
    assert runtime.state is State.CLOSED
    assert loaded_runtime(world).machine.numbers == {"a": 1}


def test_a_timer_operation_that_raises_is_retried() -> None:
    world = PartitionWorld()
    runtime = loaded_runtime(world)
    attempts: list[int] = []

    def fail_once() -> Plan:
        attempts.append(1)
        if len(attempts) == 1:
            raise ZeroDivisionError
        return Plan()

    runtime.set("k", 10, fail_once)
    world.schedule.run_for(1_000)
    assert len(attempts) == 2


def test_a_runtime_writes_and_answers_only_in_its_leader_epoch() -> None:
    world = PartitionWorld()
    runtime, answers = loaded_runtime(world), Answers()
    runtime.run(write(record("a", 1)), answers.append, answers.refuse)
    world.schedule.run_for(100)
    partition, state = world.partition, world.state
    epoch = LeaderEpoch(partition.leader_epoch + 1)
    partition.lead(epoch, state._replace(leader_epoch=epoch))
    runtime.run(write(record("b", 2)), answers.append, answers.refuse)
    runtime.run(lambda: Plan("seen"), answers.append, answers.refuse)
    assert answers == ["done", ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR]
    assert partition.log.end_offset == 1
