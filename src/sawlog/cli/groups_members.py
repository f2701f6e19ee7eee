"""Members of groups: `sawlog groups remove-member`, and the error for groups that have members."""

import click

from sawlog.cli.cluster_options import with_cluster
from sawlog.cli.error_messages import report_each
from sawlog.cli.option_types import NAME
from sawlog.cli.output import counted, note
from sawlog.client.admin.groups import (
    GroupAdmin,
    GroupDescription,
    GroupMember,
    MemberToRemove,
)
from sawlog.client.net.cluster import Cluster
from sawlog.core.errors import ErrorCode, KafkaError

_MOST_SHOWN = 5
_MAX_PER_REQUEST = 1_000  # the coordinator processes a request in one step


def non_empty_group(group: GroupDescription, reason: str = "") -> KafkaError:
    """Return an error that names the members of the group and how to remove them."""
    shown = [_show(member) for member in group.members]
    more = len(shown) - _MOST_SHOWN
    names = ", ".join(shown[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
    members = f"{counted(len(shown), 'member')}: {names}" if shown else f"the state {group.state}"
    them = "it" if len(shown) == 1 else "them"
    return KafkaError(
        ErrorCode.NON_EMPTY_GROUP,
        f"the group {group.id!r} has {members}; {reason}stop {them} first. A killed member, or a"
        " stopped static one (group.instance.id), stays until its session times out, or until"
        " `sawlog groups remove-member` removes it",
    )


def _show(member: GroupMember) -> str:
    instance = "" if member.instance_id is None else f", instance {member.instance_id}"
    return f"{member.client_id} at {member.host.lstrip('/')} ({member.id}{instance})"


@click.command("remove-member")
@click.argument("name", metavar="GROUP", type=NAME)
@click.argument("members", metavar="[MEMBER]...", nargs=-1, type=NAME)
@click.option(
    "--instance",
    "instances",
    type=NAME,
    multiple=True,
    metavar="ID",
    help="Remove the member with this group.instance.id. May be repeated.",
)
@click.option("--all", "all_members", is_flag=True, help="Remove all current members.")
@click.option(
    "--reason",
    type=NAME,
    default="removed by an admin",
    show_default=True,
    help="Reason that the broker logs.",
)
@with_cluster
def remove_member(
    name: str,
    members: tuple[str, ...],
    instances: tuple[str, ...],
    all_members: bool,
    reason: str,
    cluster: Cluster,
) -> None:
    """Remove members of GROUP that were killed or hang.

    Stop a running member first, else it joins again. `sawlog groups describe` shows member ids.
    """
    is_named = bool(members or instances)
    if is_named and all_members:
        raise click.UsageError("give members or --all, not both")
    if not is_named and not all_members:
        raise click.UsageError("give members, --instance or --all")
    admin = GroupAdmin(cluster)
    described, refusals = admin.describe_groups([name])
    if name in refusals:
        raise refusals[name]
    current = described[name].members
    leavers = _leavers(current) if all_members else _named(current, members, instances)
    refused: dict[MemberToRemove, KafkaError] = {}
    for first in range(0, len(leavers), _MAX_PER_REQUEST):
        refused |= admin.remove_members(name, leavers[first : first + _MAX_PER_REQUEST], reason)
    note(f"{name}: {counted(len(leavers) - len(refused), 'member')} removed")
    report_each((), {_name(leaver): error for leaver, error in refused.items()}, "")


def _leavers(members: list[GroupMember]) -> list[MemberToRemove]:
    """Name static members by their instance id, which keeps its meaning if they rejoin."""
    return [
        MemberToRemove(each.id)
        if each.instance_id is None
        else MemberToRemove(instance_id=each.instance_id)
        for each in members
    ]


def _named(
    current: list[GroupMember], members: tuple[str, ...], instances: tuple[str, ...]
) -> list[MemberToRemove]:
    """Send a static member's id with its instance id, as brokers require."""
    instance_ids = {each.id: each.instance_id for each in current}
    found = [MemberToRemove(member, instance_ids.get(member)) for member in dict.fromkeys(members)]
    return found + [MemberToRemove(instance_id=instance) for instance in dict.fromkeys(instances)]


def _name(leaver: MemberToRemove) -> str:
    return leaver.member_id or leaver.instance_id or ""
