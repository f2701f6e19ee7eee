"""A restored data directory, and the directories into which nothing is restored."""

import errno
import json
import os
from pathlib import Path

import pytest

from sawlog.backup import backup_restorer
from sawlog.backup.backup_error import BackupError
from sawlog.backup.backup_restorer import restore_backup
from sawlog.backup.manifest import LOGS, Manifest
from sawlog.backup.partition_copy import Bounds
from sawlog.backup.restored_store import EPOCH_STEP, PRODUCER_ID_STEP
from sawlog.cli.commands import run
from sawlog.cluster import znodes
from sawlog.cluster.store_journal import StoreJournal
from sawlog.core.ports import DiskError
from sawlog.log_inspection.log_verifier import verify_logs
from sawlog.log_inspection.segment_reader import find_segments
from sawlog.protocol.control_records import ControlType, EndTransactionMarker, marker_batch
from sawlog.protocol.record_batch import read_header, stamp
from sawlog.protocol.records import Record, build_batch
from sawlog.server.coordination import require_embedded_store
from sawlog.server.disk import DirectoryInUse, RealDisk
from sawlog.storage import log_files
from sawlog.storage.open_transactions import AbortedTransaction
from sawlog.storage.producer_state import ProducerStates
from sawlog.storage.transaction_index import encode_aborted
from support.backup.partition_files import (
    ORDERS,
    ORDERS_ID,
    PRODUCER_ID,
    PartitionFiles,
    Progress,
    batch,
    values_in,
    write_backup,
)
from support.storage.damage import flip

FIRST = log_files.offset_name(0, log_files.LOG)


@pytest.fixture
def files(tmp_path: Path) -> PartitionFiles:
    files = PartitionFiles(tmp_path / "data")
    files.write(0, batch(0, 3, epoch=1))
    files.write(3, batch(3, 200, epoch=2), batch(203, 1, epoch=2))
    return files


@pytest.fixture
def backup(files: PartitionFiles, tmp_path: Path) -> Path:
    write_backup(tmp_path / "backup", files, Bounds(1, 203), {"index.interval.bytes": "100"})
    return tmp_path / "backup"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "restored"


def restore(backup: Path, target: Path, node_id: int | None = None) -> Manifest:
    return restore_backup(backup, target, Progress(), node_id=node_id).manifest


def opened(target: Path) -> RealDisk:
    return RealDisk(str(target), lambda _: None)


def test_logs_have_the_same_records_and_offsets(
    backup: Path, target: Path, files: PartitionFiles
) -> None:
    restore(backup, target)
    wanted = {offset: v for offset, v in values_in(files.directory).items() if offset < 203}
    assert values_in(target / "orders-0") == wanted
    ends = log_files.decode_offsets((target / log_files.RECOVERY_POINTS).read_bytes())
    starts = log_files.decode_offsets((target / log_files.START_OFFSETS).read_bytes())
    watermarks = log_files.decode_offsets((target / log_files.WATERMARKS).read_bytes())
    assert (ends, starts, watermarks) == ({ORDERS: 203}, {ORDERS: 1}, {ORDERS: 203})
    epochs = (target / "orders-0" / log_files.EPOCH_CHECKPOINT).read_bytes()
    assert log_files.decode_epochs(epochs) == [(1, 1), (2, 3)]


def test_indexes_and_snapshots_are_built_and_the_stop_was_clean(backup: Path, target: Path) -> None:
    restore(backup, target)
    found = find_segments(target)
    assert verify_logs(found, read_records=True, progress=Progress()).problems == []
    names = {path.name for path in (target / "orders-0").iterdir()}
    assert {log_files.offset_name(0, suffix) for suffix in (".index", ".timeindex")} <= names
    assert (target / log_files.CLEAN_SHUTDOWN).exists()
    assert not (target / log_files.RESTORING).exists()


def test_the_state_of_producers_is_that_of_the_log(tmp_path: Path, target: Path) -> None:
    files = PartitionFiles(tmp_path / "data")
    records = [Record(0, 1_700_000_000_000, None, b"x")] * 3
    produced = build_batch(records, producer_id=77, producer_epoch=2, base_sequence=5)
    files.write(0, produced)
    write_backup(tmp_path / "backup", files, Bounds(0, 3))
    assert restore_backup(tmp_path / "backup", target, Progress()).producers == 1
    states = ProducerStates()
    states.load((target / "orders-0" / log_files.offset_name(3, ".snapshot")).read_bytes())
    assert states.check(read_header(produced)) is not None  # a duplicate


def test_aborted_transactions_are_aborted_after_the_restore(tmp_path: Path, target: Path) -> None:
    files = PartitionFiles(tmp_path / "data")
    records = [Record(0, 1_700_000_000_000, None, b"x")] * 3
    produced = build_batch(
        records, producer_id=77, producer_epoch=2, base_sequence=0, transactional=True
    )
    marker = marker_batch(EndTransactionMarker(ControlType.ABORT, 1), 77, 2, 1_700_000_000_000)
    stamp(memoryview(marker), 3, 0)
    files.write(0, produced + marker)
    write_backup(tmp_path / "backup", files, Bounds(0, 4))
    restore(tmp_path / "backup", target)
    index = target / "orders-0" / log_files.offset_name(0, log_files.TRANSACTION_INDEX)
    assert index.read_bytes() == encode_aborted([AbortedTransaction(77, 0, 3, 4)])


def test_the_directory_has_the_old_cluster_id_and_a_new_directory_id(
    backup: Path, tmp_path: Path
) -> None:
    metas = []
    for name in ("one", "two"):
        restore(backup, tmp_path / name, node_id=7)
        data = (tmp_path / name / log_files.META_PROPERTIES).read_bytes()
        metas.append(log_files.decode_meta_properties(data))
    assert [(meta.cluster_id, meta.node_id) for meta in metas] == [("cluster-of-test", 7)] * 2
    assert metas[0].directory_id != metas[1].directory_id


def test_the_store_has_topics_configs_and_higher_epochs(backup: Path, target: Path) -> None:
    restore(backup, target, node_id=7)
    disk = opened(target)
    tree = StoreJournal(disk).open()
    assignment = znodes.decode_assignment(tree.get("/brokers/topics/orders"))
    assert (assignment.topic_id, assignment.replicas) == (ORDERS_ID, ((7,),))
    configs = znodes.decode_configs(tree.get("/config/topics/orders"))
    assert configs == {"index.interval.bytes": "100"}
    state = znodes.decode_state(tree.get("/brokers/topics/orders/partitions/0/state"))
    assert (state.leader, state.isr, state.leader_epoch) == (7, (7,), 3 + EPOCH_STEP)
    assert znodes.decode_cluster_id(tree.get("/cluster/id")) == "cluster-of-test"
    block = json.loads(tree.get("/latest_producer_id_block").data)
    assert int(block["block_start"]) == PRODUCER_ID + PRODUCER_ID_STEP
    assert tree.children("/config/brokers") == ["7", "<default>"]
    assert znodes.decode_configs(tree.get("/config/brokers/7")) == {"num.io.threads": "3"}
    assert tree.children("/config/groups") == ["a%2Fb"]
    disk.close()


@pytest.mark.parametrize("name", ["orders-0", "meta.properties", "notes.txt", ".hidden"])
def test_a_directory_with_anything_in_it_is_not_touched(
    backup: Path, target: Path, name: str
) -> None:
    target.mkdir()
    (target / name).write_text("mine")
    with pytest.raises(BackupError, match="is not empty"):
        restore(backup, target)
    assert [path.name for path in target.iterdir()] == [name]
    assert (target / name).read_text() == "mine"


def test_an_existing_empty_directory_is_used(backup: Path, target: Path) -> None:
    (target / "lost+found").mkdir(parents=True)
    restore(backup, target)
    assert (target / log_files.META_PROPERTIES).exists()


def test_a_directory_that_a_broker_owns_is_refused(backup: Path, target: Path) -> None:
    owner = opened(target)
    owner.lock()
    with pytest.raises(DirectoryInUse):
        restore(backup, target)
    owner.close()
    restore(backup, target)


def test_a_damaged_backup_is_not_restored(backup: Path, target: Path) -> None:
    flip(backup / LOGS / "orders-0" / FIRST, 70)
    with pytest.raises(BackupError, match=r"the backup is damaged: .*checksum does not match"):
        restore(backup, target)
    check_refused(backup, target)


def test_a_full_disk_is_reported_with_what_to_do(
    backup: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "orders-0/x.log")

    with monkeypatch.context() as patch:
        patch.setattr(backup_restorer, "copy_file", full)
        text = f"^orders-0/x.log: No space left on device; {target} was only partly restored"
        with pytest.raises(BackupError, match=text):
            restore(backup, target)
    check_refused(backup, target)


def test_a_backup_without_one_of_its_files_leaves_the_directory_empty(
    backup: Path, target: Path
) -> None:
    (backup / LOGS / "orders-0" / FIRST).unlink()
    with pytest.raises(BackupError, match="is missing; nothing was restored"):
        restore(backup, target)
    assert not target.exists()


STEPS = ["copy_file", "log_config", "LogDirectory", "restored_tree", "create_store"]


class Killed(BaseException):
    pass


@pytest.mark.parametrize("step", STEPS)
def test_no_broker_starts_on_an_interrupted_restore(
    backup: Path, target: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(backup_restorer, step, killed)
        with pytest.raises(Killed):
            restore(backup, target)
    check_refused(backup, target)


def test_no_broker_starts_before_the_mark_is_removed(
    backup: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(RealDisk, "remove", killed)
        with pytest.raises(Killed):
            restore(backup, target)
    check_refused(backup, target)


def check_refused(backup: Path, target: Path) -> None:
    """Neither a broker nor a restore uses the directory until it is emptied."""
    disk = opened(target)
    with pytest.raises(DiskError, match="a restore into this directory was interrupted"):
        require_embedded_store(disk)
    disk.close()
    with pytest.raises(BackupError, match="was interrupted: delete everything in it"):
        restore(backup, target)


def test_a_topic_with_gaps_keeps_all_segments(tmp_path: Path, target: Path) -> None:
    """It was compacted once; its policy is `delete` now, which knows no gaps."""
    files = PartitionFiles(tmp_path / "data")
    files.write(0, batch(1, 1))
    files.write(10, batch(12, 1))
    files.write(20, batch(20, 1))
    write_backup(tmp_path / "backup", files, Bounds(0, 21), {"cleanup.policy": "delete"})
    restore(tmp_path / "backup", target)
    assert list(values_in(target / "orders-0")) == [1, 12, 20]


def test_the_command_reports_what_it_restored(
    backup: Path, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backup", "restore", str(backup), "--data", str(target), "--json"]) == 0
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert summary["node_id"] == 1
    (partition,) = summary["topics"][0]["partitions"]
    assert (partition["start_offset"], partition["end_offset"]) == (1, 203)
    assert err.endswith(f"start it with sawlog broker --data {target}\n")
    assert run(["backup", "restore", str(backup), "--data", str(target)]) == 1
    _, err = capsys.readouterr()
    assert err.startswith(f"sawlog: {target} is not empty (")
    assert len(err.splitlines()) == 1
    assert os.listdir(target)


def test_nothing_is_restored_into_the_backup(backup: Path) -> None:
    with pytest.raises(BackupError, match="is in the backup"):
        restore(backup, backup / "data")
    assert not (backup / "data").exists()


def test_restoring_a_directory_that_is_no_backup_says_so(
    tmp_path: Path, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backup", "restore", str(tmp_path), "--data", str(target)]) == 1
    assert "is not a backup: it has no manifest.json" in capsys.readouterr().err
    assert not target.exists()
