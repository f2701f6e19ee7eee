"""`sawlog consume`: the records of a topic as lines, plain or JSON."""

import sys
from collections.abc import Iterator

import click

from sawlog.cli.common_options import with_cluster
from sawlog.cli.option_types import PARTITION, RAW_BYTES, TEXT
from sawlog.cli.output import counted, is_watched, note, print_bytes, progress, remark
from sawlog.cli.partition_options import TopicScope, partitions_of
from sawlog.cli.record_format import to_columns, to_json
from sawlog.cli.start_options import FromEnd, StartPoint
from sawlog.client.admin.list_offsets import EARLIEST, LATEST, list_offsets
from sawlog.client.consumer.consumer import AT_LATEST, AtOffset, Consumer, OutOfRange, Start
from sawlog.client.consumer.fetched_records import ConsumedRecord
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition

COLUMNS = ("topic", "partition", "offset", "timestamp", "headers", "key")
_POLL_MS = 500
_AT_ONCE = 1_000


class Columns(click.ParamType[tuple[str, ...]]):
    name = "columns"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        columns = tuple(name.strip() for name in str(value).split(",")) if value else ()
        for column in columns:
            if column not in COLUMNS:
                self.fail(f"{column!r} is none of {', '.join(COLUMNS)}", param, ctx)
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
    help="beginning, end, an offset (17), so many records before the end of each partition (-5), a"
    " time (2025-01-31T12:00:00Z; UTC where no zone is given) or a time ago (30s, 15m, 2h, 1d).",
)
@click.option(
    "-p", "--partition", "indexes", type=PARTITION, multiple=True, help="Only this one; repeat."
)
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after so many records.")
@click.option("-e", "--exit", "until_end", is_flag=True, help="Stop at the end as it is now.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with everything.")
@click.option(
    "-s",
    "--show",
    "columns",
    type=Columns(),
    default="",
    metavar="COLUMN,...",
    help=f"Print these before the value: {', '.join(COLUMNS)}.",
)
@click.option(
    "--separator", type=RAW_BYTES, default="\t", help="Between columns; a tab unless given."
)
@click.option("--read-committed", is_flag=True, help="Leave out open and aborted transactions.")
@click.option(
    "--out-of-range",
    type=click.Choice([policy.value for policy in OutOfRange]),
    default="fail",
    show_default=True,
    help="What to do where the offset wanted is not there any more.",
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
    read_committed: bool,
    out_of_range: str,
    cluster: Cluster,
) -> None:
    """Print the records of TOPIC: the value a line, more with --show, everything with --json."""
    consumer = Consumer(
        cluster, read_committed=read_committed, out_of_range=OutOfRange(out_of_range)
    )
    where = partitions_of(cluster, [TopicScope(topic, indexes)])
    ends: dict[TopicPartition, int] = {}
    if until_end or isinstance(start, FromEnd) or is_watched():
        found = list_offsets(cluster, dict.fromkeys(where, LATEST), read_committed=read_committed)
        ends = {partition: entry.offset for partition, entry in found.items()}
    if isinstance(start, FromEnd) and len(where) > 1:
        remark(
            f"--from {-start.records} begins {counted(start.records, 'record')} before the end of"
            f" each of {len(where)} partitions; -p reads one of them"
        )
    consumer.assign(_starts(cluster, start, where, ends))
    if isinstance(start, AtOffset):
        consumer.check_positions()

    if is_watched() and not until_end and _is_at(consumer, ends):
        remark(_waiting(topic, start))

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
    """What comes up to the ends, up to the count, or without end."""
    taken = 0
    total = _expected(consumer, ends, count)
    with progress("consuming", total, unit="records", prints=True) as bar:
        while taken != count and not (ends is not None and _is_at(consumer, ends)):
            wanted = _AT_ONCE if count is None else min(_AT_ONCE, count - taken)
            records = consumer.poll(_POLL_MS, max_records=wanted)
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
    where: list[TopicPartition],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, Start]:
    if not isinstance(start, FromEnd):
        return dict.fromkeys(where, start)
    firsts = list_offsets(cluster, dict.fromkeys(where, EARLIEST))
    return {
        partition: AtOffset(max(firsts[partition].offset, ends[partition] - start.records))
        for partition in where
    }


def _waiting(topic: str, start: Start | FromEnd) -> str:
    if start == AT_LATEST:
        return (
            f"waiting for new records of {topic!r}; --from beginning reads older ones, Ctrl-C ends"
        )
    return f"{topic!r} has no records from there on; waiting for new ones, Ctrl-C ends"


def _is_at(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
    positions = consumer.positions
    return all(positions[partition] >= end for partition, end in ends.items())


def _expected(
    consumer: Consumer, ends: dict[TopicPartition, int] | None, count: int | None
) -> int | None:
    """How many records will come, where that is known, for the progress bar."""
    if ends is None:
        return count
    positions = consumer.positions
    left = sum(max(0, end - positions[partition]) for partition, end in ends.items())
    return left if count is None else min(left, count)
