"""`sawlog cluster elect`: let preferred replicas lead, or accept the loss of records."""

import sys
from typing import Any

import click

from sawlog.cli.cluster_options import (
    TopicScope,
    partitions_of,
    report_partitions,
    topic_option,
    with_cluster,
)
from sawlog.cli.option_types import json_option
from sawlog.cli.output import counted, note, print_json, print_table
from sawlog.client.admin.admin import Admin
from sawlog.client.admin.reassignments import ElectionType
from sawlog.client.net.cluster import Cluster
from sawlog.core.errors import KafkaError
from sawlog.core.ids import TopicPartition

Leaders = dict[TopicPartition, int | None]


@click.command()
@topic_option()
@click.option(
    "--unclean",
    is_flag=True,
    help="Elect a live replica that is not in sync, for partitions without a leader."
    " Acknowledged records that it does not have are lost.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@with_cluster
def elect(
    scopes: tuple[TopicScope, ...], unclean: bool, yes: bool, as_json: bool, cluster: Cluster
) -> None:
    """Elect the preferred leaders (the first replicas) of partitions; default: of all.

    An election of a preferred leader loses nothing: only a replica that is in sync becomes leader.
    """
    cluster.prefer_controller()
    admin = Admin(cluster)
    partitions = partitions_of(cluster, scopes) if scopes else None
    before = _leaders(admin)
    if unclean:
        _confirm_unclean(before, partitions, yes)
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    results = admin.elect_leaders(kind, partitions)
    elected = sorted(partition for partition, error in results.items() if error is None)
    after = _leaders(admin) if elected else before
    if as_json:
        print_json([_entry(each, before, after, results[each]) for each in sorted(results)])
    elif elected:
        rows = [(*each, before.get(each), "->", after.get(each)) for each in elected]
        print_table(("topic", "partition", "old leader", "", "new leader"), rows)
    if not results:
        note("no partition needs an election")
    else:
        note(f"{counted(len(elected), 'leader')} elected")
    report_partitions({each: error for each, error in results.items() if error is not None})


def _entry(
    partition: TopicPartition, before: Leaders, after: Leaders, error: KafkaError | None
) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "old_leader": before.get(partition),
        "new_leader": after.get(partition),
        "error": None if error is None else error.code.name,
    }


def _leaders(admin: Admin) -> Leaders:
    return {
        TopicPartition(topic.name, index): partition.leader if partition.leader >= 0 else None
        for topic in admin.list_topics(include_internal=True)
        for index, partition in topic.partitions.items()
    }


def _confirm_unclean(leaders: Leaders, wanted: list[TopicPartition] | None, yes: bool) -> None:
    """Ask if there are partitions without a leader; UsageError if stdin is not a terminal."""
    lost = [each for each, leader in leaders.items() if leader is None]
    if wanted is not None:
        lost = [each for each in lost if each in set(wanted)]
    if yes or not lost:
        return
    text = f"{counted(len(lost), 'partition')} may lose acknowledged records by this election"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{text}; nothing was done. Use --yes to elect")
    click.confirm(f"{text}. Elect?", abort=True, err=True)
