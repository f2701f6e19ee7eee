"""Look-ups by timestamp, also where a batch is too large to be opened."""

import pytest

from sawlog.protocol.compression import Codec
from sawlog.protocol.records import Record
from sawlog.storage import segments
from sawlog.storage.log import Log
from sawlog.storage.log_config import LogConfig
from support.storage.logs import SimulatedStorage, append


def append_batch(log: Log, *times: int, codec: Codec = Codec.NONE, value: bytes = b"") -> None:
    """Append one batch of records with these timestamps."""
    contents = [Record(number, time, None, value) for number, time in enumerate(times)]
    append(log, contents, codec=codec)


@pytest.fixture
def log() -> Log:
    """Two batches of five records."""
    log = SimulatedStorage().log
    append_batch(log, 1, 2, 3, 4, 5)
    append_batch(log, 11, 12, 13, 14, 15)
    return log


def test_a_record_within_the_limit_of_a_large_batch_is_found(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "MAX_RECORDS_OPENED", 3)
    assert log.offset_for_timestamp(12, 10) == (6, 12, 0)
    assert log.offset_for_timestamp(13, 10) == (7, 13, 0)


def test_a_batch_with_too_many_records_is_answered_with_its_start(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "MAX_RECORDS_OPENED", 3)
    assert log.offset_for_timestamp(14, 10) == (5, 15, 0), "before the record, never after it"
    assert log.offset_of_max_timestamp(10) == (5, 15, 0)
    log.advance_start(7)
    assert log.offset_for_timestamp(14, 10) == (7, 15, 0), "deleted records are not returned"


def test_a_batch_that_decompresses_to_too_much_is_answered_with_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(segments, "MAX_DECOMPRESSED_BYTES", 1 << 14)
    log = SimulatedStorage().log
    append_batch(log, 1)
    append_batch(log, 11, 12, 13, codec=Codec.ZSTD, value=bytes(1 << 13))
    assert log.offset_for_timestamp(13, 4) == (1, 13, 0), "before the record, never after it"
    assert log.offset_of_max_timestamp(4) == (1, 13, 0)
    log.advance_start(2)
    assert log.offset_for_timestamp(13, 4) == (2, 13, 0), "deleted records are not returned"


def test_deleted_records_are_not_found_by_timestamp() -> None:
    log = SimulatedStorage().log
    append_batch(log, 20, 1, 2)
    append_batch(log, 3, 4)
    append_batch(log, 19, 20, 21)
    log.advance_start(1)
    assert log.offset_for_timestamp(20, 8) == (6, 20, 0)
    assert log.offset_for_timestamp(20, 5) is None, "beyond the limit"


def test_the_highest_timestamp_is_searched_from_the_last_time_index_entry() -> None:
    storage = SimulatedStorage(LogConfig(index_interval_bytes=1000))
    log = storage.log
    for time in range(3_000):
        append_batch(log, time)
    storage.disk.reads.clear()
    assert log.offset_of_max_timestamp(2_990) == (2_989, 2_989, 0)
    size = log.segments.active.file.size
    first = min(position for path, position, _ in storage.disk.reads if path.endswith(".log"))
    assert first > size * 0.9, "however long the segment is"


@pytest.mark.parametrize("is_reopened", [False, True])
@pytest.mark.parametrize("start_offset", [0, 5, 17])
def test_the_highest_timestamp_is_that_of_the_range(start_offset: int, is_reopened: bool) -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=1500, index_interval_bytes=150))
    times = [int(digit) for digit in "314159265358979323846264338327"]
    for time in times:
        append_batch(storage.log, time, value=bytes(30))
    assert len(storage.log.segments) > 1
    storage.log.advance_start(start_offset)
    if is_reopened:
        storage.restart()
    for limit in range(start_offset + 1, len(times) + 1):
        highest = max(times[start_offset:limit])
        expected = times.index(highest, start_offset)
        assert storage.log.offset_of_max_timestamp(limit) == (expected, highest, 0)
