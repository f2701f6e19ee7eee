"""The removal of the files of deleted logs."""

from typing import Any

import pytest

from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from support.storage.logs import TOPIC_ID, TP, SimulatedStorage


def test_the_files_of_a_deleted_log_are_removed() -> None:
    storage = SimulatedStorage()
    storage.append(3)
    storage.checkpoint()
    storage.directory.delete(TP)
    assert storage.directory.logs == {}
    storage.schedule.run_for(10_000)
    assert not [name for name in storage.disk.list("") if name.startswith("topic")]
    assert storage.append().base_offset == 0, "a new log of the same name"
    storage.checkpoint()
    storage.recover()
    assert storage.log.end_offset == 1


def test_deleted_logs_are_removed_one_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = SimulatedStorage()
    for index in range(5):
        storage.directory.create(
            TopicPartition(TopicName("many"), PartitionIndex(index)), TOPIC_ID, storage.config
        )
    turns: list[Any] = []
    monkeypatch.setattr(storage.schedule, "after", lambda _, action: turns.append(action))
    for index in range(5):
        storage.directory.delete(TopicPartition(TopicName("many"), PartitionIndex(index)))

    def left() -> int:
        return sum(name.startswith("many") for name in storage.disk.list(""))

    seen = [left()]
    while turns:
        (turn,) = turns
        turns.clear()
        turn()
        seen.append(left())
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == set(range(6)), "one directory at a time"
