"""Recovery from flipped bytes and truncation in every kind of file.

| file | outcome |
|---|---|
| log, at or after the recovery point | cut at the first bad batch (test_recovery) |
| log, below it | reported; nothing after it is truncated; reading the batch is CORRUPT_MESSAGE |
| log, truncated below it | reported; the missing offsets are never assigned again |
| offset index, time index | detected when used, rebuilt |
| producer snapshot | detected by its CRC; rebuilt from an older one and the batches |
| leader-epoch-checkpoint | rebuilt from the batches |
| recovery-point-offset-checkpoint | the whole log is checked |
| log-start-offset-checkpoint | the log starts with its first segment |
| replication-offset-checkpoint | high watermarks are unknown |
| partition.metadata | the topic id is taken from the cluster metadata |
| clean-shutdown marker | ignored |
| meta.properties | rewritten |
"""

import logging

import pytest

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NO_TOPIC_ID
from sawlog.storage.log_config import LogConfig
from support.storage.logs import TP, SimulatedStorage, append, headers_in, read, records

FLIPS = [0, 3, 8, 11, 12, 16, 17, 21, 23, 30, 57, 61, 90]
CUTS = [0, 1, 5, 8, 12, 17, 23]


def storage_with_records(**config: object) -> SimulatedStorage:
    """Thirty batches of two records in segments of ten, two producers, three epochs."""
    storage = SimulatedStorage(LogConfig(segment_bytes=1_500, index_interval_bytes=300, **config))  # type: ignore[arg-type]
    for number in range(30):
        append(
            storage.log,
            records(2, timestamp=storage.now_ms + number, value=b"%030d" % number),
            epoch=number // 10,
            producer_id=number % 2,
            producer_epoch=0,
            base_sequence=number // 2 * 2,
        )
    assert len(storage.log.segments) >= 3
    return storage


def flip(storage: SimulatedStorage, path: str, position: int) -> None:
    data = storage.disk.read_file(path)
    position = min(position, len(data) - 1)
    storage.disk.overwrite(path, position, bytes([data[position] ^ 0x04]))


def assert_complete(storage: SimulatedStorage) -> None:
    """Assert that all batches are found by offset and by timestamp, with epochs and producers."""
    log = storage.log
    assert [header.base_offset for header in headers_in(log)] == list(range(0, 60, 2))
    for number in range(30):
        piece = read(log, number * 2 + 1, 1)
        assert piece is not None
        assert b"%030d" % number in piece.read()
        found = log.offset_for_timestamp(1_700_000_000_000 + number, 60)
        assert found is not None
        assert found.offset == number * 2
    assert log.end_offset_for_epoch(1) == (1, 40)
    assert log.epochs.entries == ((0, 0), (1, 20), (2, 40))
    states = log.producer_states.states
    assert {id_: state.batches[-1].last_sequence for id_, state in states.items()} == {0: 29, 1: 29}


def files_with(storage: SimulatedStorage, suffix: str) -> list[str]:
    return [f"{TP}/{name}" for name in storage.disk.list(str(TP)) if name.endswith(suffix)]


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"])
@pytest.mark.parametrize("position", FLIPS)
def test_a_derived_file_with_a_flipped_byte_is_rebuilt(
    suffix: str, position: int, is_clean: bool
) -> None:
    storage = storage_with_records()
    storage.restart()
    stop(storage, is_clean)
    for path in files_with(storage, suffix):
        if storage.disk.read_file(path):
            flip(storage, path, position)
    storage.open()
    assert_complete(storage)
    storage.restart()
    assert_complete(storage)


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"])
@pytest.mark.parametrize("size", CUTS)
def test_a_truncated_derived_file_is_rebuilt(suffix: str, size: int, is_clean: bool) -> None:
    storage = storage_with_records()
    storage.restart()
    stop(storage, is_clean)
    for path in files_with(storage, suffix):
        storage.disk.cut(path, size)
    storage.open()
    assert_complete(storage)


def test_missing_derived_files_are_rebuilt() -> None:
    storage = storage_with_records()
    storage.restart()
    stop(storage, is_clean=True)
    for suffix in (".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"):
        for path in files_with(storage, suffix):
            storage.disk.remove(path)
    storage.open()
    assert_complete(storage)


def stop(storage: SimulatedStorage, is_clean: bool) -> None:
    if is_clean:
        storage.directory.close_cleanly()
    storage.kill()


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"]
)
@pytest.mark.parametrize("position", [0, 1, 2, 4, 10, 11, 12, 13])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_flipped_byte_in_a_checkpoint_loses_nothing(
    name: str, position: int, is_clean: bool
) -> None:
    storage = storage_with_records()
    storage.checkpoint()
    stop(storage, is_clean)
    flip(storage, name, position)
    storage.open()
    assert_complete(storage)
    assert storage.append(epoch=3).base_offset == 60


@pytest.mark.parametrize("size", [0, 1, 3, 5, 12])
def test_without_a_recovery_point_the_whole_log_is_checked(size: int) -> None:
    storage = storage_with_records()
    storage.checkpoint()
    storage.kill()
    storage.disk.cut("recovery-point-offset-checkpoint", size)
    storage.disk.reads.clear()
    storage.open()
    assert_complete(storage)
    assert storage.log.flushed_offset == 0


def test_a_recovery_point_beyond_the_log_is_corrected() -> None:
    storage = storage_with_records()
    storage.checkpoint()
    storage.kill()
    storage.disk.replace("recovery-point-offset-checkpoint", b"0\n1\ntopic 0 960\n")
    storage.open()
    assert_complete(storage)
    assert storage.log.flushed_offset <= 60
    text = storage.disk.read_file("recovery-point-offset-checkpoint")
    assert int(text.split()[-1]) <= 60, "corrected before the first append"


@pytest.mark.parametrize("text", [b"", b"0\n1\ntopic 0 9999\n", b"garbage"])
def test_an_impossible_start_offset_is_ignored(text: bytes) -> None:
    storage = storage_with_records()
    storage.log.advance_start(5)
    storage.checkpoint()
    storage.kill()
    storage.disk.replace("log-start-offset-checkpoint", text)
    storage.open()
    assert storage.log.start_offset == 0
    assert_complete(storage)


def test_a_log_with_corrupt_partition_metadata_has_no_topic_id() -> None:
    storage = storage_with_records()
    storage.restart()
    storage.kill()
    flip(storage, f"{TP}/partition.metadata", 3)
    storage.open()
    assert storage.log.topic_id == NO_TOPIC_ID
    assert_complete(storage)


def test_a_corrupt_clean_shutdown_marker_is_ignored() -> None:
    storage = storage_with_records()
    storage.directory.close_cleanly()
    storage.kill()
    flip(storage, ".kafka_cleanshutdown", 0)
    storage.open()
    assert not storage.directory.was_clean
    assert_complete(storage)


def test_corrupt_meta_properties_are_rewritten() -> None:
    storage = SimulatedStorage()
    storage.directory.identify("cluster", 1)
    flip(storage, "meta.properties", 3)
    storage.directory.identify("cluster", 1)
    assert b"cluster.id=cluster\n" in storage.disk.read_file("meta.properties")


# The log itself, below the recovery point


@pytest.mark.parametrize("within", [8, 9, 16, 20, 30, 57, 60, 70, 100])
@pytest.mark.parametrize("number", [-4, -1])
def test_damage_below_the_recovery_point_drops_nothing(
    number: int, within: int, caplog: pytest.LogCaptureFixture
) -> None:
    storage = storage_with_records()
    storage.checkpoint()
    path = f"{TP}/{storage.log.segments.base_offsets[-1]:020d}.log"
    header = headers_in(storage.log)[number]
    position = storage.log.segments.active.position_of(header.base_offset)
    storage.kill()
    flip(storage, path, position + within)
    with caplog.at_level(logging.WARNING):
        storage.open()
    assert storage.log.end_offset == 60
    if within < 17 and number == -1:
        assert "damage" in caplog.text, "recovery meets the damaged header and reports it"
    for offset in (0, 30, header.base_offset - 2, header.next_offset):
        if offset < 60:
            assert read(storage.log, offset, 1) is not None
    if within < 17:  # else only the CRC shows it, which the consumer checks
        with pytest.raises(KafkaError) as error:
            read(storage.log, header.base_offset)
        assert error.value.code == ErrorCode.CORRUPT_MESSAGE
    assert storage.append(epoch=3).base_offset == 60
    storage.recover()
    assert storage.log.end_offset == 61
    assert read(storage.log, 60, 1) is not None


@pytest.mark.parametrize("within", [0, 1, 5, 7, 23, 24, 25, 26])
@pytest.mark.parametrize("number", [-4, -3, -2, -1])
@pytest.mark.parametrize("has_later_batches", [False, True])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_wrong_offsets_below_the_recovery_point_drop_nothing(
    policy: str, has_later_batches: bool, number: int, within: int, caplog: pytest.LogCaptureFixture
) -> None:
    storage = storage_with_records(cleanup_policy=frozenset({policy}))
    storage.log.set_high_watermark(60)
    storage.checkpoint()
    path = f"{TP}/{storage.log.segments.base_offsets[-1]:020d}.log"
    header = headers_in(storage.log)[number]
    position = storage.log.segments.active.position_of(header.base_offset)
    if has_later_batches:
        storage.append(3, epoch=3)
    end_offset = storage.log.end_offset
    size = storage.disk.open(path).size
    remove_indexes(storage)
    storage.kill()
    flip(storage, path, position + within)
    with caplog.at_level(logging.WARNING):
        storage.open()
    assert storage.disk.open(path).size == size
    assert "torn tail truncated" not in caplog.text
    could_be_a_gap = policy == "compact" and number == -1 and not has_later_batches
    if not could_be_a_gap:
        assert storage.log.end_offset == end_offset
        assert "damage below the recovery point" in caplog.text


def remove_indexes(storage: SimulatedStorage) -> None:
    """Remove the indexes, so that recovery reads every header below the recovery point."""
    for suffix in (".index", ".timeindex"):
        for path in files_with(storage, suffix):
            storage.disk.remove(path)


def test_damage_in_an_old_segment_is_found_when_it_is_read() -> None:
    storage = storage_with_records()
    storage.checkpoint()
    storage.kill()
    flip(storage, f"{TP}/{0:020d}.log", 16)
    storage.open()
    assert storage.log.end_offset == 60
    with pytest.raises(KafkaError) as error:
        read(storage.log, 1, 1)
    assert error.value.code == ErrorCode.CORRUPT_MESSAGE
    assert read(storage.log, 4, 1) is not None
    assert storage.append(epoch=3).base_offset == 60


@pytest.mark.parametrize("left", [0, 30, 61, 100, 250])
def test_a_log_truncated_below_the_recovery_point_assigns_no_offset_twice(
    left: int, caplog: pytest.LogCaptureFixture
) -> None:
    storage = storage_with_records()
    storage.log.set_high_watermark(60)
    storage.checkpoint()
    storage.kill()
    base = storage.log.segments.base_offsets[-1]
    storage.disk.cut(f"{TP}/{base:020d}.log", left)
    with caplog.at_level(logging.ERROR):
        storage.open()
    assert "log ends before its recovery point" in caplog.text
    assert storage.log.end_offset == 60
    assert storage.append(epoch=3).base_offset == 60
    storage.flush()
    storage.recover()
    assert storage.log.end_offset == 61
    assert read(storage.log, 60) is not None
