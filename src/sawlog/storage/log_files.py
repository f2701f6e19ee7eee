"""Names and contents of the small files beside the segments, as Apache Kafka writes them.

Every decoder raises `CorruptFile` for contents that cannot be right, and the caller rebuilds the
file. Checkpoints are text without a checksum, so a value that decodes is checked against the log.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from sawlog.core.ids import (
    PartitionIndex,
    TopicId,
    TopicName,
    TopicPartition,
    format_topic_id,
    parse_topic_id,
)
from sawlog.storage.leader_epochs import EpochEntry

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_SUFFIXES = (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)

CLEANED = ".cleaned"
"""Follows the name of a file that the log cleaner writes."""
SWAP = ".swap"
"""Follows the name of a cleaned file that is complete and replaces older files."""
DELETED = ".deleted"
"""Follows the name of a file that is not part of its log any more and is about to be unlinked."""

EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

META_PROPERTIES = "meta.properties"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
WATERMARKS = "replication-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
DAMAGED_LOGS = "damaged-log-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
RESTORING = "restore-in-progress"
"""Marks a data directory into which a backup is being restored; no broker starts on it."""

DELETED_DIRECTORY = "-delete"
STRAY_DIRECTORY = "-stray"
_DIRECTORY_FILES = (
    META_PROPERTIES,
    RECOVERY_POINTS,
    WATERMARKS,
    START_OFFSETS,
    CLEANER_OFFSETS,
    DAMAGED_LOGS,
    CLEAN_SHUTDOWN,
)
_TEMPORARY = ".tmp"
_LEFTOVER_SUFFIXES = (_TEMPORARY, DELETED, CLEANED)

_OFFSET_SUFFIXES = frozenset({*SEGMENT_SUFFIXES, SNAPSHOT})
_PARTITION_DIRECTORY = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9]\d{0,9})")
_TOPIC = re.compile(rb"[a-zA-Z0-9._-]{1,249}")
_INTEGER = re.compile(rb"-?\d{1,19}")


class CorruptFile(Exception):
    """The contents of a small file cannot be right."""


UNKNOWN_CLUSTER = ""
"""The cluster id in meta.properties until the broker has joined a cluster."""


class MetaProperties(NamedTuple):
    """The broker that owns a data directory."""

    cluster_id: str
    node_id: int
    directory_id: str

    @property
    def is_reserved(self) -> bool:
        """Whether the directory has an id, but was never used in a cluster."""
        return self.cluster_id == UNKNOWN_CLUSTER


def offset_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def parse_offset_name(name: str) -> tuple[int, str] | None:
    """Offset and suffix of a segment's or snapshot's file; None for any other name."""
    digits, suffix = name[:20], name[20:]
    if suffix in _OFFSET_SUFFIXES and len(digits) == 20 and digits.isascii() and digits.isdigit():
        return int(digits), suffix
    return None


def is_leftover(name: str) -> bool:
    """Whether a file of a partition was left behind by an interrupted write or deletion."""
    return name.endswith(_LEFTOVER_SUFFIXES)


def is_directory_leftover(name: str) -> bool:
    """Whether a file of the data directory was left behind by an interrupted checkpoint.

    Other `*.tmp` files do not belong to the logs and may be in use: the embedded store writes its
    reserve file on a thread while the logs are opened.
    """
    return name.endswith(_TEMPORARY) and name.startswith(_DIRECTORY_FILES)


def parse_partition_directory(name: str) -> TopicPartition | None:
    match = _PARTITION_DIRECTORY.fullmatch(name)
    if match is None or match[1] in (".", ".."):
        return None
    return TopicPartition(TopicName(match[1]), PartitionIndex(int(match[2])))


def deleted_directory_name(tp: TopicPartition, unique: bytes) -> str:
    """Kafka's name for the directory of a deleted partition, at most 255 characters long."""
    return _suffixed(tp, unique, DELETED_DIRECTORY)


def stray_directory_name(tp: TopicPartition, unique: bytes) -> str:
    """Kafka's name for the directory of a partition that belongs to no topic."""
    return _suffixed(tp, unique, STRAY_DIRECTORY)


def _suffixed(tp: TopicPartition, unique: bytes, ending: str) -> str:
    suffix = f"-{tp.partition}.{unique.hex()}{ending}"
    return tp.topic[: 255 - len(suffix)] + suffix


# Checkpoints: a version, a count, and one line per entry


def parse_segment_name(path: str) -> int | None:
    """The base offset in the path of a segment file; None if it is not one."""
    name = path.rsplit("/", 1)[-1].partition(".")
    return int(name[0]) if name[0].isdigit() and name[2] == LOG[1:] else None


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    lines = [f"0\n{len(offsets)}\n"]
    lines += [f"{tp[0]} {tp[1]} {offset}\n" for tp, offset in offsets.items()]
    return "".join(lines).encode()


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    return _offsets(_checkpoint_lines(data, 3))


def _offsets(lines: Iterable[Sequence[bytes]]) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    names: dict[bytes, TopicName] = {}
    for words in lines:
        topic, partition, offset = words
        name = names.get(topic)
        if name is None:
            if not _TOPIC.fullmatch(topic):
                raise CorruptFile(f"not a topic: {topic!r}")
            name = names[topic] = TopicName(topic.decode("ascii"))
        tp = TopicPartition(name, PartitionIndex(_integer(partition)))
        if tp in offsets or tp.partition < 0:
            raise CorruptFile(f"an invalid or repeated partition: {words!r}")
        offsets[tp] = _integer(offset)
        if offsets[tp] < 0:
            raise CorruptFile(f"an offset below 0: {words!r}")
    return offsets


class DamagedLog(NamedTuple):
    """`offset` is that of the first lost record, `last_epoch` the newest leader epoch that the log
    had before the damage."""

    offset: int
    last_epoch: int


def encode_damaged_logs(logs: Mapping[TopicPartition, DamagedLog]) -> bytes:
    lines = [f"0\n{len(logs)}\n"]
    lines += [f"{tp[0]} {tp[1]} {log.offset} {log.last_epoch}\n" for tp, log in logs.items()]
    return "".join(lines).encode()


def decode_damaged_logs(data: bytes) -> dict[TopicPartition, DamagedLog]:
    lines = list(_checkpoint_lines(data, 4))
    offsets = _offsets(words[:3] for words in lines)
    epochs = (_integer(words[3]) for words in lines)
    return {tp: DamagedLog(offsets[tp], epoch) for tp, epoch in zip(offsets, epochs, strict=True)}


def encode_epochs(entries: Iterable[EpochEntry]) -> bytes:
    lines = [f"{entry.epoch} {entry.start_offset}\n" for entry in entries]
    return f"0\n{len(lines)}\n{''.join(lines)}".encode()


def decode_epochs(data: bytes) -> list[EpochEntry]:
    entries = [EpochEntry(_integer(a), _integer(b)) for a, b in _checkpoint_lines(data, 2)]
    for entry, following in pairwise(entries):
        if following.epoch <= entry.epoch or following.start_offset <= entry.start_offset:
            raise CorruptFile(f"epochs out of order: {entry} before {following}")
    if entries and (entries[0].epoch < 0 or entries[0].start_offset < 0):
        raise CorruptFile(f"a negative epoch: {entries[0]}")
    return entries


def _checkpoint_lines(data: bytes, width: int) -> list[list[bytes]]:
    lines = data.splitlines()
    if len(lines) < 2 or lines[0] != b"0" or _integer(lines[1]) != len(lines) - 2:
        raise CorruptFile("not a checkpoint of version 0, or lines are missing")
    if not data.endswith(b"\n"):
        raise CorruptFile("the last line is cut off")
    table = [line.split() for line in lines[2:]]
    for words in table:
        if len(words) != width:
            raise CorruptFile(f"a line does not have {width} fields: {words!r}")
    return table


def _integer(word: bytes) -> int:
    if not _INTEGER.fullmatch(word):
        raise CorruptFile(f"not a number: {word!r}")
    return int(word)


# The other small files


def encode_partition_metadata(topic_id: TopicId) -> bytes:
    return f"version: 0\ntopic_id: {format_topic_id(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> TopicId:
    match = re.fullmatch(rb"version: 0\ntopic_id: ([A-Za-z0-9_-]{22})\s*", data)
    if match is None:
        raise CorruptFile("not a partition.metadata of version 0")
    try:
        return parse_topic_id(match[1].decode())
    except ValueError as error:
        raise CorruptFile(str(error)) from None


def encode_meta_properties(meta: MetaProperties) -> bytes:
    return (
        f"cluster.id={meta.cluster_id}\ndirectory.id={meta.directory_id}\n"
        f"node.id={meta.node_id}\nversion=1\n"
    ).encode()


def decode_meta_properties(data: bytes) -> MetaProperties:
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise CorruptFile("not text") from None
    pairs = (line.partition("=") for line in lines if line and not line.startswith(("#", "!")))
    values = {key.strip(): value.strip() for key, _, value in pairs}
    try:
        if values["version"] != "1":
            raise CorruptFile(f"version {values['version']}, expected 1")
        return MetaProperties(
            values["cluster.id"], int(values["node.id"]), values.get("directory.id", "")
        )
    except (KeyError, ValueError) as error:
        raise CorruptFile(f"missing or invalid value: {error}") from None


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode()


def decode_clean_shutdown(data: bytes) -> int:
    """The broker epoch at the clean stop; -1 for the empty file of Kafka before 3.7."""
    if not data:
        return -1
    try:
        return int(json.loads(data)["brokerEpoch"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFile(f"not a clean-shutdown marker: {error}") from None
