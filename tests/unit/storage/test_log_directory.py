"""The data directory: its logs, checkpoints and clean stops."""

import pytest

from sawlog.core.errors import KafkaError
from sawlog.core.ids import NO_TOPIC_ID, PartitionIndex, TopicId, TopicName, TopicPartition
from sawlog.simulation.simulated_disk import Stopped
from sawlog.storage.log_config import LogConfig
from sawlog.storage.log_directory import WrongOwner
from support.storage.logs import TOPIC_ID, TP, SimulatedStorage, append, headers_in, records


def partition(index: int, topic: str = "topic") -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))


def test_a_flushed_new_log_survives_a_crash() -> None:
    for seed in range(10):
        storage = SimulatedStorage(seed=seed)
        storage.directory.create(TP, TOPIC_ID, storage.config)
        storage.flush()
        storage.lose_power()
        storage.open()
        log = storage.directory.logs[TP]
        assert log.topic_id in (TOPIC_ID, NO_TOPIC_ID)
        assert (log.start_offset, log.end_offset) == (0, 0)


def test_a_new_log_that_was_never_flushed_can_be_created_again_after_a_crash() -> None:
    for seed in range(10):
        storage = SimulatedStorage(seed=seed)
        storage.directory.create(TP, TOPIC_ID, storage.config)
        storage.lose_power()
        storage.open()
        log = storage.log
        assert (log.start_offset, log.end_offset) == (0, 0)
        storage.append(3)
        storage.flush()
        storage.lose_power()
        storage.open()
        assert storage.log.end_offset == 3


def test_a_log_is_created_once() -> None:
    storage = SimulatedStorage()
    storage.directory.create(TP, TOPIC_ID, storage.config)
    with pytest.raises(ValueError, match="exists already"):
        storage.directory.create(TP, TOPIC_ID, storage.config)


def test_only_the_temporary_files_of_its_own_checkpoints_are_removed() -> None:
    storage = SimulatedStorage()
    for name in ("meta.properties.7.tmp", "log-start-offset-checkpoint.tmp", "store.reserve.1.tmp"):
        storage.disk.open(name, create=True).append([b"half"])
    storage.open()
    found = [name for name in storage.disk.list("") if name.endswith(".tmp")]
    assert found == ["store.reserve.1.tmp"], "it belongs to the embedded store"


def test_a_log_that_a_full_disk_rejects_can_be_created_later() -> None:
    storage = SimulatedStorage()
    storage.disk.free_bytes = 0
    with pytest.raises(KafkaError):
        storage.directory.create(TP, TOPIC_ID, storage.config)
    assert storage.directory.logs == {}
    storage.disk.free_bytes = None
    storage.directory.create(TP, TOPIC_ID, storage.config)


def remove_log(storage: SimulatedStorage, how: str) -> SimulatedStorage:
    """Checkpoint a log of fifty records that starts at 40, then remove it."""
    for _ in range(50):
        storage.append()
    storage.log.set_high_watermark(50)
    storage.log.advance_start(40)
    storage.checkpoint()
    if how == "set aside":
        storage.directory.set_aside(TP)
    else:
        storage.directory.delete(TP)
        storage.schedule.run_for(1_000)
    if how == "deleted before a crash":
        storage.recover()
    return storage


@pytest.mark.parametrize("how", ["deleted", "set aside", "deleted before a crash"])
@pytest.mark.parametrize("count", [10, 45, 100])
def test_checkpoint_entries_of_a_removed_log_do_not_apply_to_a_new_one(
    how: str, count: int
) -> None:
    storage = remove_log(SimulatedStorage(), how)
    for _ in range(count):
        storage.append()
    storage.flush()
    storage.recover()
    assert [header.base_offset for header in headers_in(storage.log)] == list(range(count))
    assert (storage.log.start_offset, storage.log.end_offset) == (0, count)


@pytest.mark.parametrize("how", ["deleted", "set aside", "deleted before a crash"])
def test_the_recovery_point_of_a_removed_log_does_not_cover_the_tail_of_a_new_one(
    how: str,
) -> None:
    for seed in range(10):
        storage = remove_log(SimulatedStorage(seed=seed), how)
        storage.append(3)
        storage.flush()
        for _ in range(3):
            append(storage.log, records(1, value=bytes(2_000)))
        storage.lose_power()
        storage.open()
        assert 3 <= storage.log.end_offset <= 6
        assert headers_in(storage.log)[-1].next_offset == storage.log.end_offset


def test_a_log_is_not_created_while_checkpoints_have_a_removed_one() -> None:
    storage = remove_log(SimulatedStorage(), "deleted")
    storage.disk.free_bytes = 1
    with pytest.raises(KafkaError):
        storage.directory.create(TP, TOPIC_ID, storage.config)
    assert (storage.directory.logs, storage.directory.offline) == ({}, None)
    storage.disk.free_bytes = None
    storage.append()
    storage.flush()
    storage.recover()
    assert (storage.log.start_offset, storage.log.end_offset) == (0, 1)


def test_a_checkpoint_in_flight_does_not_bring_back_entries_of_a_removed_log() -> None:
    for steps in range(12):
        storage = remove_log(SimulatedStorage(seed=steps), "set aside")
        other = storage.directory.create(partition(1), TOPIC_ID, storage.config)
        append(other, records(1))
        storage.flush(other)
        storage.directory.checkpoint_later()
        for _ in range(steps):
            storage.schedule.step()
        storage.append()
        storage.directory.delete(TP)
        storage.append()
        storage.flush()
        storage.schedule.run_for(100)
        storage.recover()
        assert (storage.log.start_offset, storage.log.end_offset) == (0, 1)


def test_creating_a_log_writes_no_checkpoint_without_a_removed_log_of_its_name() -> None:
    storage = remove_log(SimulatedStorage(), "deleted")
    storage.directory.create(partition(1), TOPIC_ID, storage.config)
    assert b"topic 0 " in storage.disk.read_file("recovery-point-offset-checkpoint")
    append(storage.directory.logs[partition(1)], records(1))
    storage.flush(storage.directory.logs[partition(1)])
    storage.schedule.run_for(6_000)
    operations = storage.disk.operations
    storage.directory.create(TP, TOPIC_ID, storage.config)
    assert storage.disk.operations - operations <= 2, "a directory and a segment"


def test_a_log_can_be_deleted_during_a_flush_and_a_checkpoint() -> None:
    for steps in range(12):
        storage = SimulatedStorage(LogConfig(segment_bytes=300), seed=steps)
        for _ in range(5):
            append(storage.log, records(1, value=bytes(150)))
        outcomes: list[object] = []
        storage.log.flush.when_flushed(outcomes.append)
        storage.directory.checkpoint_later()
        for _ in range(steps):
            storage.schedule.step()
        storage.directory.delete(TP)
        storage.schedule.run_for(20_000)
        assert storage.directory.offline is None
        assert len(outcomes) == 1


def test_an_interrupted_deletion_is_finished_at_the_next_start() -> None:
    removed = 0
    for step in range(1, 15):
        storage = SimulatedStorage()
        storage.append(3)
        storage.flush()
        storage.disk.stop_at = storage.disk.operations + step
        with pytest.raises(Stopped):
            delete_and_wait(storage)
        storage.recover()
        names = [name for name in storage.disk.list("") if name.startswith("topic")]
        if storage.directory.logs:
            assert storage.log.end_offset == 3, "the deletion has not begun"
        else:
            assert names == []
            removed += 1
    assert removed > 3


def delete_and_wait(storage: SimulatedStorage) -> None:
    storage.directory.delete(TP)
    storage.schedule.run_for(1_000)
    raise Stopped


def test_unknown_files_in_the_data_directory_are_kept() -> None:
    storage = SimulatedStorage()
    storage.disk.make_directory("store")
    storage.disk.make_directory("__cluster_metadata-0")
    storage.disk.open("notes-1.txt", create=True)
    storage.recover()
    assert storage.directory.logs == {}
    assert storage.disk.list("") == ["__cluster_metadata-0", "notes-1.txt", "store"]


def test_the_clean_shutdown_marker_exists_only_after_a_clean_stop() -> None:
    storage = SimulatedStorage()
    assert not storage.directory.was_clean
    storage.append(3)
    storage.directory.close_cleanly(broker_epoch=17)
    assert storage.disk.read_file(".kafka_cleanshutdown") == b'{"version": 0, "brokerEpoch": 17}'
    storage.kill()
    storage.open()
    assert storage.directory.was_clean
    assert not storage.disk.exists(".kafka_cleanshutdown")
    storage.lose_power()
    storage.open()
    assert not storage.directory.was_clean


def test_a_clean_stop_flushes_everything() -> None:
    for seed in range(10):
        storage = SimulatedStorage(LogConfig(segment_bytes=400), seed=seed)
        for number in range(10):
            append(
                storage.log,
                records(2, value=bytes(60)),
                producer_id=1,
                producer_epoch=0,
                base_sequence=number * 2,
            )
        expected = headers_in(storage.log)
        states = dict(storage.log.producer_states.states)
        storage.directory.close_cleanly()
        storage.lose_power()
        storage.open()
        assert storage.directory.was_clean
        assert headers_in(storage.log) == expected
        assert storage.log.producer_states.states == states
        assert storage.log.flushed_offset == storage.log.end_offset == 20


def test_a_clean_start_reads_almost_nothing() -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=100_000))
    for number in range(500):
        append(storage.log, records(1, timestamp=storage.now_ms + number, value=bytes(1_000)))
    storage.directory.close_cleanly()
    storage.kill()
    storage.disk.reads.clear()
    storage.open()
    assert storage.log.end_offset == 500
    assert sum(length for _, _, length in storage.disk.reads) < 20_000


def test_a_clean_stop_without_changes_writes_no_snapshots() -> None:
    storage = SimulatedStorage()
    storage.append(3, producer_id=1, producer_epoch=0, base_sequence=0)
    storage.restart()
    storage.disk.operations = 0
    storage.restart()
    assert storage.disk.operations < 30, "three checkpoints and the marker"


def test_the_directory_belongs_to_one_broker() -> None:
    storage = SimulatedStorage()
    storage.directory.identify("cluster", 1)
    storage.restart()
    storage.directory.identify("cluster", 1)
    for cluster_id, node_id in (("cluster", 2), ("other", 1)):
        with pytest.raises(WrongOwner):
            storage.directory.identify(cluster_id, node_id)


def test_a_reserved_directory_id_stays_when_the_cluster_is_known() -> None:
    storage = SimulatedStorage()
    storage.directory.reserve(1)
    reserved = storage.directory.directory_id
    storage.restart()
    assert storage.directory.directory_id == reserved
    storage.directory.identify("cluster", 1)
    storage.restart()
    assert storage.directory.directory_id == reserved
    with pytest.raises(WrongOwner):
        storage.directory.identify("other", 1)


def test_checkpoints_are_written_at_an_interval() -> None:
    storage = SimulatedStorage()
    storage.append(3)
    storage.flush()
    assert not storage.disk.exists("recovery-point-offset-checkpoint")
    storage.log.set_high_watermark(2)
    storage.schedule.run_for(5_001)
    assert storage.disk.read_file("recovery-point-offset-checkpoint") == b"0\n1\ntopic 0 3\n"
    assert storage.disk.read_file("replication-offset-checkpoint") == b"0\n1\ntopic 0 2\n"
    assert storage.disk.read_file("log-start-offset-checkpoint") == b"0\n0\n"
    operations = storage.disk.operations
    storage.schedule.run_for(60_000)
    assert storage.disk.operations == operations, "nothing changed, nothing is written"


def test_high_watermarks_are_written_at_an_interval_of_their_own() -> None:
    storage = SimulatedStorage(watermark_interval_ms=100)
    storage.append(3)
    storage.flush()
    storage.log.set_high_watermark(2)
    storage.schedule.run_for(99)
    assert not storage.disk.exists("replication-offset-checkpoint")
    storage.schedule.run_for(2)
    assert storage.disk.read_file("replication-offset-checkpoint") == b"0\n1\ntopic 0 2\n"


def test_a_roll_is_followed_by_a_checkpoint() -> None:
    storage = SimulatedStorage(LogConfig(segment_bytes=300))
    for number in range(3):
        append(
            storage.log,
            records(1, value=bytes(150)),
            producer_id=1,
            producer_epoch=0,
            base_sequence=number,
        )
    storage.schedule.run_for(10)
    text = storage.disk.read_file("recovery-point-offset-checkpoint")
    assert int(text.split()[-1]) >= 1
    assert 1 in storage.log.producers.snapshot_offsets


def test_many_logs_are_checkpointed_in_rounds() -> None:
    storage = SimulatedStorage()
    for index in range(600):
        log = storage.directory.create(partition(index), TopicId(TOPIC_ID), storage.config)
        append(log, records(1))
        log.flush.when_flushed(lambda error: None)
    storage.schedule.run_for(20_000)
    storage.lose_power()
    storage.open()
    assert {log.flushed_offset for log in storage.directory.logs.values()} == {1}


def test_superseded_snapshots_are_removed() -> None:
    storage = SimulatedStorage()
    for sequence in range(5):
        storage.append(producer_id=1, producer_epoch=0, base_sequence=sequence)
        storage.checkpoint()
    assert storage.log.producers.snapshot_offsets == [5]
    names = [name for name in storage.disk.list(str(TP)) if name.endswith(".snapshot")]
    assert names == ["00000000000000000005.snapshot"]


def test_the_snapshot_of_a_log_without_producers_is_moved() -> None:
    storage = SimulatedStorage()
    for _ in range(4):
        for _ in range(3):
            append(storage.log, records(1, value=bytes(500_000)))
        storage.checkpoint()
    assert storage.log.producers.snapshot_offsets == [12]


def test_with_flush_policy_os_a_checkpoint_flushes_nothing() -> None:
    storage = SimulatedStorage(flushes_at_checkpoint=False)
    storage.append(3)
    storage.flush()
    storage.append(2)
    storage.directory.checkpoint_later()
    storage.schedule.run_for(6_000)
    assert storage.log.flushed_offset == 3
    assert storage.disk.read_file("recovery-point-offset-checkpoint") == b"0\n1\ntopic 0 3\n"


def test_with_flush_policy_os_a_snapshot_is_not_moved_past_unflushed_batches() -> None:
    storage = SimulatedStorage(flushes_at_checkpoint=False)
    producer: dict[str, object] = {"producer_id": 1, "producer_epoch": 0}
    storage.append(base_sequence=0, **producer)
    storage.checkpoint()
    assert storage.log.producers.snapshot_offsets == [1]
    for sequence in (1, 2, 3):
        value = bytes(500_000)
        append(storage.log, records(1, value=value), base_sequence=sequence, **producer)
    storage.flush()
    storage.append(producer_id=2, producer_epoch=0, base_sequence=0)
    storage.directory.checkpoint_later()
    storage.schedule.run_for(6_000)
    assert (storage.log.flushed_offset, storage.log.end_offset) == (4, 5)
    storage.recover()
    for sequence in (0, 1, 2, 3):
        assert storage.append(base_sequence=sequence, **producer).duplicate
    assert storage.append(base_sequence=4, **producer).base_offset == 5
