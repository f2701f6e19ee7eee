"""Atomic creation: a name is created once, complete and durable, or not at all."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sawlog.pipeline.delta.errors import UnsupportedStorage
from sawlog.pipeline.delta.local_storage import LocalStorage


def test_of_many_writers_that_create_a_name_one_succeeds(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    for number in range(20):
        with ThreadPoolExecutor(8) as pool:
            won = list(
                pool.map(
                    lambda writer, name=f"log/{number}": storage.put_if_absent(
                        name, b"%d" % writer
                    ),
                    range(8),
                )
            )
        assert sum(won) == 1
        assert storage.read(f"log/{number}") == b"%d" % won.index(True)
    assert len(os.listdir(tmp_path / "log")) == 20


def test_a_name_appears_only_when_its_bytes_are_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, link = os.fsync, os.link
    monkeypatch.setattr(
        os, "fsync", lambda fd: (steps.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd))
    )
    monkeypatch.setattr(os, "link", lambda a, b: (steps.append(f"link {b}"), link(a, b)))
    assert LocalStorage(tmp_path).put_if_absent("log/1", b"data")
    aside, linked, directory = steps
    assert os.path.basename(aside).startswith(".sawlog-")
    assert linked == f"link {tmp_path}/log/1"
    assert directory == str(tmp_path / "log")


def test_a_failure_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        LocalStorage(tmp_path).put_if_absent("log/1", b"data")
    assert os.listdir(tmp_path / "log") == []


def test_a_file_system_without_hard_links_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(UnsupportedStorage, match="without hard links"):
        LocalStorage(tmp_path).put_if_absent("log/1", b"data")


def test_a_link_whose_reply_was_lost_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS retries after a lost reply and then finds the name taken, by ourselves."""
    link = os.link

    def answer_twice(source: str, target: str) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", answer_twice)
    assert LocalStorage(tmp_path).put_if_absent("log/1", b"mine")
    assert not LocalStorage(tmp_path).put_if_absent("log/1", b"not mine")
    assert LocalStorage(tmp_path).read("log/1") == b"mine"
