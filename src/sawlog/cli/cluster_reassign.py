"""`sawlog cluster reassign` and `drain`: move replicas and leaders, and wait for the end."""

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import click

from sawlog.cli.cluster_options import (
    Command,
    TopicScope,
    partitions_of,
    report_partitions,
    topic_option,
    with_cluster,
)
from sawlog.cli.exit_codes import FAILED
from sawlog.cli.option_types import REPLICA_COUNT, TEXT, Integer, json_option
from sawlog.cli.output import counted, note, print_json, print_table, progress
from sawlog.cli.reassignment_plan import (
    Move,
    Placement,
    Racks,
    TooFewBrokers,
    plan_leader_moves,
    plan_moves,
)
from sawlog.cli.reassignment_throttle import remove_throttle, set_throttle
from sawlog.client.admin.admin import Admin
from sawlog.client.admin.reassignments import ElectionType
from sawlog.client.net.cluster import Cluster
from sawlog.core.errors import ErrorCode
from sawlog.core.ids import TopicPartition

BROKER_ID = Integer(0, 2**31 - 1)
BYTES_PER_S = Integer(1, 2**63 - 1)
_POLL_S = 0.25
_RESUME = (
    "sawlog cluster reassign --resume shows its progress, and removes its throttle at the end;"
    " --cancel undoes it"
)


class BrokerIds(click.ParamType[tuple[int, ...]]):
    name = "id,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        parts = TEXT.convert(value, param, ctx).split(",")
        return tuple(dict.fromkeys(BROKER_ID.convert(part.strip(), param, ctx) for part in parts))


_yes = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
_throttle = click.option(
    "--throttle",
    type=BYTES_PER_S,
    metavar="BYTES/S",
    help="Copy at most this much to and from each broker, until the reassignment ends.",
)


def _brokers_option(name: str, text: str) -> Callable[[Command], Command]:
    return click.option(name, type=BrokerIds(), default=(), metavar="ID[,ID...]", help=text)


@click.command()
@topic_option()
@_brokers_option("--to", "Move all replicas to these brokers, evenly.")
@_brokers_option("--add-broker", "Move an even share of the replicas to these brokers.")
@_brokers_option("--remove-broker", "Move the replicas of these brokers, which may be down.")
@click.option("-r", "--replicas", type=REPLICA_COUNT, help="Change the replication factor.")
@click.option("--resume", is_flag=True, help="Wait for the ongoing reassignments.")
@click.option("--cancel", is_flag=True, help="Cancel the ongoing reassignments.")
@_throttle
@_yes
@json_option
@with_cluster
def reassign(
    scopes: tuple[TopicScope, ...],
    to: tuple[int, ...],
    add_broker: tuple[int, ...],
    remove_broker: tuple[int, ...],
    replicas: int | None,
    resume: bool,
    cancel: bool,
    throttle: int | None,
    yes: bool,
    as_json: bool,
    cluster: Cluster,
) -> None:
    """Move replicas to other brokers; default: those of all topics.

    Shows the plan and asks before it starts. Replicas move only if they must, and are spread over
    racks. The old replicas serve until the new ones are in sync. Ctrl-C ends the display, not the
    reassignment: --resume shows it again, also with another --throttle. --json prints the plan in
    the format of kafka-reassign-partitions, and does nothing else without --yes.
    """
    _check_options(to, add_broker, remove_broker, replicas, resume, cancel)
    if cancel and throttle:
        raise click.UsageError("--cancel copies nothing: it takes no --throttle")
    view = _ClusterView(cluster, scopes)
    if cancel:
        _cancel(view)
        return
    if resume:
        _resume(view, throttle)
        return
    view.refuse_ongoing()
    targets = _targets(view, to, add_broker, remove_broker)
    try:
        moves = plan_moves(
            view.chosen,
            targets,
            others=view.others,
            factor=replicas,
            is_balanced=bool(to or add_broker),
        )
    except TooFewBrokers as error:
        raise click.ClickException(f"{error}; nothing was changed") from None
    _carry_out(view, moves, throttle, yes=yes, as_json=as_json)


@click.command()
@click.argument("broker", type=BROKER_ID)
@click.option(
    "--leaders-only",
    is_flag=True,
    help="Move only leaders, by changing the order of replicas; no records are copied.",
)
@_throttle
@_yes
@json_option
@with_cluster
def drain(
    broker: int,
    leaders_only: bool,
    throttle: int | None,
    yes: bool,
    as_json: bool,
    cluster: Cluster,
) -> None:
    """Move all leaders and replicas from BROKER to the other brokers.

    Afterwards the broker can be stopped for good. A broker that comes back (an upgrade) needs no
    drain: it moves its leaders itself when it is stopped with SIGTERM.
    """
    if leaders_only and throttle:
        raise click.UsageError("--leaders-only copies nothing: it takes no --throttle")
    view = _ClusterView(cluster, ())
    if broker not in view.racks.keys() | view.used:
        raise click.ClickException(
            f"there is no broker {broker}; the brokers are {_listed(view.racks)}"
        )
    view.refuse_ongoing()
    if leaders_only:
        moves = plan_leader_moves(view.chosen, broker, others={})
    else:
        view.refuse_down(except_for=[broker])
        rest = {node: rack for node, rack in view.racks.items() if node != broker}
        try:
            moves = plan_moves(view.chosen, rest, others=view.others)
        except TooFewBrokers as error:
            raise click.ClickException(
                f"{error}; nothing was changed. Add a broker, or use fewer replicas (sawlog"
                " cluster reassign --replicas), or move only leaders (--leaders-only)"
            ) from None
    if _carry_out(view, moves, throttle, yes=yes, as_json=as_json) and not leaders_only:
        note(f"broker {broker} has no replicas; stop it before new topics are placed on it")


class _ClusterView:
    """Brokers and placements at the start of a command; `chosen` are the partitions to move."""

    def __init__(self, cluster: Cluster, scopes: tuple[TopicScope, ...]) -> None:
        cluster.prefer_controller()
        self.admin = Admin(cluster)
        self.racks: Racks = {
            int(node.id): node.rack for node in self.admin.describe_cluster().nodes
        }
        everything = _placement(self.admin)
        wanted = set(partitions_of(cluster, scopes) if scopes else everything)
        self.chosen: Placement = {
            each: nodes for each, nodes in everything.items() if each in wanted
        }
        self.others: Placement = {
            each: nodes for each, nodes in everything.items() if each not in wanted
        }

    @property
    def used(self) -> set[int]:
        """The brokers that have replicas of the chosen partitions."""
        return {node for nodes in self.chosen.values() for node in nodes}

    def refuse_down(self, *, except_for: Iterable[int]) -> None:
        """ClickException if the plan would replace replicas of a broker that was not named."""
        if down := self.used - self.racks.keys() - set(except_for):
            raise click.ClickException(
                f"broker {_listed(down)} has replicas and is down; nothing was changed. Start it,"
                " or replace its replicas with sawlog cluster reassign --remove-broker"
            )

    def refuse_ongoing(self) -> None:
        ongoing = self.admin.list_partition_reassignments(self.chosen)
        if ongoing:
            raise click.ClickException(
                f"{counted(len(ongoing), 'partition')} of these are being reassigned already;"
                f" nothing was changed. {_RESUME}"
            )


def _placement(admin: Admin) -> dict[TopicPartition, tuple[int, ...]]:
    return {
        TopicPartition(topic.name, index): partition.replicas
        for topic in admin.list_topics(include_internal=True)
        for index, partition in topic.partitions.items()
    }


def _check_options(
    to: tuple[int, ...],
    add_broker: tuple[int, ...],
    remove_broker: tuple[int, ...],
    replicas: int | None,
    resume: bool,
    cancel: bool,
) -> None:
    """Raise UsageError unless the options ask for one thing."""
    is_plan = bool(to or add_broker or remove_broker or replicas)
    if is_plan + resume + cancel != 1:
        raise click.UsageError(
            "give --to, --add-broker, --remove-broker or --replicas; or --resume; or --cancel"
        )
    if to and (add_broker or remove_broker):
        raise click.UsageError("give --to, or --add-broker and --remove-broker, not both")
    if both := sorted(set(add_broker) & set(remove_broker)):
        raise click.UsageError(f"broker {both[0]} cannot be added and removed")


def _targets(
    view: _ClusterView,
    to: tuple[int, ...],
    add_broker: tuple[int, ...],
    remove_broker: tuple[int, ...],
) -> Racks:
    """Return the brokers that may have replicas; ClickException if one of them is not live."""
    if unknown := [node for node in (*to, *add_broker) if node not in view.racks]:
        raise click.ClickException(
            f"there is no live broker {_listed(unknown)}; the live brokers are"
            f" {_listed(view.racks)}; nothing was changed"
        )
    used = view.used
    if unused := [node for node in remove_broker if node not in used | view.racks.keys()]:
        raise click.ClickException(
            f"there is no broker {_listed(unused)}, live or with replicas; nothing was changed"
        )
    if to:
        wanted = set(to)
        return {node: rack for node, rack in view.racks.items() if node in wanted}
    view.refuse_down(except_for=remove_broker)
    wanted = used | set(add_broker) if add_broker else set(view.racks)
    return {node: rack for node, rack in view.racks.items() if node in wanted - set(remove_broker)}


def _carry_out(
    view: _ClusterView, moves: list[Move], throttle: int | None, *, yes: bool, as_json: bool
) -> bool:
    """Show the plan, ask, and carry it out; return whether all of it was done."""
    if as_json:
        print_json(_plan_json(moves))
    elif moves:
        columns = ("topic", "partition", "replicas", "", "new replicas", "added", "removed")
        rows = [
            (*move.partition, move.old, "->", move.new, move.added or None, move.removed or None)
            for move in moves
        ]
        print_table(columns, rows)
    if not moves:
        note("nothing to move")
        return True
    copied = sum(len(move.added) for move in moves)
    text = f"{counted(len(moves), 'partition')} change, {counted(copied, 'replica')} to copy"
    if not yes:
        if as_json or not sys.stdin.isatty():
            note(f"{text}; nothing was changed. Use --yes to carry out the plan")
            return False
        click.confirm(f"{text}. Continue?", abort=True, err=True)
    _run(view, moves, throttle)
    note(f"{text.replace('change', 'changed').replace('to copy', 'copied')}")
    return True


def _plan_json(moves: list[Move]) -> dict[str, Any]:
    return {
        "version": 1,
        "partitions": [
            {
                "topic": move.partition.topic,
                "partition": move.partition.partition,
                "replicas": list(move.new),
            }
            for move in moves
        ],
    }


def _run(view: _ClusterView, moves: list[Move], throttle: int | None) -> None:
    """Reassign, wait, and let the preferred leaders lead; exit with FAILED if anything differs."""
    if throttle:
        set_throttle(view.admin, moves, view.racks, throttle)
    wanted = {move.partition: move.new for move in moves}
    errors = view.admin.alter_partition_reassignments(wanted)
    begun = {each: nodes for each, nodes in wanted.items() if each not in errors}
    _wait(view.admin, list(begun))
    if throttle:
        remove_throttle(view.admin, {each.topic for each in wanted}, view.racks)
    actual = _placement(view.admin)
    other = [each for each, nodes in begun.items() if actual.get(each, nodes) != nodes]
    elections = view.admin.elect_leaders(ElectionType.PREFERRED, begun) if begun else {}
    errors |= {each: error for each, error in elections.items() if error is not None}
    for each in other:
        note(f"{each}: has the replicas {_listed(actual[each])}: its reassignment was replaced")
    report_partitions(errors)
    if other:
        click.get_current_context().exit(FAILED)


def _wait(admin: Admin, partitions: list[TopicPartition]) -> None:
    """Wait until none of the partitions is being reassigned."""
    left = len(partitions)
    if not left:
        return
    try:
        with progress("moving", left, unit="partitions") as bar:
            while left:
                now = len(admin.list_partition_reassignments(partitions))
                bar.advance(left - now)
                left = now
                if left:
                    time.sleep(_POLL_S)
    except KeyboardInterrupt:
        note(f"the reassignment of {counted(left, 'partition')} goes on; {_RESUME}")
        raise


def _resume(view: _ClusterView, throttle: int | None) -> None:
    """Wait for the ongoing reassignments; also remove a throttle that an ended one has left."""
    ongoing = view.admin.list_partition_reassignments(view.chosen)
    if throttle:
        moves = [
            Move(
                each, tuple(node for node in move.replicas if node not in move.adding), move.target
            )
            for each, move in ongoing.items()
        ]
        set_throttle(view.admin, moves, view.racks, throttle)
    _wait(view.admin, list(ongoing))
    remove_throttle(view.admin, {each.topic for each in view.chosen}, view.racks)
    if not ongoing:
        note("no partition is being reassigned")
        return
    elections = view.admin.elect_leaders(ElectionType.PREFERRED, ongoing)
    note(f"{counted(len(ongoing), 'reassignment')} ended")
    report_partitions({each: error for each, error in elections.items() if error is not None})


def _cancel(view: _ClusterView) -> None:
    ongoing = view.admin.list_partition_reassignments(view.chosen)
    errors = {
        each: error
        for each, error in view.admin.alter_partition_reassignments(dict.fromkeys(ongoing)).items()
        if error.code is not ErrorCode.NO_REASSIGNMENT_IN_PROGRESS  # it has ended meanwhile
    }
    note(f"{counted(len(ongoing) - len(errors), 'reassignment')} cancelled")
    remove_throttle(view.admin, {each.topic for each in view.chosen}, view.racks)
    report_partitions(errors)


def _listed(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(nodes))) or "none"
