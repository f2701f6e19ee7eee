"""`sawlog topics`: create, list, describe, delete and alter topics; adds the group `records`."""

from typing import Any

import click

from sawlog.cli.cluster_options import with_cluster
from sawlog.cli.config_changes import requested_changes
from sawlog.cli.config_resources import check_known, find_resource
from sawlog.cli.config_resources import describe as describe_settings
from sawlog.cli.error_messages import report_each
from sawlog.cli.option_types import (
    PARTITION_COUNT,
    REPLICA_COUNT,
    TEXT,
    json_option,
    parse_settings,
)
from sawlog.cli.output import note, print_json, print_lines, print_table, table_lines
from sawlog.cli.topics_records import records
from sawlog.client.admin.admin import Admin, NewTopic
from sawlog.client.admin.configs import Change, ConfigEntry, Resource
from sawlog.client.admin.list_offsets import EARLIEST, LATEST, FoundOffset
from sawlog.client.errors import ErrorsByName
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.metadata import Topic
from sawlog.core.config_api import ConfigSource, Operation
from sawlog.core.config_api import ResourceType as Type
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicPartition, format_topic_id

_names = click.argument("names", metavar="NAME...", nargs=-1, required=True, type=TEXT)
_config = click.option(
    "--config", type=TEXT, multiple=True, metavar="KEY=VALUE", help="A setting. May be repeated."
)

_INTERNAL_CONTENTS = {
    "__consumer_offsets": "the members and the committed offsets of all groups",
    "__transaction_state": "the state of all transactions",
    "__share_group_state": "the state of all share groups",
}


@click.group()
def topics() -> None:
    """Create, list, describe, delete and alter topics; delete records."""


topics.add_command(records)


@topics.command()
@_names
@click.option(
    "-p",
    "--partitions",
    type=PARTITION_COUNT,
    help="Number of partitions. Default: the broker's num.partitions.",
)
@click.option(
    "-r",
    "--replicas",
    type=REPLICA_COUNT,
    help="Replication factor. Default: the broker's default.replication.factor.",
)
@_config
@click.option("--if-not-exists", is_flag=True, help="Ignore topics that exist already.")
@click.option("--validate-only", is_flag=True, help="Check the request without creating topics.")
@with_cluster
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    config: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
    cluster: Cluster,
) -> None:
    """Create topics and wait until they are usable."""
    configs = parse_settings("--config", config)
    new_topics = [
        NewTopic(name, partitions or -1, replicas or -1, configs=configs) for name in names
    ]
    refusals = Admin(cluster).create_topics(new_topics, validate_only=validate_only)
    done = "could be created" if validate_only else "created"
    ignored = ErrorCode.TOPIC_ALREADY_EXISTS if if_not_exists else None
    report_each(names, refusals, done, ignored=ignored)


@topics.command("list")
@click.option("--internal", is_flag=True, help="Include internal topics.")
@json_option
@with_cluster
def list_topics(internal: bool, as_json: bool, cluster: Cluster) -> None:
    """List the topics of the cluster."""
    found = Admin(cluster).list_topics(include_internal=internal)
    if as_json:
        print_json(
            [
                {"name": topic.name, **_counts(topic), "internal": topic.is_internal}
                for topic in found
            ]
        )
        return
    rows = [(topic.name, *_counts(topic).values()) for topic in found]
    print_table(("topic", "partitions", "replicas"), rows)


@topics.command("describe")
@click.argument("names", metavar="[NAME]...", nargs=-1, type=TEXT)
@click.option("--configs", "with_configs", is_flag=True, help="Include default settings.")
@json_option
@with_cluster
def describe_topics(
    names: tuple[str, ...], with_configs: bool, as_json: bool, cluster: Cluster
) -> None:
    """Describe topics (default: all): partitions, replicas, offsets, settings."""
    admin = Admin(cluster)
    refusals: ErrorsByName = {}
    if names:
        found, refusals = admin.describe_topics(names)
    else:
        found = admin.list_topics()
    described = [_description(admin, topic, with_configs) for topic in found]
    if as_json:
        print_json(described)
    else:
        print_lines(line for entry in described for line in _description_lines(entry))
    report_each((), refusals, "")


@topics.command()
@_names
@click.option("--if-exists", is_flag=True, help="Ignore topics that do not exist.")
@click.option("--force", is_flag=True, help="Delete internal topics too.")
@with_cluster
def delete(names: tuple[str, ...], if_exists: bool, force: bool, cluster: Cluster) -> None:
    """Delete topics and all their records, permanently.

    Internal topics, such as __consumer_offsets, are deleted only with --force.
    """
    admin = Admin(cluster)
    if not force:
        _refuse_internal(admin, names)
    refusals = admin.delete_topics(names)
    ignored = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if if_exists else None
    report_each(names, refusals, "deleted", ignored=ignored)


def _refuse_internal(admin: Admin, names: tuple[str, ...]) -> None:
    """Raise UsageError if a topic is internal, before any topic is deleted."""
    found, _ = admin.describe_topics(names)
    for topic in found:
        if topic.is_internal:
            lost = _INTERNAL_CONTENTS.get(topic.name, "its contents")
            raise click.UsageError(
                f"{topic.name!r} is an internal topic: deleting it loses {lost};"
                " nothing was deleted. Use --force to delete it"
            )


@topics.command()
@click.argument("name", type=TEXT)
@click.option("-p", "--partitions", type=PARTITION_COUNT, help="New number of partitions.")
@_config
@click.option("--reset", type=TEXT, multiple=True, metavar="KEY", help="Reset to the default.")
@click.option("--append", type=TEXT, multiple=True, metavar="KEY=VALUE", help="Add to a list.")
@click.option(
    "--subtract", type=TEXT, multiple=True, metavar="KEY=VALUE", help="Remove from a list."
)
@click.option("--validate-only", is_flag=True, help="Check the request without changing anything.")
@with_cluster
def alter(
    name: str,
    partitions: int | None,
    config: tuple[str, ...],
    reset: tuple[str, ...],
    append: tuple[str, ...],
    subtract: tuple[str, ...],
    validate_only: bool,
    cluster: Cluster,
) -> None:
    """Add partitions to a topic or change its settings.

    All changes are validated first; if one would be refused, none is made.
    """
    changes = [Change(key, Operation.DELETE) for key in reset]
    changes += requested_changes(
        ("--config", Operation.SET, config),
        ("--append", Operation.APPEND, append),
        ("--subtract", Operation.SUBTRACT, subtract),
    )
    if not changes and partitions is None:
        raise click.UsageError(
            "nothing to alter: give --partitions, --config, --reset, --append or --subtract"
        )
    admin = Admin(cluster)
    if reset:  # brokers accept resets of unknown settings
        where = find_resource(admin, "topic", name)
        check_known(where, list(reset), describe_settings(admin, where), to_change=True)
    refusals = _alter(admin, name, changes, partitions, validate_only=True)
    if not refusals and not validate_only:
        refusals = _alter(admin, name, changes, partitions, validate_only=False)
    report_each((name,), refusals, "could be altered" if validate_only else "altered")


def _alter(
    admin: Admin,
    name: str,
    changes: list[Change],
    partitions: int | None,
    *,
    validate_only: bool,
) -> ErrorsByName:
    """Add partitions first: if that is refused, the settings have not been changed yet."""
    if partitions is not None:
        refused = admin.create_partitions({name: partitions}, validate_only=validate_only)
        if refused:
            return refused
    if not changes:
        return {}
    by_resource = admin.alter_configs(
        {Resource(Type.TOPIC, name): changes}, validate_only=validate_only
    )
    if by_resource and partitions is not None and not validate_only:
        note(f"{name}: has {partitions} partitions now; its settings were not changed")
    return {resource.name: error for resource, error in by_resource.items()}


def _counts(topic: Topic) -> dict[str, int]:
    replicas = [len(partition.replicas) for partition in topic.partitions.values()]
    return {"partitions": len(topic.partitions), "replicas": max(replicas, default=0)}


def _description(admin: Admin, topic: Topic, with_configs: bool) -> dict[str, Any]:
    partitions = [TopicPartition(topic.name, index) for index in topic.partitions]
    earliest = _offsets(admin, partitions, EARLIEST)
    latest = _offsets(admin, partitions, LATEST)
    resource = Resource(Type.TOPIC, topic.name)
    entries = admin.describe_configs([resource])[resource]
    return {
        "name": topic.name,
        "id": format_topic_id(topic.id),
        **_counts(topic),
        "internal": topic.is_internal,
        "configs": {entry.name: entry.value for entry in entries if _is_shown(entry, with_configs)},
        "partition_list": [
            {
                "partition": partition.index,
                "leader": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "isr": list(partition.in_sync),
                "start_offset": _offset(earliest, topic, partition.index),
                "end_offset": _offset(latest, topic, partition.index),
            }
            for partition in topic.partitions.values()
        ],
    }


def _is_shown(entry: ConfigEntry, with_configs: bool) -> bool:
    return with_configs or entry.source is ConfigSource.TOPIC


def _offsets(
    admin: Admin, partitions: list[TopicPartition], timestamp: int
) -> dict[TopicPartition, FoundOffset]:
    """Return the offsets, or none if a leader is missing: the rest is still worth showing."""
    try:
        return admin.list_offsets(dict.fromkeys(partitions, timestamp))
    except KafkaError:
        return {}


def _offset(offsets: dict[TopicPartition, FoundOffset], topic: Topic, index: Any) -> int | None:
    found = offsets.get(TopicPartition(topic.name, index))
    return None if found is None else found.offset


def _description_lines(entry: dict[str, Any]) -> list[str]:
    settings = [f"  {key}={value}" for key, value in entry["configs"].items()]
    columns = ("partition", "leader", "epoch", "replicas", "isr", "start offset", "end offset")
    rows = [tuple(partition.values()) for partition in entry["partition_list"]]
    return [f"{entry['name']}  id {entry['id']}", *settings, *table_lines(columns, rows)]
