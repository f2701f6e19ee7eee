"""The runtime of coordinators: what is written is applied, what is answered is committed."""

from collections.abc import Callable
from typing import Any

import pytest

from sawlog.coordinator.coordinator_records import Entry
from sawlog.coordinator.plan import Operation, Plan, Timers
from sawlog.coordinator.runtime import RELOAD_MS, CoordinatorRuntime, State
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.group_records import GROUP_RECORDS
from sawlog.protocol.messages.offset_commit_key import OffsetCommitKey
from sawlog.protocol.messages.offset_commit_value import OffsetCommitValue
from sawlog.replication.partition import Partition
from sawlog.storage.log import Log
from support.coordinator.partition import PartitionWorld


class Notebook:
    """A machine that remembers the last number of each name."""

    def __init__(self, timers: Timers) -> None:
        self.timers = timers
        self.numbers: dict[str, int] = {}
        self.is_active = False
        self.ended: KafkaError | None = None

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
        self.ended = error


def note(name: str, number: int | None) -> Entry:
    value = None if number is None else OffsetCommitValue(number)
    return Entry(OffsetCommitKey(name, "t", 0), value, 3)


def write(*entries: Entry) -> Operation:
    return lambda: Plan("done", entries)


class Answers(list[Any]):
    def refuse(self, error: KafkaError) -> None:
        self.append(error.code)


def open_shard(
    world: PartitionWorld, partition: Partition | None = None
) -> CoordinatorRuntime[Notebook]:
    shard = new_shard(world, partition)
    shard.load()
    world.schedule.run_for(100)
    assert shard.state is State.ACTIVE
    return shard


def new_shard(
    world: PartitionWorld,
    partition: Partition | None = None,
    broken: Callable[[], None] = lambda: None,
) -> CoordinatorRuntime[Notebook]:
    return CoordinatorRuntime(
        partition or world.partition,
        GROUP_RECORDS,
        Notebook,
        clock=world.schedule,
        timer=world.schedule,
        broken=broken,
    )


def test_a_reply_waits_until_its_records_are_committed() -> None:
    world = PartitionWorld()
    shard, answers = open_shard(world), Answers()
    shard.run(write(note("a", 1), note("b", 2)), answers.append, answers.refuse)
    assert shard.machine.numbers == {"a": 1, "b": 2}
    assert answers == []
    world.schedule.run_for(100)
    assert answers == ["done"]
    assert world.partition.high_watermark == 2


def test_a_read_waits_for_what_it_saw() -> None:
    world = PartitionWorld()
    shard, answers = open_shard(world), Answers()
    shard.run(write(note("a", 1)), answers.append, answers.refuse)
    shard.run(lambda: Plan(dict(shard.machine.numbers)), answers.append, answers.refuse)
    assert answers == []
    world.schedule.run_for(100)
    assert answers == ["done", {"a": 1}]
    shard.run(lambda: Plan("at once"), answers.append, answers.refuse)
    assert answers[-1] == "at once"


def test_an_operation_that_refuses_changes_nothing_and_is_told_at_once() -> None:
    world = PartitionWorld()
    shard, answers = open_shard(world), Answers()

    def refuse() -> Plan:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    shard.run(refuse, answers.append, answers.refuse)
    assert answers == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.partition.log.end_offset == 0


def test_where_the_append_fails_nothing_has_changed() -> None:
    world = PartitionWorld()
    shard, answers = open_shard(world), Answers()
    shard.run(write(note("a", 1)), answers.append, answers.refuse)
    world.schedule.run_for(100)
    heard: list[KafkaError | None] = []
    world.disk.free_bytes = 0
    plan = Plan("done", [note("a", 2)], settled=heard.append)
    shard.run(lambda: plan, answers.append, answers.refuse)
    assert shard.machine.numbers == {"a": 1}
    assert answers == ["done", ErrorCode.NOT_COORDINATOR]
    assert [error and error.code for error in heard] == [ErrorCode.NOT_COORDINATOR]
    world.disk.free_bytes = None
    shard.run(write(note("a", 3)), answers.append, answers.refuse)
    world.schedule.run_for(100)
    assert answers[-1] == "done"


def test_more_than_a_batch_may_hold_is_refused_whole() -> None:
    world = PartitionWorld()
    shard, answers = open_shard(world), Answers()
    many = [note(f"{number:0100}", number) for number in range(10_000)]
    shard.run(write(*many), answers.append, answers.refuse)
    assert answers == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert shard.machine.numbers == {}


def test_apply_stands_in_for_replay() -> None:
    world = PartitionWorld()
    shard, answers = open_shard(world), Answers()
    plan = Plan("done", [note("a", 1)], apply=lambda: shard.machine.numbers.update(other=9))
    shard.run(lambda: plan, answers.append, answers.refuse)
    assert shard.machine.numbers == {"other": 9}


def test_an_answer_of_the_machines_own_is_left_to_it() -> None:
    world = PartitionWorld()
    shard, answers = open_shard(world), Answers()
    shard.run(Plan, answers.append, answers.refuse)
    world.schedule.run_for(100)
    assert answers == []


def test_what_was_written_is_there_after_a_restart() -> None:
    world = PartitionWorld()
    shard, answers = open_shard(world), Answers()
    for number in range(2_500):
        entry = note(f"n{number % 1_200}", number)
        shard.run(write(entry), answers.append, answers.refuse)
    shard.run(write(note("n7", None)), answers.append, answers.refuse)
    world.schedule.run_for(100)
    again = open_shard(world, world.reopened())
    assert again.machine.numbers == shard.machine.numbers
    assert "n7" not in again.machine.numbers
    assert again.machine.is_active


def test_a_record_that_breaks_the_machine_is_left_out_of_the_load() -> None:
    world = PartitionWorld()
    shard = open_shard(world)
    answers = Answers()
    shard.run(write(note("a", 1), note("b", 2), note("c", 3)), answers.append, answers.refuse)
    world.schedule.run_for(100)

    def replay(self: Notebook, entry: Entry) -> None:
        if entry.key.group == "b":
            raise ZeroDivisionError
        self.numbers[entry.key.group] = entry.value.offset

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Notebook, "replay", replay)
        assert open_shard(world).machine.numbers == {"a": 1, "c": 3}


def test_nothing_is_served_while_it_loads() -> None:
    world = PartitionWorld()
    answers = Answers()
    shard = new_shard(world)
    shard.load()
    shard.run(write(note("a", 1)), answers.append, answers.refuse)
    assert answers == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


def test_a_load_that_is_given_up_ends() -> None:
    world = PartitionWorld()
    shard = new_shard(world)
    shard.load()
    shard.close(KafkaError(ErrorCode.NOT_COORDINATOR))
    world.schedule.run_for(100)
    assert shard.state is State.CLOSED
    assert not shard.machine.is_active


def test_where_a_commit_fails_the_machine_is_given_up() -> None:
    world = PartitionWorld()
    shard, answers = open_shard(world), Answers()
    shard.run(write(note("a", 1)), answers.append, answers.refuse)
    world.partition.close(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert answers == [ErrorCode.NOT_COORDINATOR]
    assert shard.state is State.CLOSED
    assert shard.machine.ended is not None
    shard.run(write(note("a", 2)), answers.append, answers.refuse)
    assert answers[-1] is ErrorCode.NOT_COORDINATOR


def test_another_machine_may_be_loaded_a_while_after_a_commit_failed() -> None:
    world = PartitionWorld()
    answers = Answers()
    broken: list[int] = []
    shard = new_shard(world, broken=lambda: broken.append(1))
    shard.load()
    world.schedule.run_for(100)
    for number in range(2):
        shard.run(write(note("a", number)), answers.append, answers.refuse)
    world.partition._fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
    assert answers == [ErrorCode.NOT_COORDINATOR] * 2
    world.schedule.run_for(RELOAD_MS - 1)
    assert broken == []
    world.schedule.run_for(1)
    assert broken == [1]
    assert open_shard(world).machine.numbers == {"a": 1}


@pytest.mark.parametrize(
    ("code", "is_over"),
    [(ErrorCode.KAFKA_STORAGE_ERROR, True), (ErrorCode.CORRUPT_MESSAGE, False)],
)
def test_a_load_that_failed_may_be_tried_again_where_the_log_may_recover(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode, is_over: bool
) -> None:
    world = PartitionWorld()
    broken: list[int] = []
    shard = new_shard(world, broken=lambda: broken.append(1))

    def fail(*_: object, **__: object) -> None:
        raise KafkaError(code)

    with monkeypatch.context() as patch:
        patch.setattr(Log, "read", fail)
        shard.load()
        world.schedule.run_for(100)
    assert shard.state is State.CLOSED
    world.schedule.run_for(2 * RELOAD_MS)
    assert bool(broken) is is_over


def ringing(shard: CoordinatorRuntime[Notebook], name: str) -> Callable[[], Plan]:
    return lambda: Plan(None, [note(name, len(shard.machine.numbers))])


def test_a_timer_runs_its_operation_once() -> None:
    world = PartitionWorld()
    shard = open_shard(world)
    shard.set("k", 50, ringing(shard, "late"))
    shard.set("k", 80, ringing(shard, "later"))
    shard.set("other", 60, ringing(shard, "never"))
    assert shard.is_set("other")
    shard.cancel("other")
    world.schedule.run_for(79)
    assert shard.machine.numbers == {}
    world.schedule.run_for(1)
    assert shard.machine.numbers == {"later": 0}
    assert not shard.is_set("k")


def test_a_timer_that_rings_after_a_stall_lets_others_speak_first() -> None:
    world = PartitionWorld()
    shard = open_shard(world)
    shard.set("silence", 1_000, ringing(shard, "late"))
    shard.set("other", 1_000, ringing(shard, "gone"))
    world.schedule.stall(5_000)
    assert shard.machine.numbers == {}
    shard.set("silence", 1_000, ringing(shard, "in time"))  # heard of after all
    world.schedule.run_for(500)
    assert list(shard.machine.numbers) == ["gone"]


def test_a_timers_operation_that_cannot_be_written_is_tried_again() -> None:
    world = PartitionWorld()
    shard = open_shard(world)
    world.disk.free_bytes = 0
    shard.set("k", 10, ringing(shard, "a"))
    world.schedule.run_for(300)
    assert shard.machine.numbers == {}
    world.disk.free_bytes = None
    world.schedule.run_for(500)
    assert shard.machine.numbers == {"a": 0}


def test_no_timer_rings_after_the_end() -> None:
    world = PartitionWorld()
    shard = open_shard(world)
    shard.set("k", 10, ringing(shard, "a"))
    shard.close(KafkaError(ErrorCode.NOT_COORDINATOR))
    world.schedule.run_for(100)
    assert shard.machine.numbers == {}


def test_a_machine_that_breaks_over_what_is_written_is_given_up() -> None:
    world = PartitionWorld()
    answers: list[Any] = []
    broken: list[str] = []
    shard = new_shard(world, broken=lambda: broken.append("another, please"))
    shard.load()
    world.schedule.run_for(100)

    def break_down() -> None:
        raise ZeroDivisionError

    plan = Plan("done", [note("a", 1)], apply=break_down)
    shard.run(lambda: plan, answers.append, lambda error: answers.append(error.code))
    assert answers == [ErrorCode.NOT_COORDINATOR]
    assert broken == ["another, please"]
    assert shard.state is State.CLOSED
    assert open_shard(world).machine.numbers == {"a": 1}


def test_a_timers_operation_that_breaks_is_tried_again() -> None:
    world = PartitionWorld()
    shard = open_shard(world)
    attempts: list[int] = []

    def break_down_once() -> Plan:
        attempts.append(1)
        if len(attempts) == 1:
            raise ZeroDivisionError
        return Plan()

    shard.set("k", 10, break_down_once)
    world.schedule.run_for(1_000)
    assert len(attempts) == 2
