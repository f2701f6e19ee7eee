"""`sawlog groups`: list, describe and delete groups, delete their offsets; adds the subcommands
`lag`, `reset` and `remove-member`.
"""

from typing import Any

import click

from sawlog.cli.cluster_options import (
    TopicScope,
    partitions_of,
    report_partitions,
    show_partitions,
    topic_option,
    with_cluster,
)
from sawlog.cli.error_messages import report_each
from sawlog.cli.groups_lag import lag
from sawlog.cli.groups_members import non_empty_group, remove_member
from sawlog.cli.groups_reset import reset
from sawlog.cli.option_types import NAME, json_option
from sawlog.cli.output import counted, note, print_json, print_line, print_table
from sawlog.client.admin.groups import (
    CLASSIC,
    CONSUMER,
    CONSUMER_PROTOCOL,
    GroupAdmin,
    GroupDescription,
    GroupListing,
)
from sawlog.client.admin.lag import Measurement, measure
from sawlog.client.errors import ErrorsByName
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import group_by_topic, partition_of
from sawlog.core.errors import ErrorCode
from sawlog.core.ids import TopicPartition

STATES = (
    "Empty",
    "Stable",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "Dead",
)
_names = click.argument("names", metavar="GROUP...", nargs=-1, required=True, type=NAME)


@click.group()
def groups() -> None:
    """Show consumer groups and their lag, reset offsets, remove members, delete groups."""


groups.add_command(lag)
groups.add_command(reset)
groups.add_command(remove_member)


@groups.command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    metavar="STATE",
    help=f"Only groups in this state. May be repeated. {', '.join(STATES)}.",
)
@click.option(
    "--type",
    "types",
    type=click.Choice((CLASSIC, CONSUMER), case_sensitive=False),
    multiple=True,
    help="Only groups of this type. May be repeated.",
)
@json_option
@with_cluster
def list_groups(
    states: tuple[str, ...], types: tuple[str, ...], as_json: bool, cluster: Cluster
) -> None:
    """List the groups of the cluster."""
    admin = GroupAdmin(cluster)
    listed = admin.list_groups(states=states, types=types)
    described, _ = admin.describe_groups(entry.id for entry in listed)  # one may be gone by now
    entries = [_listing(entry, described.get(entry.id)) for entry in listed]
    if as_json:
        print_json(entries)
        return
    columns = ("group", "type", "state", "members", "protocol")
    rows = [
        (entry["group"], entry["type"], entry["state"], entry["members"], _protocol(entry))
        for entry in entries
    ]
    print_table(columns, rows, numbers={"members"})


@groups.command("describe")
@_names
@json_option
@with_cluster
def describe_groups(names: tuple[str, ...], as_json: bool, cluster: Cluster) -> None:
    """Describe groups: state, members, offsets."""
    found, refusals = measure(cluster, GroupAdmin(cluster), names)
    if as_json:
        print_json([_description(measured) for measured in found.values()])
    else:
        for index, measured in enumerate(found.values()):
            if index:
                print_line("")
            _print_description(measured)
    report_each((), refusals, "")


@groups.command()
@_names
@click.option("--if-exists", is_flag=True, help="Ignore groups that do not exist.")
@with_cluster
def delete(names: tuple[str, ...], if_exists: bool, cluster: Cluster) -> None:
    """Delete groups without members, and all their offsets."""
    admin = GroupAdmin(cluster)
    refusals = admin.delete_groups(names)
    _name_members(admin, refusals)
    ignored = ErrorCode.GROUP_ID_NOT_FOUND if if_exists else None
    report_each(names, refusals, "deleted", ignored=ignored)


@groups.command("delete-offsets")
@click.argument("name", metavar="GROUP", type=NAME)
@topic_option(is_required=True)
@with_cluster
def delete_offsets(name: str, scopes: tuple[TopicScope, ...], cluster: Cluster) -> None:
    """Delete offsets of topics that are not read.

    The group must have no members that subscribe to these topics.
    """
    admin = GroupAdmin(cluster)
    _, refusals = admin.describe_groups([name])
    committed, refused = admin.committed_offsets([name])
    for error in (refusals | refused).values():
        raise error
    to_delete = [each for each in committed[name] if any(scope.covers(each) for scope in scopes)]
    missing = _without_offsets(scopes, to_delete)
    if not to_delete:
        partitions_of(cluster, scopes)  # raises NoSuchTopic if a topic or partition does not exist
        raise click.ClickException(
            f"the group {name!r} has no committed offsets for {missing}; nothing was deleted"
        )
    not_deleted = admin.delete_offsets(name, to_delete)
    note(f"{name}: {counted(len(to_delete) - len(not_deleted), 'offset')} deleted")
    if missing:
        note(f"{name}: no committed offsets for {missing}")
    report_partitions(not_deleted)


def _without_offsets(scopes: tuple[TopicScope, ...], found: list[TopicPartition]) -> str:
    """Return the part of `scopes` that is not in `found`, as `--topic` takes it."""
    topics = [
        scope.topic
        for scope in scopes
        if not scope.indexes and all(each.topic != scope.topic for each in found)
    ]
    named = {partition_of(scope.topic, index) for scope in scopes for index in scope.indexes}
    partitions = named - set(found)
    return ";".join([*topics, *([show_partitions(partitions)] if partitions else [])])


def _name_members(admin: GroupAdmin, refusals: ErrorsByName) -> None:
    """Add the members to each NON_EMPTY_GROUP error."""
    names = [name for name, error in refusals.items() if error.code is ErrorCode.NON_EMPTY_GROUP]
    described, _ = admin.describe_groups(names)
    for name, group in described.items():
        if not group.is_idle:
            refusals[name] = non_empty_group(group)


def _listing(listed: GroupListing, described: GroupDescription | None) -> dict[str, Any]:
    return {
        "group": listed.id,
        "type": listed.type or None,
        "state": listed.state or None,
        "members": None if described is None else len(described.members),
        "protocol_type": listed.protocol_type or None,
        "protocol": (described.assignor or None) if described is not None else None,
    }


def _protocol(entry: dict[str, Any]) -> str | None:
    """Return the assignor, with the protocol type in front if it is not `consumer`."""
    if entry["protocol_type"] in (CONSUMER_PROTOCOL, None):
        return entry["protocol"]  # type: ignore[no-any-return]
    return "/".join(filter(None, (entry["protocol_type"], entry["protocol"])))


def _description(measured: Measurement) -> dict[str, Any]:
    group = measured.group
    return {
        "group": group.id,
        "type": group.type,
        "state": group.state,
        "protocol_type": group.protocol_type or None,
        "assignor": group.assignor or None,
        "coordinator": {
            "node": group.coordinator.id,
            "host": group.coordinator.address.host,
            "port": group.coordinator.address.port,
        },
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "members": [
            {
                "member": member.id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.host.lstrip("/"),
                "epoch": member.epoch,
                "assigned": _by_topic(member.assigned),
                "target": _by_topic(member.target),
            }
            for member in group.members
        ],
        "offsets": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": position.committed,
                "end": position.end,
                "lag": position.lag,
                "member": None if position.member is None else position.member.id,
            }
            for partition, position in measured.positions.items()
        ],
    }


def _by_topic(partitions: tuple[TopicPartition, ...] | None) -> dict[str, list[int]] | None:
    if partitions is None:
        return None
    return {str(topic): list(map(int, each)) for topic, each in group_by_topic(partitions).items()}


def _print_description(measured: Measurement) -> None:
    group = measured.group
    members = counted(len(group.members), "member") if group.members else "no members"
    print_line(f"{group.id}  {group.type}, {group.state}, {members}")
    print_line(f"  coordinator={group.coordinator.address} ({group.coordinator.id})")
    print_line(f"  assignor={group.assignor or '-'}")
    if group.epoch is not None:
        print_line(f"  epoch={group.epoch}  target epoch={group.target_epoch}")
    if group.members:
        _print_members(group)
    if not measured.positions:
        print_line("  no committed offsets")
    else:
        columns = ("topic", "partition", "committed", "end", "lag", "member")
        rows = [
            (*partition, at.committed, at.end, at.lag, None if at.member is None else at.member.id)
            for partition, at in measured.positions.items()
        ]
        print_table(columns, rows, numbers=set(columns[1:5]), shortened="member")


def _print_members(group: GroupDescription) -> None:
    """Print the members as a table, without columns that are empty for all of them."""
    rows = [
        {
            "member": member.id,
            "instance": member.instance_id,
            "client": member.client_id,
            "host": member.host.lstrip("/"),
            "epoch": member.epoch,
            "assigned": show_partitions(member.assigned),
            "target": None if member.target is None else show_partitions(member.target),
        }
        for member in group.members
    ]
    columns = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    print_table(columns, [[row[name] for name in columns] for row in rows])
