"""The throttle of a reassignment (KIP-73), as kafka-reassign-partitions sets and clears it.

A throttle is in four settings: the topics name the replicas that move, and each broker has a rate
for what it sends and one for what it receives. They outlive the command that set them; the end of
the reassignment, `--resume` and `--cancel` remove them.
"""

from collections.abc import Iterable, Mapping, Sequence

import click

from sawlog.cli.error_messages import describe
from sawlog.cli.output import note
from sawlog.cli.reassignment_plan import Move
from sawlog.cli.units import show_size
from sawlog.client.admin.admin import Admin
from sawlog.client.admin.configs import Change, Resource
from sawlog.client.errors import UNANSWERED
from sawlog.core.config_api import ConfigSource, Operation, ResourceType
from sawlog.core.config_throttle import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    THROTTLED_RATES,
    THROTTLED_REPLICAS,
)
from sawlog.core.errors import ErrorCode, KafkaError

Changes = dict[Resource, Sequence[Change]]


def set_throttle(
    admin: Admin, moves: Iterable[Move], live: Iterable[int], bytes_per_s: int
) -> None:
    """Throttle the replicas that are copied; ClickException if a broker refuses it."""
    copied = [move for move in moves if move.added]
    if not copied:
        return
    nodes = {node for move in copied for node in (*move.old, *move.new)}
    rates = [Change(name, Operation.SET, str(bytes_per_s)) for name in THROTTLED_RATES]
    changes: Changes = dict(_replicas(copied))
    changes |= {_broker(node): rates for node in sorted(nodes & set(live))}
    if errors := admin.alter_configs(changes):
        raise click.ClickException(
            f"the throttle was not set, and no replica was moved: {_reasons(errors)}"
        )
    rate = f"{show_size(bytes_per_s)}/s"
    note(f"throttled: each broker sends and receives at most {rate} for this move")


def remove_throttle(admin: Admin, topics: Iterable[str], live: Iterable[int]) -> None:
    """Remove the throttle of these topics, if they have one; with the last reassignment also the
    rates of the brokers, before the topics: after an interruption it is found again."""
    resources = [Resource(ResourceType.TOPIC, topic) for topic in sorted(set(topics))]
    throttled = {
        resource: names for resource in resources if (names := _set_names(admin, resource))
    }
    if not throttled:
        return
    if not admin.list_partition_reassignments():
        for node in sorted(live):
            _remove_rates(admin, node)
    changes: Changes = {
        resource: [Change(name, Operation.DELETE) for name in names]
        for resource, names in throttled.items()
    }
    if errors := admin.alter_configs(changes):
        raise click.ClickException(
            f"the throttle was not removed: {_reasons(errors)}; sawlog cluster reassign --resume"
            " tries again"
        )
    note("the throttle was removed")


def _remove_rates(admin: Admin, node: int) -> None:
    """Remove the rates of one broker; one that does not answer keeps them, and they have no effect
    without throttled replicas."""
    broker = _broker(node)
    try:
        names = _set_names(admin, broker)
        deletions = [Change(name, Operation.DELETE) for name in names]
        errors = admin.alter_configs({broker: deletions}) if names else {}
    except (KafkaError, *UNANSWERED) as error:
        note(f"broker {node} keeps the rates of its throttle, without effect: {error}")
        return
    if errors:
        note(f"broker {node} keeps the rates of its throttle: {_reasons(errors)}")


def _replicas(moves: Iterable[Move]) -> dict[Resource, Sequence[Change]]:
    """The leaders may be any of the old replicas, so all of them are throttled."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for move in moves:
        topic, index = move.partition
        leaders.setdefault(topic, []).extend(f"{index}:{node}" for node in move.old)
        followers.setdefault(topic, []).extend(f"{index}:{node}" for node in move.added)
    return {
        Resource(ResourceType.TOPIC, topic): [
            Change(LEADER_REPLICAS, Operation.SET, ",".join(leaders[topic])),
            Change(FOLLOWER_REPLICAS, Operation.SET, ",".join(followers[topic])),
        ]
        for topic in leaders
    }


def _set_names(admin: Admin, resource: Resource) -> list[str]:
    """The settings of a throttle that this topic or broker has; none if it does not exist."""
    is_topic = resource.type is ResourceType.TOPIC
    source = ConfigSource.TOPIC if is_topic else ConfigSource.BROKER
    names = THROTTLED_REPLICAS if is_topic else THROTTLED_RATES
    try:
        entries = admin.describe_configs([resource], names=names)[resource]
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return []  # the topic was deleted meanwhile
    return [entry.name for entry in entries if entry.source is source]


def _broker(node: int) -> Resource:
    return Resource(ResourceType.BROKER, str(node))


def _reasons(errors: Mapping[Resource, KafkaError]) -> str:
    return "; ".join(f"{resource}: {describe(error)}" for resource, error in errors.items())
