"""How the log cleaner looks for dirty logs: in slices, at an interval, with the newest settings."""

from dataclasses import replace

import pytest

from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.storage.cleaner import log_cleaner
from sawlog.storage.cleaner.cleaner_worker import CleanerWorker
from support.storage.compaction import BACKOFF_MS, CompactedStorage, compacted
from support.storage.logs import TOPIC_ID


class CountingStorage(CompactedStorage):
    """A storage that counts the workers that its cleaner starts and stops."""

    def __init__(self, **cleaner: object) -> None:
        self.rates: list[float] = []
        super().__init__(**cleaner)

    def _start_cleaner(self, rate: float) -> CleanerWorker:
        self.rates.append(rate)
        return super()._start_cleaner(rate)


def with_dirty_logs(storage: CompactedStorage, count: int) -> None:
    for number in range(count):
        tp = TopicPartition(TopicName("many"), PartitionIndex(number))
        log = storage.directory.create(tp, TOPIC_ID, compacted())
        storage.fill(10, log=log)
    storage.settle()


def test_a_look_leaves_time_for_other_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_cleaner, "EXAMINED_AT_ONCE", 3)
    storage = CompactedStorage(enable=True)
    with_dirty_logs(storage, 10)
    cleaner = storage.directory.cleaner
    examined: list[int] = []
    examine = cleaner._examine
    monkeypatch.setattr(
        cleaner, "_examine", lambda log: examined.append(log.tp.partition) or examine(log)
    )
    storage.schedule.run(lambda: bool(examined))
    assert examined == [0, 1, 2], "the others come after the events that wait"
    storage.clean()
    assert cleaner.totals.cleanings == 10
    assert sorted(set(examined)) == list(range(10))


def test_a_worker_serves_all_logs_of_a_look_and_ends_with_it() -> None:
    storage = CountingStorage()
    with_dirty_logs(storage, 5)
    storage.clean()
    assert storage.directory.cleaner.totals.cleanings == 5
    assert len(storage.rates) == 1
    assert storage.directory.cleaner._idle == []


def test_threads_are_the_number_of_logs_cleaned_at_a_time() -> None:
    storage = CountingStorage(threads=3, io_max_bytes_per_second=900.0)
    with_dirty_logs(storage, 7)
    cleaner = storage.directory.cleaner
    storage.schedule.run(lambda: len(cleaner._cleanings) == 3)
    storage.clean()
    assert cleaner.totals.cleanings == 7
    assert storage.rates == [300.0] * 3, "they share the rate"


def test_a_worker_with_old_settings_is_not_used_again() -> None:
    storage = CountingStorage(io_max_bytes_per_second=100.0)
    with_dirty_logs(storage, 2)
    cleaner = storage.directory.cleaner
    storage.schedule.run(lambda: bool(cleaner._cleanings))
    cleaner.reconfigure(replace(cleaner.config, io_max_bytes_per_second=200.0))
    storage.clean()
    assert cleaner.totals.cleanings == 2
    assert storage.rates == [100.0, 200.0], "the first cleaning was aborted"


def test_a_backoff_of_zero_does_not_occupy_the_loop() -> None:
    storage = CompactedStorage(backoff_ms=0)
    looks: list[int] = []
    cleaner = storage.directory.cleaner
    look = cleaner._look
    cleaner._look = lambda: (looks.append(storage.now_ms), look())  # type: ignore[method-assign]
    storage.schedule.run_for(1_000)
    assert 10 <= len(looks) <= 1_000 // log_cleaner.MIN_BACKOFF_MS


def test_a_cleaner_that_is_switched_on_begins_to_look() -> None:
    storage = CompactedStorage(enable=False)
    with_dirty_logs(storage, 1)
    storage.schedule.run_for(3 * BACKOFF_MS)
    cleaner = storage.directory.cleaner
    assert cleaner.totals.cleanings == 0
    cleaner.reconfigure(replace(cleaner.config, enable=True))
    storage.clean()
    assert cleaner.totals.cleanings == 1
