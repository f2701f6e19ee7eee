"""The manifest of a backup: nothing in it is used unchecked."""

from pathlib import Path
from typing import Any

import pytest

from sawlog.backup.backup_error import BackupError
from sawlog.backup.manifest import (
    BackupFile,
    Manifest,
    PartitionBackup,
    TopicBackup,
    decode_manifest,
    encode_manifest,
    read_manifest,
)
from sawlog.core.ids import TopicId
from support.backup.manifests import Change, signed


@pytest.fixture
def manifest() -> Manifest:
    files = (
        BackupFile("00000000000000000000.log", 70, "00" * 32),
        BackupFile("partition.metadata", 43, "11" * 32),
    )
    return Manifest(
        cluster_id="cluster-of-test",
        node_id=1,
        sawlog_version="0.1.0",
        began_ms=1_700_000_000_000,
        ended_ms=1_700_000_001_000,
        last_producer_id=17,
        configs={"brokers": {"": {"log.retention.ms": "1"}, "1": {}}},
        topics=(
            TopicBackup(
                "orders",
                TopicId(bytes(range(16))),
                {"retention.ms": "-1"},
                (PartitionBackup(0, 3, 1, 3, False, files),),
            ),
        ),
    )


def test_a_manifest_is_decoded_to_what_was_encoded(manifest: Manifest) -> None:
    assert decode_manifest(encode_manifest(manifest)) == manifest


def test_every_flipped_byte_is_noticed(manifest: Manifest) -> None:
    data = encode_manifest(manifest)
    for position in range(len(data)):
        spoiled = bytearray(data)
        spoiled[position] ^= 0x01
        try:
            found = decode_manifest(bytes(spoiled))
        except BackupError:
            continue
        assert found == manifest  # white space


@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        ("logs/orders-0", "; if `sawlog backup create` was interrupted there, delete"),
        ("meta.properties", "; it is the data directory of a broker$"),
        ("photos", "json$"),
    ],
)
def test_only_an_interrupted_backup_is_to_be_deleted(tmp_path: Path, entry: str, hint: str) -> None:
    (tmp_path / entry).mkdir(parents=True)
    with pytest.raises(BackupError, match=hint):
        read_manifest(tmp_path)


def test_a_directory_without_a_manifest_is_not_a_backup(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="is not a backup: it has no manifest"):
        read_manifest(tmp_path)


def test_a_newer_version_is_refused_by_its_number(manifest: Manifest) -> None:
    data = signed(encode_manifest(manifest), lambda body: body.update(version=2))
    with pytest.raises(BackupError, match="has version 2; this version of Sawlog reads version 1"):
        decode_manifest(data)


def set_in(*path: str | int, value: object) -> Change:
    def change(body: Any) -> None:
        for step in path[:-1]:
            body = body[step]
        body[path[-1]] = value

    return change


FILE = ("topics", 0, "partitions", 0, "files", 0)


@pytest.mark.parametrize(
    "change",
    [
        set_in("topics", 0, "name", value="../orders"),
        set_in("topics", 0, "name", value=".."),
        set_in("topics", 0, "name", value="a/b"),
        set_in(*FILE, "name", value="../../etc/passwd"),
        set_in(*FILE, "name", value="00000000000000000000.index"),
        set_in(*FILE, "size", value="12"),
        set_in("topics", 0, "id", value="short"),
        set_in("topics", 0, "partitions", 0, "partition", value=1),
        set_in("topics", 0, "partitions", 0, "files", value=[]),
        set_in("topics", 0, "partitions", 0, "start_offset", value=9),
        set_in("topics", 0, "configs", value={"retention.ms": 1}),
        set_in("topics", value={}),
        set_in("node_id", value=True),
        set_in("configs", value={"../x": {}}),
        set_in("configs", "brokers", "1", value=["x"]),
        lambda body: body["topics"].append(body["topics"][0]),
        lambda body: body.pop("cluster_id"),
    ],
)
def test_a_signed_manifest_with_an_invalid_value_is_refused(
    manifest: Manifest, change: Change
) -> None:
    with pytest.raises(BackupError, match="is damaged"):
        decode_manifest(signed(encode_manifest(manifest), change))


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"\xff", b'{"format": "other"}', b"{" * 99])
def test_other_content_is_refused(data: bytes) -> None:
    with pytest.raises(BackupError, match="is damaged"):
        decode_manifest(data)
