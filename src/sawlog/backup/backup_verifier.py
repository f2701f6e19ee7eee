"""Verifies a backup by itself, without a broker: files, checksums, batches and offsets."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sawlog.backup.batch_chain import BatchChain, BrokenChain, Progress
from sawlog.backup.file_copy import sha256_of
from sawlog.backup.manifest import (
    LOGS,
    Manifest,
    PartitionBackup,
    TopicBackup,
    listed_files,
    read_manifest,
)
from sawlog.storage import log_files


@dataclass(slots=True)
class VerifiedBackup:
    """The manifest of a backup, and what is wrong with its files, one text each."""

    manifest: Manifest
    problems: list[str] = field(default_factory=list)


def verify_backup(backup: Path, progress: Progress) -> VerifiedBackup:
    """Read every file of a backup; BackupError if its manifest is missing or damaged."""
    result = VerifiedBackup(read_manifest(backup))
    topics = result.manifest.topics
    result.problems += _unexpected_files(backup, set(listed_files(topics)))
    for topic in topics:
        for partition in topic.partitions:
            directory = backup / LOGS / topic.directory(partition)
            problems = list(file_problems(directory, partition, checks_content=True))
            # Batches are read even if a checksum differs: they tell where the damage is.
            if all((directory / file.name).exists() for file in partition.files):
                problems += log_problems(directory, topic, partition, progress)
            result.problems += problems
    return result


def _unexpected_files(backup: Path, listed: set[str]) -> Iterator[str]:
    for directory, _, names in os.walk(backup / LOGS):
        for name in sorted(names):
            path = Path(directory) / name
            if str(path.relative_to(backup)) not in listed:
                yield f"{path}: the manifest does not list this file"


def file_problems(
    directory: Path, partition: PartitionBackup, *, checks_content: bool
) -> Iterator[str]:
    """Compare the files of a partition with the manifest."""
    for file in partition.files:
        path = directory / file.name
        try:
            size = path.stat().st_size
            if size != file.size:
                yield f"{path}: has {size} bytes, but the manifest says {file.size}"
            elif checks_content and sha256_of(path) != file.sha256:
                yield f"{path}: the checksum does not match"
        except FileNotFoundError:
            yield f"{path}: the file is missing"
        except OSError as error:
            yield f"{path}: cannot be read: {error.strerror or error}"


def log_problems(
    directory: Path, topic: TopicBackup, partition: PartitionBackup, progress: Progress
) -> Iterator[str]:
    """Check the batches of a partition, and its small files against them."""
    chain = BatchChain(partition.end_offset, progress)
    try:
        for file in partition.segments:
            position = chain.read(directory / file.name)
            if position != file.size:
                yield f"{directory / file.name}: position {position}: bytes after the last batch"
        metadata = (directory / log_files.PARTITION_METADATA).read_bytes()
        if log_files.decode_partition_metadata(metadata) != topic.id:
            yield f"{directory}: the topic id is not that of the manifest"
        chain.epochs.truncate_start(partition.start_offset)
        epochs = (directory / log_files.EPOCH_CHECKPOINT).read_bytes()
        if log_files.decode_epochs(epochs) != list(chain.epochs.entries):
            yield f"{directory}: the leader epochs are not those of the batches"
    except (BrokenChain, log_files.CorruptFile, OSError) as error:
        yield str(error) if isinstance(error, BrokenChain) else f"{directory}: {error}"
        return
    if chain.next_offset != partition.end_offset:
        yield f"{directory}: ends at offset {chain.next_offset} instead of {partition.end_offset}"
    if int(Path(partition.segments[0].name).stem) > partition.start_offset:
        yield f"{directory}: begins after the offset {partition.start_offset}"
    if bool(chain.gaps) != partition.has_gaps:
        yield f"{directory}: offsets are missing, but not according to the manifest"
