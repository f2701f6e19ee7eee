"""Members of groups: who they are where they are in the way, and `sawlog groups remove-member`."""

import click

from sawlog.cli.common_options import with_cluster
from sawlog.cli.exit_codes import report_each
from sawlog.cli.option_types import NAME
from sawlog.cli.output import counted, note
from sawlog.client.admin.groups import GroupAdmin, GroupDescription, GroupMember
from sawlog.client.admin.remove_members import Leaver
from sawlog.client.net.cluster import Cluster
from sawlog.core.errors import ErrorCode, KafkaError

_MEMBERS_NAMED = 5
_AT_ONCE = 1_000  # in a request, which the coordinator carries out in one go


def occupied(group: GroupDescription, why: str = "") -> KafkaError:
    """That members of a group are in the way, who they are, and how they go."""
    named = [_who(member) for member in group.members]
    more = len(named) - _MEMBERS_NAMED
    who = ", ".join(named[:_MEMBERS_NAMED]) + (f" and {more} more" if more > 0 else "")
    members = f"{counted(len(named), 'member')}: {who}" if named else f"the state {group.state}"
    them = "it" if len(named) == 1 else "them"
    return KafkaError(
        ErrorCode.NON_EMPTY_GROUP,
        f"the group {group.id!r} has {members}; {why}stop {them} first. One that was killed, or is"
        " static (group.instance.id), stays until its session times out, or until"
        " `sawlog groups remove-member` puts it out",
    )


def _who(member: GroupMember) -> str:
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
    help="Whoever has this group.instance.id; repeat.",
)
@click.option("--all", "everybody", is_flag=True, help="All members that it has now.")
@click.option(
    "--reason", type=NAME, default="removed by an admin", show_default=True, help="For the logs."
)
@with_cluster
def remove_member(
    name: str,
    members: tuple[str, ...],
    instances: tuple[str, ...],
    everybody: bool,
    reason: str,
    cluster: Cluster,
) -> None:
    """Put members out of GROUP, that were killed or hang.

    One that lives comes back by itself; stop it first. `sawlog groups describe` has their ids.
    """
    is_named = bool(members or instances)
    if is_named and everybody:
        raise click.UsageError("name members, or give --all, not both")
    if not is_named and not everybody:
        raise click.UsageError("name members, or give --instance, or --all")
    admin = GroupAdmin(cluster)
    described, refusals = admin.describe_groups([name])
    if name in refusals:
        raise refusals[name]
    there = described[name].members
    leavers = _leavers(there) if everybody else _named(there, members, instances)
    refused: dict[Leaver, KafkaError] = {}
    for first in range(0, len(leavers), _AT_ONCE):
        refused |= admin.remove_members(name, leavers[first : first + _AT_ONCE], reason)
    note(f"{name}: {counted(len(leavers) - len(refused), 'member')} removed")
    report_each((), {_name(leaver): error for leaver, error in refused.items()}, "")


def _leavers(members: list[GroupMember]) -> list[Leaver]:
    """A static one by its place, whoever holds it by now."""
    return [
        Leaver(each.id) if each.instance_id is None else Leaver(instance_id=each.instance_id)
        for each in members
    ]


def _named(
    there: list[GroupMember], members: tuple[str, ...], instances: tuple[str, ...]
) -> list[Leaver]:
    """The id of a static member is sent with its place, as brokers want it."""
    places = {each.id: each.instance_id for each in there}
    found = [Leaver(member, places.get(member)) for member in dict.fromkeys(members)]
    return found + [Leaver(instance_id=instance) for instance in dict.fromkeys(instances)]


def _name(leaver: Leaver) -> str:
    return leaver.member_id or leaver.instance_id or ""
