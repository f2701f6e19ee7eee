"""`sawlog disk`: the sizes of topics and partitions, and the free space of log directories."""

import sys
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from sawlog.cli.cluster_options import TopicScope, partitions_of, topic_option, with_cluster
from sawlog.cli.disk_usage import (
    DirectoryUsage,
    DiskUsage,
    ReplicaUsage,
    TopicUsage,
    by_topic,
    measure,
    share,
    total,
)
from sawlog.cli.error_messages import report_each
from sawlog.cli.option_types import Integer, json_option
from sawlog.cli.output import counted, print_json, print_line, print_table
from sawlog.cli.standard_streams import writing_output
from sawlog.cli.units import show_size
from sawlog.client.admin.admin import Admin
from sawlog.client.net.cluster import Cluster

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_SIZE_COLUMNS = {"size": 8, "share": 6, "of disk": 7}  # with their smallest widths
_FILL_WIDTH = 20
_NARROWEST_BAR = 4
_WIDEST_TABLE = 110
_FULL = 0.9  # a directory that is fuller is shown in red
_FILLING = 0.75  # and in yellow
_COUNT = Integer(1, 2**31 - 1)


class _Row(NamedTuple):
    """A row of the table: the names in front, then the size and what it is compared with."""

    names: tuple[object, ...]
    size_bytes: int
    disk_bytes: int | None
    notes: tuple[object, ...] = ()


@click.command()
@topic_option()
@click.option("-p", "--partitions", "by_partition", is_flag=True, help="Show each partition.")
@click.option("--top", type=_COUNT, metavar="N", help="Show only the N largest.")
@json_option
@with_cluster
def disk(
    scopes: tuple[TopicScope, ...],
    by_partition: bool,
    top: int | None,
    as_json: bool,
    cluster: Cluster,
) -> None:
    """Show the sizes of topics, the largest first, and the free space of brokers.

    A size is that of all replicas, without indexes. The share is that of all logs in the cluster;
    `of disk` is the share of the file system. What is not free counts as used, also what the file
    system reserves for itself or for root.
    """
    wanted = set(partitions_of(cluster, scopes)) if scopes else None
    usage = measure(Admin(cluster).describe_log_dirs())
    shown = [each for each in usage.replicas if wanted is None or each.partition in wanted]
    if as_json:
        print_json(_json(usage, shown, by_partition, top))
    else:
        table = _partition_table if by_partition else _topic_table
        _print(usage, *table(usage, shown, top))
    report_each(
        (), {each.path: each.error for each in usage.directories if each.error is not None}, ""
    )


def _topic_table(
    usage: DiskUsage, shown: list[ReplicaUsage], top: int | None
) -> tuple[tuple[str, ...], list[_Row], tuple[str, ...]]:
    """Return the names of the leading columns, the rows, and the names of the last columns."""
    topics = by_topic(shown)
    listed = topics[:top]
    everything = total("total", shown)
    rows = [*listed]
    if len(topics) > len(listed):
        names = {topic.topic for topic in topics[len(listed) :]}
        others = [each for each in shown if each.partition.topic in names]
        rows.append(total(f"({counted(len(names), 'other')})", others))
    rows.append(everything)
    has_copies = everything.replicas != everything.partitions
    columns = ("topic", "partitions", "replicas") if has_copies else ("topic", "partitions")
    return columns, [_topic_row(each, usage, has_copies) for each in rows], ()


def _topic_row(topic: TopicUsage, usage: DiskUsage, has_copies: bool) -> _Row:
    counts = (topic.partitions, topic.replicas) if has_copies else (topic.partitions,)
    return _Row((topic.topic, *counts), topic.size_bytes, usage.total_bytes)


def _partition_table(
    usage: DiskUsage, shown: list[ReplicaUsage], top: int | None
) -> tuple[tuple[str, ...], list[_Row], tuple[str, ...]]:
    """As `_topic_table`; columns that would be the same in all rows are left out."""
    brokers = {each.broker for each in usage.directories}
    has_brokers = len(brokers) > 1
    has_paths = len(usage.directories) > len(brokers)
    has_notes = any(each.is_future or each.offset_lag for each in shown)
    optional = ((has_brokers, "broker"), (has_paths, "directory"))
    columns = ("topic", "partition", *(name for is_shown, name in optional if is_shown))
    rows = [
        _Row(
            (
                *each.partition,
                *((each.directory.broker,) if has_brokers else ()),
                *((each.directory.path,) if has_paths else ()),
            ),
            each.size_bytes,
            each.directory.total_bytes,
            (_replica_note(each),) if has_notes else (),
        )
        for each in shown[:top]
    ]
    blank = (None,) * (len(columns) - 1)
    notes = ("",) if has_notes else ()
    rest = shown[len(rows) :]
    if rest:
        size_bytes = sum(each.size_bytes for each in rest)
        name = f"({counted(len(rest), 'other')})"
        rows.append(_Row((name, *blank), size_bytes, usage.total_bytes, notes))
    size_bytes = sum(each.size_bytes for each in shown)
    rows.append(_Row(("total", *blank), size_bytes, usage.total_bytes, notes))
    return columns, rows, notes


def _place(directory: DirectoryUsage) -> tuple[int, str]:
    return directory.broker, directory.path


def _replica_note(replica: ReplicaUsage) -> str:
    if replica.is_future:
        return "future replica"
    return f"{replica.offset_lag} behind" if replica.offset_lag else ""


def _print(
    usage: DiskUsage, columns: tuple[str, ...], rows: list[_Row], notes: tuple[str, ...]
) -> None:
    """Print the directories and the table: with bars on a terminal, else in bytes."""
    if sys.stdout.isatty():
        _print_bars(usage, columns, rows, notes)
        return
    directory_columns = ("broker", "directory", "total", "used", "free", "logs")
    print_table(
        directory_columns,
        [
            (*_place(each), each.total_bytes, each.used_bytes, each.free_bytes, each.log_bytes)
            for each in usage.directories
        ],
        numbers=set(directory_columns[2:]),
    )
    print_line("")
    cells = [
        (
            *row.names,
            row.size_bytes,
            _percent(share(row.size_bytes, usage.log_bytes)),
            _percent(share(row.size_bytes, row.disk_bytes)),
            *row.notes,
        )
        for row in rows
    ]
    numbers = {*columns[1:], *_SIZE_COLUMNS} - {"directory"}
    print_table((*columns, *_SIZE_COLUMNS, *notes), cells, numbers=numbers)


def _print_bars(
    usage: DiskUsage, columns: tuple[str, ...], rows: list[_Row], notes: tuple[str, ...]
) -> None:
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False, markup=False, soft_wrap=True)
    with writing_output():
        for directory in usage.directories:
            console.print(_directory_lines(directory))
        console.print()
        width = min(console.width, _WIDEST_TABLE)
        console.print(_size_bars(usage, columns, rows, notes, width), soft_wrap=False)


def _directory_lines(directory: DirectoryUsage) -> "Text":
    """Return two lines, the second with a bar: `70% of 252 GiB used, 76.2 GiB free, logs 1 GiB`."""
    from rich.text import Text

    line = Text(f"broker {directory.broker}  {directory.path}\n  ")
    used = share(directory.used_bytes or 0, directory.total_bytes)
    if directory.error is not None:
        return line.append("offline", "red")
    if used is None or directory.total_bytes is None or directory.free_bytes is None:
        return line.append(f"logs {show_size(directory.log_bytes)}, free space unknown")
    filled = round(used * _FILL_WIDTH)
    color = "red" if used > _FULL else "yellow" if used > _FILLING else "green"
    line.append("\u2588" * filled, color)
    line.append("\u2591" * (_FILL_WIDTH - filled), "dim")
    return line.append(
        f"  {used:.0%} of {show_size(directory.total_bytes)} used,"
        f" {show_size(directory.free_bytes)} free, logs {show_size(directory.log_bytes)}"
    )


def _size_bars(
    usage: DiskUsage,
    columns: tuple[str, ...],
    rows: list[_Row],
    notes: tuple[str, ...],
    width: int,
) -> "Table":
    """Return the table; a bar compares its row with the largest, and takes the width that is left.

    The last row is the total.
    """
    from rich.bar import Bar
    from rich.table import Table

    table = Table(
        box=None,
        header_style="bold",
        pad_edge=False,
        padding=(0, 2, 0, 0),
        width=width,
        expand=True,
    )
    for column in columns:
        is_text = column in ("topic", "directory")
        justify: Literal["left", "right"] = "left" if is_text else "right"
        table.add_column(column, justify=justify, no_wrap=True, overflow="ellipsis")
    for column, narrowest in _SIZE_COLUMNS.items():
        table.add_column(column, justify="right", no_wrap=True, min_width=narrowest)
    table.add_column("", ratio=1, min_width=_NARROWEST_BAR)
    for _ in notes:
        table.add_column("", no_wrap=True)
    largest = max((row.size_bytes for row in rows[:-1]), default=0)
    for row in rows:
        is_total = row is rows[-1]
        table.add_row(
            *("" if cell is None else str(cell) for cell in row.names),
            show_size(row.size_bytes),
            _percent(share(row.size_bytes, usage.log_bytes)) or "-",
            _percent(share(row.size_bytes, row.disk_bytes)) or "-",
            "" if is_total else Bar(largest or 1, 0, row.size_bytes, color="cyan"),
            *map(str, row.notes),
            style="bold" if is_total else "",
        )
    return table


def _percent(part: float | None) -> str | None:
    """Format a share: `12.3%`, and `<0.1%` for one that is not zero."""
    if part is None:
        return None
    return "<0.1%" if 0 < part < 0.0005 else f"{part:.1%}"


def _json(
    usage: DiskUsage, shown: list[ReplicaUsage], by_partition: bool, top: int | None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "directories": [
            {
                "broker": each.broker,
                "path": each.path,
                "total_bytes": each.total_bytes,
                "used_bytes": each.used_bytes,
                "free_bytes": each.free_bytes,
                "log_bytes": each.log_bytes,
                "error": None if each.error is None else each.error.code.name,
            }
            for each in usage.directories
        ],
        "size_bytes": sum(each.size_bytes for each in shown),
    }
    if by_partition:
        found["replicas"] = [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "broker": each.directory.broker,
                "path": each.directory.path,
                "size_bytes": each.size_bytes,
                "share": share(each.size_bytes, usage.log_bytes),
                "disk_share": share(each.size_bytes, each.directory.total_bytes),
                "offset_lag": each.offset_lag,
                "is_future": each.is_future,
            }
            for each in shown[:top]
        ]
        return found
    found["topics"] = [
        {
            "topic": each.topic,
            "partitions": each.partitions,
            "replicas": each.replicas,
            "size_bytes": each.size_bytes,
            "share": share(each.size_bytes, usage.log_bytes),
            "disk_share": share(each.size_bytes, usage.total_bytes),
        }
        for each in by_topic(shown)[:top]
    ]
    return found
