"""The manifest of a backup: what it holds, with the size and the checksum of every file.

The manifest is written last and atomically, so a directory without one is not a backup. It has a
checksum of its own. Names in it are checked: no file outside the backup or the data directory is
ever read or written because of a manifest.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sawlog.backup.backup_error import BackupError
from sawlog.backup.file_copy import write_atomically
from sawlog.cluster.metadata_image import ConfigKind
from sawlog.core.ids import TopicId, format_topic_id, parse_topic_id
from sawlog.storage import log_files

MANIFEST = "manifest.json"
LOGS = "logs"
"""The directory with the partitions, in the layout of a data directory."""
FORMAT = "sawlog-backup"
VERSION = 1
CONFIG_KINDS = frozenset(kind.value for kind in ConfigKind)
"""Kafka's names for the resources other than topics that have configs."""
_OTHER_FILES = frozenset({log_files.EPOCH_CHECKPOINT, log_files.PARTITION_METADATA})

T = TypeVar("T")
Configs = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BackupFile:
    name: str
    size: int
    sha256: str

    @property
    def is_segment(self) -> bool:
        return self.name.endswith(log_files.LOG)


@dataclass(frozen=True, slots=True)
class PartitionBackup:
    """One partition: records from `start_offset` up to, not including, `end_offset`.

    `has_gaps` tells that offsets between them are missing, as in a compacted log. The first
    segment may begin before `start_offset`.
    """

    index: int
    leader_epoch: int
    start_offset: int
    end_offset: int
    has_gaps: bool
    files: tuple[BackupFile, ...]

    @property
    def segments(self) -> list[BackupFile]:
        return [file for file in self.files if file.is_segment]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class TopicBackup:
    name: str
    id: TopicId
    configs: Configs
    partitions: tuple[PartitionBackup, ...]

    @property
    def size(self) -> int:
        return sum(partition.size for partition in self.partitions)

    @property
    def offsets(self) -> int:
        """How many offsets the partitions cover; without gaps, the number of records."""
        return sum(each.end_offset - each.start_offset for each in self.partitions)

    def directory(self, partition: PartitionBackup) -> str:
        """The name of a partition's directory."""
        return f"{self.name}-{partition.index}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """`last_producer_id` is above every producer id in the logs. `configs` has the configs of
    resources other than topics, by Kafka's name of their kind (`brokers`) and by their own name;
    the name '' stands for all brokers."""

    cluster_id: str
    node_id: int
    sawlog_version: str
    began_ms: int
    ended_ms: int
    last_producer_id: int
    configs: Mapping[str, Mapping[str, Configs]]
    topics: tuple[TopicBackup, ...]

    @property
    def size(self) -> int:
        return sum(topic.size for topic in self.topics)


def write_manifest(backup: Path, manifest: Manifest) -> None:
    """Complete a backup. All its files must be on disk already."""
    write_atomically(backup / MANIFEST, encode_manifest(manifest))


def read_manifest(backup: Path) -> Manifest:
    """Read and check the manifest of a backup; BackupError if it is missing or damaged."""
    path = backup / MANIFEST
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        text = f"{backup} is not a backup: it has no {MANIFEST}"
        if (backup / log_files.META_PROPERTIES).exists():
            text += "; it is the data directory of a broker"
        elif (backup / LOGS).is_dir():
            text += (
                "; if `sawlog backup create` was interrupted there, delete the directory and create"
                " the backup again"
            )
        raise BackupError(text) from None
    return decode_manifest(data, str(path))


def encode_manifest(manifest: Manifest) -> bytes:
    body = {
        "format": FORMAT,
        "version": VERSION,
        "sawlog_version": manifest.sawlog_version,
        "cluster_id": manifest.cluster_id,
        "node_id": manifest.node_id,
        "began_ms": manifest.began_ms,
        "ended_ms": manifest.ended_ms,
        "last_producer_id": manifest.last_producer_id,
        "configs": {kind: dict(resources) for kind, resources in manifest.configs.items()},
        "topics": [_topic_fields(topic) for topic in manifest.topics],
    }
    text = json.dumps({"checksum": _checksum(body), **body}, indent=1)
    return f"{text}\n".encode()


def decode_manifest(data: bytes, path: str = MANIFEST) -> Manifest:
    """Decode a manifest; BackupError if it is not one, is damaged, or has a newer version."""
    try:
        body = _checked(json.loads(data), dict)
        checksum = body.pop("checksum", None)
        if body.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        if body.get("version") != VERSION:
            raise BackupError(
                f"{path} has version {body.get('version')!r}; this version of Sawlog reads version"
                f" {VERSION}: use the version {body.get('sawlog_version')!r} that wrote it"
            )
        if checksum != _checksum(body):
            raise ValueError("its checksum does not match")
        topics = tuple(_topic(each) for each in _field(body, "topics", list))
        if len({topic.name for topic in topics}) < len(topics):
            raise ValueError("a topic is in it twice")
        configs = _field(body, "configs", dict)
        return Manifest(
            cluster_id=_field(body, "cluster_id", str),
            node_id=_field(body, "node_id", int),
            sawlog_version=_field(body, "sawlog_version", str),
            began_ms=_field(body, "began_ms", int),
            ended_ms=_field(body, "ended_ms", int),
            last_producer_id=_field(body, "last_producer_id", int),
            configs={_kind(kind): _resources(each) for kind, each in configs.items()},
            topics=topics,
        )
    except ValueError as error:
        raise BackupError(f"{path} is damaged: {error}; use another backup") from None


def _checksum(body: Mapping[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _topic_fields(topic: TopicBackup) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": format_topic_id(topic.id),
        "configs": dict(topic.configs),
        "partitions": [
            {
                "partition": partition.index,
                "leader_epoch": partition.leader_epoch,
                "start_offset": partition.start_offset,
                "end_offset": partition.end_offset,
                "has_gaps": partition.has_gaps,
                "files": [
                    {"name": file.name, "size": file.size, "sha256": file.sha256}
                    for file in partition.files
                ],
            }
            for partition in topic.partitions
        ],
    }


def _topic(fields: Any) -> TopicBackup:
    name = _field(fields, "name", str)
    if log_files.parse_partition_directory(f"{name}-0") is None:
        raise ValueError(f"{name!r} is not a topic name")
    partitions = tuple(_partition(each) for each in _field(fields, "partitions", list))
    if [partition.index for partition in partitions] != list(range(len(partitions))):
        raise ValueError(f"the partitions of {name!r} are not numbered from 0 on")
    topic_id = parse_topic_id(_field(fields, "id", str))
    return TopicBackup(name, topic_id, _configs(_field(fields, "configs", dict)), partitions)


def _partition(fields: Any) -> PartitionBackup:
    partition = PartitionBackup(
        index=_field(fields, "partition", int),
        leader_epoch=_field(fields, "leader_epoch", int),
        start_offset=_field(fields, "start_offset", int),
        end_offset=_field(fields, "end_offset", int),
        has_gaps=_field(fields, "has_gaps", bool),
        files=tuple(_file(each) for each in _field(fields, "files", list)),
    )
    if not 0 <= partition.start_offset <= partition.end_offset or not partition.segments:
        raise ValueError(f"the offsets or segments of a partition are invalid: {partition}")
    return partition


def _file(fields: Any) -> BackupFile:
    name = _field(fields, "name", str)
    parsed = log_files.parse_offset_name(name)
    if name not in _OTHER_FILES and (parsed is None or parsed[1] != log_files.LOG):
        raise ValueError(f"{name!r} is not a file of a partition")
    return BackupFile(name, _field(fields, "size", int), _field(fields, "sha256", str))


def _kind(name: str) -> str:
    if name not in CONFIG_KINDS:
        raise ValueError(f"{name!r} is not a kind of resource with configs")
    return name


def _resources(fields: Any) -> dict[str, dict[str, str]]:
    return {name: _configs(each) for name, each in _checked(fields, dict).items()}


def _configs(fields: Any) -> dict[str, str]:
    return {name: _checked(value, str) for name, value in _checked(fields, dict).items()}


def _field(fields: Any, name: str, kind: type[T]) -> T:
    try:
        return _checked(_checked(fields, dict)[name], kind)
    except KeyError:
        raise ValueError(f"the field {name!r} is missing") from None


def _checked(value: Any, kind: type[T]) -> T:
    if type(value) is not kind:
        raise ValueError(f"expected a value of type {kind.__name__}, found {value!r:.80}")
    return value


def listed_files(topics: Sequence[TopicBackup]) -> dict[str, BackupFile]:
    """All files of these topics by their path in the backup."""
    return {
        f"{LOGS}/{topic.directory(partition)}/{file.name}": file
        for topic in topics
        for partition in topic.partitions
        for file in partition.files
    }
