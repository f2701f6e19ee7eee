"""`sawlog transactions`: list and describe transactions, fence producers, end hanging ones."""

import time
from typing import Any

import click

from sawlog.cli.cluster_options import (
    TopicScope,
    partitions_of,
    show_partitions,
    topic_option,
    with_cluster,
)
from sawlog.cli.error_messages import report_each
from sawlog.cli.option_types import NAME, PARTITION, TEXT, Integer, Seconds, json_option
from sawlog.cli.output import note, print_json, print_table
from sawlog.cli.units import show_duration
from sawlog.client.admin.admin import Admin
from sawlog.client.admin.transactions import (
    HangingTransaction,
    TransactionAdmin,
    TransactionDescription,
    TransactionListing,
)
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.core.ids import TopicPartition

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)
_OFFSET = Integer(0, 2**63 - 1)
_LONGEST_TIMEOUT_S = 900  # transaction.max.timeout.ms of a broker by default
_ids = click.argument("ids", metavar="ID...", nargs=-1, required=True, type=NAME)


@click.group()
def transactions() -> None:
    """Show transactions, fence producers, find and abort hanging transactions."""


@transactions.command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    metavar="STATE",
    help=f"Only transactions in this state. May be repeated. {', '.join(STATES)}.",
)
@click.option(
    "--open-for",
    "open_for_s",
    type=Seconds(0),
    metavar="SECONDS",
    help="Only transactions that are open for longer.",
)
@click.option("--pattern", type=TEXT, help="Only ids that the regular expression (RE2) matches.")
@json_option
@with_cluster
def list_transactions(
    states: tuple[str, ...],
    open_for_s: float | None,
    pattern: str | None,
    as_json: bool,
    cluster: Cluster,
) -> None:
    """List the transactional ids of the cluster."""
    open_for_ms = None if open_for_s is None else int(open_for_s * 1_000)
    found = TransactionAdmin(cluster).list(states=states, open_for_ms=open_for_ms, pattern=pattern)
    if as_json:
        print_json([_listing(entry) for entry in found])
        return
    columns = ("id", "state", "producer", "coordinator")
    rows = [(e.transactional_id, e.state, e.producer_id, e.coordinator) for e in found]
    print_table(columns, rows, numbers={"producer", "coordinator"})


@transactions.command("describe")
@_ids
@json_option
@with_cluster
def describe_transactions(ids: tuple[str, ...], as_json: bool, cluster: Cluster) -> None:
    """Describe transactional ids: state, producer, and the partitions of an open transaction."""
    found, refusals = TransactionAdmin(cluster).describe(ids)
    if as_json:
        print_json([_description(entry) for entry in found.values()])
    elif found:
        columns = ("id", "state", "producer", "epoch", "coordinator", "timeout", "open", "topics")
        rows = [
            (
                entry.transactional_id,
                entry.state,
                entry.producer_id,
                entry.producer_epoch,
                entry.coordinator,
                show_duration(entry.timeout_ms / 1_000),
                None if entry.start_ms is None else _age(entry.start_ms),
                show_partitions(entry.partitions),
            )
            for entry in found.values()
        ]
        print_table(columns, rows, numbers={"timeout", "open"})
    report_each((), refusals, "")


@transactions.command()
@_ids
@with_cluster
def fence(ids: tuple[str, ...], cluster: Cluster) -> None:
    """Fence the producers of these transactional ids, and abort their open transactions."""
    admin = TransactionAdmin(cluster)
    _, refusals = admin.describe(ids)  # a coordinator would create an id that it does not know
    known = [name for name in ids if name not in refusals]
    report_each(known, refusals | admin.fence(known), "fenced")


@transactions.command("find-hanging")
@topic_option()
@click.option(
    "--open-for",
    "open_for_s",
    type=Seconds(0),
    default=_LONGEST_TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="Only transactions whose last record is that old: use the longest transaction timeout.",
)
@json_option
@with_cluster
def find_hanging(
    scopes: tuple[TopicScope, ...], open_for_s: float, as_json: bool, cluster: Cluster
) -> None:
    """Find transactions that are open in a partition and unknown to their coordinator.

    They hold back read_committed consumers for ever. Without --topic all topics are searched.
    """
    partitions = partitions_of(cluster, scopes) if scopes else _all_partitions(cluster)
    found = TransactionAdmin(cluster).find_hanging(
        partitions, open_for_ms=int(open_for_s * 1_000), now_ms=_now_ms()
    )
    if as_json:
        print_json([_hanging(entry) for entry in found])
        return
    columns = ("topic", "partition", "start_offset", "producer", "epoch", "last_record")
    rows = [
        (
            entry.partition.topic,
            entry.partition.partition,
            entry.producer.transaction_start_offset,
            entry.producer.producer_id,
            entry.producer.producer_epoch,
            f"{_age(entry.producer.last_timestamp)} ago",
        )
        for entry in found
    ]
    print_table(columns, rows, numbers={"partition", "start_offset", "producer", "epoch"})


@transactions.command()
@click.argument("topic", type=NAME)
@click.option("-p", "--partition", "index", type=PARTITION, required=True)
@click.option(
    "--start-offset",
    type=_OFFSET,
    required=True,
    help="The first offset of the transaction, as find-hanging prints it.",
)
@click.option("--force", is_flag=True, help="Abort it even if a coordinator knows the transaction.")
@with_cluster
def abort(topic: str, index: int, start_offset: int, force: bool, cluster: Cluster) -> None:
    """Abort a hanging transaction in one partition of TOPIC.

    A transaction that is known to its coordinator is refused: it will be ended in all its
    partitions, and `sawlog transactions fence` aborts it now.
    """
    admin, where = TransactionAdmin(cluster), partition_of(topic, index)
    open_here = [
        HangingTransaction(where, producer)
        for producer in admin.describe_producers([where])[where]
        if producer.transaction_start_offset == start_offset
    ]
    if not open_here:
        raise click.ClickException(f"{where} has no open transaction from offset {start_offset}")
    hanging = admin.find_hanging([where], open_for_ms=-(2**62), now_ms=_now_ms())
    if open_here[0] not in hanging and not force:
        raise click.ClickException(
            f"the transaction in {where} from offset {start_offset} does not hang: its coordinator"
            " ends it; to abort it now, fence its producer"
        )
    admin.abort_hanging(open_here[0])
    note(f"{where}: aborted the transaction from offset {start_offset}")


def _all_partitions(cluster: Cluster) -> list[TopicPartition]:
    return [
        partition_of(topic.name, index)
        for topic in Admin(cluster).list_topics()
        for index in topic.partitions
    ]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _age(timestamp_ms: int) -> str:
    return show_duration(max(0, _now_ms() - timestamp_ms) / 1_000)


def _listing(entry: TransactionListing) -> dict[str, Any]:
    return {
        "id": entry.transactional_id,
        "state": entry.state,
        "producer_id": entry.producer_id,
        "coordinator": entry.coordinator,
    }


def _description(entry: TransactionDescription) -> dict[str, Any]:
    return {
        "id": entry.transactional_id,
        "state": entry.state,
        "producer_id": entry.producer_id,
        "producer_epoch": entry.producer_epoch,
        "coordinator": entry.coordinator,
        "timeout_ms": entry.timeout_ms,
        "start_ms": entry.start_ms,
        "partitions": [
            {"topic": partition.topic, "partition": partition.partition}
            for partition in entry.partitions
        ],
    }


def _hanging(entry: HangingTransaction) -> dict[str, Any]:
    return {
        "topic": entry.partition.topic,
        "partition": entry.partition.partition,
        "start_offset": entry.producer.transaction_start_offset,
        "producer_id": entry.producer.producer_id,
        "producer_epoch": entry.producer.producer_epoch,
        "coordinator_epoch": entry.producer.coordinator_epoch,
        "last_timestamp": entry.producer.last_timestamp,
    }
