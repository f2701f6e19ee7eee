"""Verification of a backup finds every kind of damage, and names the file."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sawlog.backup.backup_verifier import verify_backup
from sawlog.backup.manifest import LOGS, MANIFEST
from sawlog.backup.partition_copy import Bounds
from sawlog.cli.commands import run
from sawlog.storage import log_files
from support.backup.manifests import Change, signed
from support.backup.partition_files import OTHER_ID, PartitionFiles, Progress, batch, write_backup
from support.storage.damage import cut, flip

FIRST = log_files.offset_name(0, log_files.LOG)
SECOND = log_files.offset_name(3, log_files.LOG)


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    files = PartitionFiles(tmp_path / "data")
    files.write(0, batch(0, 3))
    files.write(3, batch(3, 2), batch(5, 2))
    write_backup(tmp_path / "backup", files, Bounds(1, 7))
    return tmp_path / "backup"


def problems(backup: Path) -> list[str]:
    return verify_backup(backup, Progress()).problems


def test_a_complete_backup_has_no_problems(backup: Path) -> None:
    progress = Progress()
    assert verify_backup(backup, progress).problems == []
    assert progress.bytes == len(batch(0, 3) + batch(3, 2) + batch(5, 2))


def test_every_flipped_byte_of_a_segment_is_found(backup: Path) -> None:
    for name in (FIRST, SECOND):
        path = backup / LOGS / "orders-0" / name
        for position in range(0, path.stat().st_size, 3):
            flip(path, position)
            assert f"{path}: the checksum does not match" in problems(backup)
            flip(path, position)
    assert problems(backup) == []


def remove(path: Path) -> None:
    path.unlink()


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def shorten(path: Path) -> None:
    cut(path, path.stat().st_size - 1)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [(remove, "is missing"), (append, "the manifest says"), (shorten, "the manifest says")],
)
@pytest.mark.parametrize(
    "name", [FIRST, SECOND, log_files.EPOCH_CHECKPOINT, log_files.PARTITION_METADATA]
)
def test_a_file_of_the_wrong_size_is_found(
    backup: Path, name: str, spoil: Callable[[Path], None], reason: str
) -> None:
    path = backup / LOGS / "orders-0" / name
    spoil(path)
    assert any(str(path) in problem and reason in problem for problem in problems(backup))


def test_a_file_that_the_manifest_does_not_list_is_found(backup: Path) -> None:
    stray = backup / LOGS / "orders-0" / log_files.offset_name(9, log_files.LOG)
    stray.write_bytes(batch(9))
    assert problems(backup) == [f"{stray}: the manifest does not list this file"]


def change_manifest(backup: Path, change: Change) -> None:
    path = backup / MANIFEST
    path.write_bytes(signed(path.read_bytes(), change))


def rewrite(backup: Path, name: str, data: bytes) -> None:
    """Replace a file and its entry in the manifest: only the contents can show what is wrong."""
    (backup / LOGS / "orders-0" / name).write_bytes(data)

    def change(body: Any) -> None:
        for file in body["topics"][0]["partitions"][0]["files"]:
            if file["name"] == name:
                file.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())

    change_manifest(backup, change)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        (SECOND, batch(3, 2), "ends at offset 5 instead of 7"),
        (SECOND, batch(3, 2) + batch(6, 1), "offsets are missing"),
        (SECOND, batch(3, 2) + batch(4, 3), "offset 4 follows"),
        (SECOND, batch(3, 2) + batch(5, 2) + batch(7, 1), "bytes after the last batch"),
        (SECOND, batch(3, 2, epoch=2) + batch(5, 2, epoch=2), "leader epochs"),
        (log_files.PARTITION_METADATA, log_files.encode_partition_metadata(OTHER_ID), "topic id"),
        (log_files.PARTITION_METADATA, b"version: 9", "partition.metadata"),
        (log_files.EPOCH_CHECKPOINT, b"0\n1\n0 0", "the last line is cut off"),
    ],
)
def test_batches_and_small_files_must_agree(
    backup: Path, name: str, data: bytes, reason: str
) -> None:
    rewrite(backup, name, data)
    assert any(reason in problem for problem in problems(backup)), problems(backup)


def test_a_backup_that_begins_too_late_is_found(backup: Path) -> None:
    (backup / LOGS / "orders-0" / FIRST).unlink()
    change_manifest(backup, lambda body: body["topics"][0]["partitions"][0]["files"].pop(0))
    assert any("begins after the offset 1" in problem for problem in problems(backup))


def test_the_command_prints_problems_and_exits_with_1(
    backup: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backup", "verify", str(backup), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["problems"] == []
    assert "no problems found" in err
    flip(backup / LOGS / "orders-0" / FIRST, 70)
    assert run(["backup", "verify", str(backup)]) == 1
    out, err = capsys.readouterr()
    assert f"{FIRST}: the checksum does not match" in out
    assert f"{FIRST}: position 0: the batch does not match its CRC" in out
    assert err == f"sawlog: 2 problems found in {backup}\n"
