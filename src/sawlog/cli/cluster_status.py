"""`sawlog cluster status`: brokers, and the partitions that need attention."""

from typing import Any

import click

from sawlog.cli.cluster_health import ClusterHealth, PartitionHealth, assess
from sawlog.cli.cluster_options import with_cluster
from sawlog.cli.exit_codes import FAILED
from sawlog.cli.option_types import json_option
from sawlog.cli.output import counted, note, print_json, print_line, print_table
from sawlog.client.admin.admin import Admin, ClusterDescription
from sawlog.client.admin.configs import Resource
from sawlog.client.admin.log_dirs import has_offline_log_dir
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.metadata import Topic
from sawlog.core.config_api import ResourceType
from sawlog.core.errors import KafkaError

_SETTING = "min.insync.replicas"
_DIRECTORY_TIMEOUT_MS = 3_000  # for the answer of one broker
_ROWS = 50  # of partitions that need attention


@click.command()
@click.option("--all", "everything", is_flag=True, help="Show all partitions.")
@json_option
@with_cluster
def status(everything: bool, as_json: bool, cluster: Cluster) -> None:
    """Show the brokers, and the partitions that need attention.

    Exits with 0 if all partitions have a leader and all their replicas in sync, and no broker is
    down or has an offline log directory; else with 1. Replicas that an ongoing reassignment adds
    need not be in sync.
    """
    cluster.prefer_controller()
    admin = Admin(cluster)
    description = admin.describe_cluster()
    topics = admin.list_topics(include_internal=True)
    health = assess(
        description.nodes,
        description.controller,
        topics,
        _min_in_sync(admin, topics),
        admin.list_partition_reassignments(),
        {
            int(node.id)
            for node in description.nodes
            if has_offline_log_dir(node.address, min(_DIRECTORY_TIMEOUT_MS, cluster.timeout_ms))
        },
    )
    if as_json:
        print_json(_entry(description, health))
    else:
        _print_brokers(description, health)
        _print_partitions(health, everything)
    if not health.is_healthy:
        click.get_current_context().exit(FAILED)


def _min_in_sync(admin: Admin, topics: list[Topic]) -> dict[str, int]:
    """Return the setting of each topic; none if the user may not see settings."""
    resources = [Resource(ResourceType.TOPIC, topic.name) for topic in topics]
    if not resources:
        return {}
    try:
        found = admin.describe_configs(resources, names=[_SETTING])
    except KafkaError as error:
        note(f"{_SETTING} of the topics is unknown: {error}")
        return {}
    return {
        resource.name: int(entry.value or 1)
        for resource, entries in found.items()
        for entry in entries
    }


def _print_brokers(description: ClusterDescription, health: ClusterHealth) -> None:
    controller = f"broker {description.controller}" if description.controller >= 0 else "none"
    print_line(f"cluster {description.cluster_id}, controller: {controller}")
    columns = ("broker", "address", "rack", "leaders", "replicas", "out of sync", "state")
    rows = [
        (
            broker.id,
            None if broker.node is None else str(broker.node.address),
            None if broker.node is None else broker.node.rack,
            broker.leaders,
            broker.replicas,
            broker.out_of_sync,
            broker.state,
        )
        for broker in health.brokers
    ]
    print_table(columns, rows)


def _print_partitions(health: ClusterHealth, everything: bool) -> None:
    moving = sum(each.reassignment is not None for each in health.partitions)
    print_line(
        f"{counted(len(health.partitions), 'partition')}: {len(health.offline)} offline,"
        f" {len(health.under_min_isr)} under min ISR,"
        f" {len(health.under_replicated)} under-replicated, {moving} being reassigned"
    )
    displaced = sum(
        not each.has_preferred_leader and not each.problem for each in health.partitions
    )
    if displaced:
        note(
            f"{counted(displaced, 'partition')} not led by the preferred replica: sawlog cluster"
            " elect changes that"
        )
    wanted = health.partitions if everything else health.problems
    if not wanted:
        return
    shown = wanted if everything else wanted[:_ROWS]
    columns = ("topic", "partition", "leader", "replicas", "isr", "min isr", "problem")
    print_table(columns, [_row(each) for each in shown])
    if len(shown) < len(wanted):
        note(f"{len(wanted) - len(shown)} more have a problem; --all shows all partitions")


def _row(each: PartitionHealth) -> tuple[object, ...]:
    target = each.reassignment.target if each.reassignment else ()
    moving = f"moving to {','.join(map(str, target))}" if target else ""
    return (
        *each.name,
        None if each.is_offline else each.partition.leader,
        each.partition.replicas,
        each.partition.in_sync or None,
        each.min_in_sync,
        "; ".join(filter(None, (each.problem, moving))) or None,
    )


def _entry(description: ClusterDescription, health: ClusterHealth) -> dict[str, Any]:
    return {
        "cluster_id": description.cluster_id,
        "controller": description.controller if description.controller >= 0 else None,
        "healthy": health.is_healthy,
        "offline": len(health.offline),
        "under_min_isr": len(health.under_min_isr),
        "under_replicated": len(health.under_replicated),
        "brokers": [
            {
                "broker": broker.id,
                "address": None if broker.node is None else str(broker.node.address),
                "rack": None if broker.node is None else broker.node.rack,
                "up": broker.node is not None,
                "state": broker.state,
                "leaders": broker.leaders,
                "replicas": broker.replicas,
                "out_of_sync": broker.out_of_sync,
            }
            for broker in health.brokers
        ],
        "partitions": [
            {
                "topic": each.name.topic,
                "partition": each.name.partition,
                "leader": None if each.is_offline else each.partition.leader,
                "replicas": list(each.partition.replicas),
                "isr": list(each.partition.in_sync),
                "min_isr": each.min_in_sync,
                "moving_to": each.reassignment and list(each.reassignment.target),
                "problem": each.problem or None,
            }
            for each in health.partitions
        ],
    }
