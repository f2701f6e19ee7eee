"""`sawlog backup`: create, verify and restore backups of topics."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from sawlog.backup.backup_error import BackupError
from sawlog.backup.backup_restorer import restore_backup
from sawlog.backup.backup_verifier import verify_backup
from sawlog.backup.backup_writer import Selection, create_backup, log_bytes
from sawlog.backup.manifest import Manifest, TopicBackup, read_manifest
from sawlog.backup.running_broker import RunningBroker
from sawlog.cli.cluster_options import with_cluster
from sawlog.cli.exit_codes import FAILED
from sawlog.cli.option_types import NAME, DataDirectory, Integer, json_option
from sawlog.cli.output import counted, note, print_json, print_line, print_table, progress
from sawlog.cli.start_options import show_time
from sawlog.client.net.cluster import Cluster
from sawlog.core.ids import format_topic_id
from sawlog.core.ports import DiskError

_existing = click.Path(exists=True, file_okay=False, path_type=Path)
_backup = click.argument("source", metavar="BACKUP", type=_existing)


@click.group()
def backup() -> None:
    """Create, verify and restore backups of topics.

    A backup has the records of each topic up to its high watermark, its id and its settings, and
    the committed offsets of all groups.
    """


@backup.command()
@click.argument("target", metavar="BACKUP", type=DataDirectory())
@click.option("--data", required=True, type=_existing, help="Data directory of the broker.")
@click.option(
    "--topic",
    "names",
    type=NAME,
    multiple=True,
    metavar="NAME",
    help="Back up this topic only, and the offsets of consumer groups. May be repeated.",
)
@click.option(
    "--exclude",
    type=NAME,
    multiple=True,
    metavar="NAME",
    help="Leave out a topic. May be repeated.",
)
@click.option("--without-groups", is_flag=True, help="Leave out the offsets of consumer groups.")
@json_option
@with_cluster
def create(
    target: Path,
    data: Path,
    names: tuple[str, ...],
    exclude: tuple[str, ...],
    without_groups: bool,
    as_json: bool,
    cluster: Cluster,
) -> None:
    """Back up topics while the broker runs.

    BACKUP is a new or an empty directory. The command runs on the broker's machine and reads its
    data directory. Copies are reflinks if the file system supports them.
    """
    selection = Selection(frozenset(names), frozenset(exclude), not without_groups)
    for name in selection.contradictions:
        raise click.UsageError(f"the topic {name!r} is both chosen and left out")
    with _explained(), progress("copying", log_bytes(data, selection), unit="bytes") as bar:
        created = create_backup(RunningBroker(cluster), data, target, selection, bar)
    if as_json:
        print_json({**_summary(target, created.manifest), "deleted_meanwhile": created.deleted})
    else:
        _print_topics(created.manifest)
    for name in created.deleted:
        note(f"{name}: deleted during the backup; it is not in it")
    for gap in created.gaps:
        note(f"sawlog: {gap}; the broker lost them earlier, see sawlog log verify")
    note(f"{target}: {_totals(created.manifest)}")


@backup.command()
@_backup
@json_option
def verify(source: Path, as_json: bool) -> None:
    """Verify a backup, without a broker.

    The manifest, the checksum of every file, every batch and its offsets are checked. Exit code 1
    if anything is damaged or missing.
    """
    with _explained():
        total = read_manifest(source).size
        with progress("verifying", total, unit="bytes") as bar:
            result = verify_backup(source, bar)
    if as_json:
        print_json({**_summary(source, result.manifest), "problems": result.problems})
    else:
        for problem in result.problems:
            print_line(problem)
        _print_topics(result.manifest)
    if result.problems:
        note(f"sawlog: {counted(len(result.problems), 'problem')} found in {source}")
        click.get_current_context().exit(FAILED)
    note(f"{source}: {_totals(result.manifest)}; no problems found")


@backup.command()
@_backup
@click.option("--data", required=True, type=DataDirectory(), help="New or empty data directory.")
@click.option(
    "--node-id",
    type=Integer(0, 2**31 - 1),
    help="Broker id of the new owner. Default: the id of the broker that was backed up.",
)
@json_option
def restore(source: Path, data: Path, node_id: int | None, as_json: bool) -> None:
    """Restore a backup into a new or an empty data directory.

    Nothing is overwritten. Afterwards `sawlog broker --data DIRECTORY` serves the same topics with
    the same ids, offsets and group offsets. The directory gets a new directory id.
    """
    with _explained():
        total = read_manifest(source).size
        with progress("restoring", total, unit="bytes") as bar:
            restored = restore_backup(source, data, bar, node_id=node_id)
    if as_json:
        summary = _summary(data, restored.manifest)
        added = {"node_id": restored.node_id, "directory_id": restored.directory_id}
        print_json({**summary, **added, "producers": restored.producers})
    else:
        _print_topics(restored.manifest)
    note(
        f"{data}: restored {_totals(restored.manifest)}, for node {restored.node_id}; start it with"
        f" sawlog broker --data {data}"
    )


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Show the errors of backups and disks in one line."""
    try:
        yield
    except (BackupError, DiskError) as error:
        raise click.ClickException(str(error)) from None


def _print_topics(manifest: Manifest) -> None:
    rows = [
        (topic.name, len(topic.partitions), topic.offsets, topic.size) for topic in manifest.topics
    ]
    print_table(("topic", "partitions", "offsets", "bytes"), rows)


def _totals(manifest: Manifest) -> str:
    partitions = sum(len(topic.partitions) for topic in manifest.topics)
    return (
        f"{counted(len(manifest.topics), 'topic')}, {counted(partitions, 'partition')},"
        f" {counted(manifest.size, 'byte')}, as of {show_time(manifest.began_ms)}"
    )


def _summary(path: Path, manifest: Manifest) -> dict[str, Any]:
    return {
        "directory": str(path),
        "cluster_id": manifest.cluster_id,
        "node_id": manifest.node_id,
        "began_ms": manifest.began_ms,
        "ended_ms": manifest.ended_ms,
        "bytes": manifest.size,
        "topics": [_topic(topic) for topic in manifest.topics],
    }


def _topic(topic: TopicBackup) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": format_topic_id(topic.id),
        "bytes": topic.size,
        "partitions": [
            {
                "partition": partition.index,
                "start_offset": partition.start_offset,
                "end_offset": partition.end_offset,
                "bytes": partition.size,
            }
            for partition in topic.partitions
        ],
    }
