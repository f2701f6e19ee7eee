"""Copies of files: whole, independent of their source, and possible on every file system."""

import errno
import os
from pathlib import Path

import pytest

from sawlog.backup import file_copy
from sawlog.backup.file_copy import copy_file, write_atomically


def copied(source: Path, target: Path, size: int) -> int:
    with source.open("rb") as read, target.open("wb") as written:
        return copy_file(read, written, size)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(os.urandom(100_000))
    return path


def test_a_copy_does_not_change_with_its_source(source: Path, tmp_path: Path) -> None:
    before = source.read_bytes()
    assert copied(source, tmp_path / "copy", 100_000) == 100_000
    with source.open("r+b") as file:
        file.write(b"overwritten")
        file.truncate(50)
    assert (tmp_path / "copy").read_bytes() == before
    assert (tmp_path / "copy").stat().st_nlink == 1


def test_a_copy_ends_at_the_given_size(source: Path, tmp_path: Path) -> None:
    assert copied(source, tmp_path / "copy", 70_001) == 70_001
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()[:70_001]


def test_a_source_that_is_shorter_is_reported(source: Path, tmp_path: Path) -> None:
    assert copied(source, tmp_path / "copy", 200_000) == 100_000


def unsupported(code: int) -> object:
    def call(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return call


@pytest.mark.parametrize("code", [errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP])
def test_bytes_are_copied_where_the_system_has_no_faster_way(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(file_copy.fcntl, "ioctl", unsupported(code))
    monkeypatch.setattr(file_copy.os, "copy_file_range", unsupported(code))
    monkeypatch.setattr(file_copy, "_CHUNK_BYTES", 30_000)
    assert copied(source, tmp_path / "copy", 90_000) == 90_000
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()[:90_000]


def test_a_full_disk_is_an_error(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_copy.fcntl, "ioctl", unsupported(errno.EOPNOTSUPP))
    monkeypatch.setattr(file_copy.os, "copy_file_range", unsupported(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left") as raised:
        copied(source, tmp_path / "copy", 90_000)
    assert raised.value.filename == str(tmp_path / "copy")


def test_a_small_file_is_complete_or_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_copy.os, "fsync", unsupported(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        write_atomically(tmp_path / "manifest.json", b"content")
    assert list(tmp_path.iterdir()) == []
