"""What becomes of the files of a log that is deleted."""

from typing import Any

import pytest

from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from support.storage.logs import TOPIC_ID, TP, Storage


def test_a_deleted_log_is_gone_with_its_files() -> None:
    storage = Storage()
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


def test_the_files_of_many_deleted_logs_go_one_log_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = Storage()
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
    assert set(seen) == set(range(6)), "none goes together with another"
