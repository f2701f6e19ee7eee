"""`sawlog consume`: print the records of a topic as lines, plain or JSON."""

import sys
from collections.abc import Iterator

import click

from sawlog.cli.cluster_options import TopicScope, partitions_of, with_cluster
from sawlog.cli.option_types import PARTITION, RAW_BYTES, TEXT
from sawlog.cli.output import counted, hint, is_interactive, note, print_bytes, progress
from sawlog.cli.record_format import to_columns, to_json
from sawlog.cli.start_options import FromEnd, StartPoint
from sawlog.client.admin.list_offsets import EARLIEST, LATEST, list_offsets
from sawlog.client.consumer.consumer import AT_LATEST, AtOffset, Consumer, OffsetReset, Start
from sawlog.client.consumer.fetched_records import ConsumedRecord
from sawlog.client.consumer.isolation import ISOLATION_LEVELS, Isolation, reads_committed
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition

COLUMNS = ("topic", "partition", "offset", "timestamp", "headers", "key")
_POLL_MS = 500
_MAX_POLL_RECORDS = 1_000


class Columns(click.ParamType[tuple[str, ...]]):
    name = "columns"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        columns = tuple(name.strip() for name in str(value).split(",")) if value else ()
        for column in columns:
            if column not in COLUMNS:
                self.fail(f"{column!r} is not one of {', '.join(COLUMNS)}", param, ctx)
        return columns


@click.command()
@click.argument("topic", type=TEXT)
@click.option(
    "--from",
    "start",
    type=StartPoint(),
    default="end",
    show_default=True,
    metavar="START",
    help="beginning, end, an offset (17), a number of records before the end of each partition"
    " (-5), a time (2025-01-31T12:00:00Z; UTC unless a zone is given) or a time ago (30s, 15m, 2h,"
    " 1d).",
)
@click.option(
    "-p",
    "--partition",
    "indexes",
    type=PARTITION,
    multiple=True,
    help="Read only this partition. May be repeated.",
)
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after this many records.")
@click.option(
    "-e", "--exit", "until_end", is_flag=True, help="Stop at the current end of the topic."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per record, with all fields."
)
@click.option(
    "-s",
    "--show",
    "columns",
    type=Columns(),
    default="",
    metavar="COLUMN,...",
    help=f"Columns to print before the value: {', '.join(COLUMNS)}.",
)
@click.option("--separator", type=RAW_BYTES, default="\t", help="Column separator. Default: a tab.")
@click.option(
    "--isolation",
    type=click.Choice(ISOLATION_LEVELS),
    default="read_uncommitted",
    show_default=True,
    help="read_committed leaves out open and aborted transactions.",
)
@click.option(
    "--offset-reset",
    type=click.Choice([policy.value for policy in OffsetReset]),
    default="fail",
    show_default=True,
    help="What to do if the offset does not exist: fail, or go to the earliest or latest one.",
)
@with_cluster
def consume(
    topic: str,
    start: Start | FromEnd,
    indexes: tuple[int, ...],
    count: int | None,
    until_end: bool,
    as_json: bool,
    columns: tuple[str, ...],
    separator: bytes,
    isolation: Isolation,
    offset_reset: str,
    cluster: Cluster,
) -> None:
    """Print the values of TOPIC's records as lines.

    --show adds columns; --json prints all fields.
    """
    consumer = Consumer(cluster, isolation=isolation, offset_reset=OffsetReset(offset_reset))
    partitions = partitions_of(cluster, [TopicScope(topic, indexes)])
    ends: dict[TopicPartition, int] = {}
    if until_end or isinstance(start, FromEnd) or is_interactive():
        found = list_offsets(
            cluster, dict.fromkeys(partitions, LATEST), read_committed=reads_committed(isolation)
        )
        ends = {partition: entry.offset for partition, entry in found.items()}
    if isinstance(start, FromEnd) and len(partitions) > 1:
        hint(
            f"--from {-start.records} starts {counted(start.records, 'record')} before the end of"
            f" each of {len(partitions)} partitions; use -p to read one of them"
        )
    consumer.assign(_starts(cluster, start, partitions, ends))
    if isinstance(start, AtOffset):
        consumer.check_positions()

    if is_interactive() and not until_end and _has_reached(consumer, ends):
        hint(_waiting(topic, start))

    def line(record: ConsumedRecord) -> bytes:
        return to_json(record).encode() if as_json else to_columns(record, columns, separator)

    printed = 0
    try:
        for batch in _batches(consumer, ends if until_end else None, count):
            print_bytes(line(record) + b"\n" for record in batch)
            printed += len(batch)
    finally:
        if not isinstance(sys.exception(), BrokenPipeError) and not sys.stdout.isatty():
            note(f"consumed {counted(printed, 'record')} from {topic}")


def _batches(
    consumer: Consumer,
    ends: dict[TopicPartition, int] | None,
    count: int | None,
) -> Iterator[list[ConsumedRecord]]:
    """Yield polled records until `ends` or `count` is reached, or forever."""
    taken = 0
    total = _expected(consumer, ends, count)
    with progress("consuming", total, unit="records", prints=True) as bar:
        while taken != count and not (ends is not None and _has_reached(consumer, ends)):
            limit = _MAX_POLL_RECORDS if count is None else min(_MAX_POLL_RECORDS, count - taken)
            records = consumer.poll(_POLL_MS, max_records=limit)
            if ends is not None:
                records = [
                    r for r in records if r.offset < ends[partition_of(r.topic, r.partition)]
                ]
            yield records
            taken += len(records)
            bar.advance(len(records))


def _starts(
    cluster: Cluster,
    start: Start | FromEnd,
    partitions: list[TopicPartition],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, Start]:
    if not isinstance(start, FromEnd):
        return dict.fromkeys(partitions, start)
    earliest = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    return {
        partition: AtOffset(max(earliest[partition].offset, ends[partition] - start.records))
        for partition in partitions
    }


def _waiting(topic: str, start: Start | FromEnd) -> str:
    if start == AT_LATEST:
        return (
            f"waiting for new records of {topic!r}; --from beginning reads older ones, Ctrl-C stops"
        )
    return f"{topic!r} has no records after this start; waiting for new ones, Ctrl-C stops"


def _has_reached(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
    positions = consumer.positions
    return all(positions[partition] >= end for partition, end in ends.items())


def _expected(
    consumer: Consumer, ends: dict[TopicPartition, int] | None, count: int | None
) -> int | None:
    """Return the number of records to come, None if unknown, for the progress bar."""
    if ends is None:
        return count
    positions = consumer.positions
    left = sum(max(0, end - positions[partition]) for partition, end in ends.items())
    return left if count is None else min(left, count)
