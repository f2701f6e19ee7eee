"""`sawlog groups`: list, describe and delete groups and offsets; what else there is, it gathers."""

from typing import Any

import click

from sawlog.cli.common_options import json_option, with_cluster
from sawlog.cli.exit_codes import report_each
from sawlog.cli.groups_lag import lag
from sawlog.cli.groups_members import occupied, remove_member
from sawlog.cli.groups_reset import reset
from sawlog.cli.option_types import NAME
from sawlog.cli.output import counted, note, print_json, print_line, print_table
from sawlog.cli.partition_options import (
    TopicScope,
    partitions_of,
    report_partitions,
    show_partitions,
    topic_option,
)
from sawlog.client.admin.groups import (
    CLASSIC,
    CONSUMER,
    CONSUMER_PROTOCOL,
    GroupAdmin,
    GroupDescription,
    GroupListing,
)
from sawlog.client.admin.lag import Measurement, measure
from sawlog.client.errors import Refusals
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
    """List, describe and delete groups; see their lag, set their offsets, put members out."""


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
    help=f"Only in this one; repeat. {', '.join(STATES)}.",
)
@click.option(
    "--type",
    "types",
    type=click.Choice((CLASSIC, CONSUMER), case_sensitive=False),
    multiple=True,
    help="Only of this one; repeat.",
)
@json_option
@with_cluster
def list_groups(
    states: tuple[str, ...], types: tuple[str, ...], as_json: bool, cluster: Cluster
) -> None:
    """List the groups of the cluster."""
    admin = GroupAdmin(cluster)
    listed = admin.list_groups(states=states, types=types)
    described, _ = admin.describe_groups(entry.id for entry in listed)  # one may end meanwhile
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
    """Describe groups: state, members, offsets.

    Also who coordinates them, and what each member reads.
    """
    found, refusals = measure(cluster, GroupAdmin(cluster), names)
    if as_json:
        print_json([_description(measured) for measured in found.values()])
    else:
        for place, measured in enumerate(found.values()):
            if place:
                print_line("")
            _print_description(measured)
    report_each((), refusals, "")


@groups.command()
@_names
@click.option("--if-exists", is_flag=True, help="Be content where it is not there.")
@with_cluster
def delete(names: tuple[str, ...], if_exists: bool, cluster: Cluster) -> None:
    """Delete groups with all their offsets, once they have no members."""
    admin = GroupAdmin(cluster)
    refusals = admin.delete_groups(names)
    _name_members(admin, refusals)
    forgiven = ErrorCode.GROUP_ID_NOT_FOUND if if_exists else None
    report_each(names, refusals, "deleted", forgiven=forgiven)


@groups.command("delete-offsets")
@click.argument("name", metavar="GROUP", type=NAME)
@topic_option(is_required=True)
@with_cluster
def delete_offsets(name: str, scopes: tuple[TopicScope, ...], cluster: Cluster) -> None:
    """Forget offsets of a group, of topics that it does not read any more."""
    admin = GroupAdmin(cluster)
    _, refusals = admin.describe_groups([name])
    committed, refused = admin.committed_offsets([name])
    for error in (refusals | refused).values():
        raise error
    doomed = [each for each in committed[name] if any(scope.holds(each) for scope in scopes)]
    without = _without_offsets(scopes, doomed)
    if not doomed:
        partitions_of(cluster, scopes)  # says so where a topic or a partition is not there at all
        raise click.ClickException(
            f"the group {name!r} has no committed offsets of {without}; nothing was deleted"
        )
    not_deleted = admin.delete_offsets(name, doomed)
    note(f"{name}: {counted(len(doomed) - len(not_deleted), 'offset')} deleted")
    if without:
        note(f"{name}: there was none of {without}")
    report_partitions(not_deleted)


def _without_offsets(scopes: tuple[TopicScope, ...], found: list[TopicPartition]) -> str:
    """Which topics and partitions asked for have none, as an option takes them."""
    topics = [
        scope.topic
        for scope in scopes
        if not scope.indexes and all(each.topic != scope.topic for each in found)
    ]
    asked = {partition_of(scope.topic, index) for scope in scopes for index in scope.indexes}
    partitions = asked - set(found)
    return ";".join([*topics, *([show_partitions(partitions)] if partitions else [])])


def _name_members(admin: GroupAdmin, refusals: Refusals) -> None:
    """Who is in the way of what was refused because of members, where they are still there."""
    full = [name for name, error in refusals.items() if error.code is ErrorCode.NON_EMPTY_GROUP]
    described, _ = admin.describe_groups(full)
    for name, group in described.items():
        if not group.is_idle:
            refusals[name] = occupied(group)


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
    """The assignor; what is no consumer says so."""
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
    """Columns that nobody has anything for are left out."""
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
