"""Prepares a landing: finds the topic, creates or checks the table, reads its offsets.

Start offsets are resolved once and stored in the first version of the table; from then on the table
has the offsets. A table of another group, or of another topic of the same name, is rejected.
"""

from typing import NamedTuple

from sawlog.client.admin.list_offsets import LATEST, list_offsets
from sawlog.client.consumer.consumer import AtOffset
from sawlog.client.net.cluster import Cluster, NoSuchTopic
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.metadata import Topic
from sawlog.core.ids import NO_TOPIC_ID, TopicPartition, format_topic_id, parse_topic_id
from sawlog.pipeline.delta.errors import SchemaMismatch, TableExists
from sawlog.pipeline.delta.partitioning import parse
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.widening import check_columns, evolve_columns
from sawlog.pipeline.formats.landed_rows import DEAD
from sawlog.pipeline.landing.configuration.declared_columns import initial_schema
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable
from sawlog.pipeline.landing.driver.dead_letter_counts import (
    DEAD_TABLE,
    check_dead_letters,
    set_dead_letter_table,
)
from sawlog.pipeline.landing.driver.dead_letters import open_dead_letters
from sawlog.pipeline.landing.driver.replay_counts import replay_count, same_replay_count
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.landing.topic_check import check_topic_id, topic_deleted
from sawlog.pipeline.source.offset_json import Offsets

GROUP = "sawlog.group"
TOPIC_ID = "sawlog.topicId."


class PreparedTable(NamedTuple):
    table: Table
    dead: Table
    starts: Offsets
    topic_id: bytes
    replays: int


def prepare(cluster: Cluster, config: LandedTable) -> PreparedTable:
    """Create what is missing. Raises LandingFailure, KafkaError or TableError."""
    topic = find_topic(cluster, config)
    if not Table.exists(config.path):
        partitions = [partition_of(topic.name, index) for index in topic.partitions]
        create_table(config, topic, resolve_starts(cluster, config, partitions))
    table = Table.open(config.path)
    check_table(table, config, topic)
    check_dead_letters(config, table)
    try:
        evolve_columns(table, initial_schema(config))
    except SchemaMismatch as error:
        raise _other_schema(config, error) from None
    dead = open_dead_letters(config, DEAD)
    set_dead_letter_table(config, table, dead)
    replays = check_replays(config, table, dead)
    return PreparedTable(table, dead, next_offsets(table, config, topic), topic.id, replays)


def find_topic(cluster: Cluster, config: LandedTable) -> Topic:
    """Look up the topic.

    Raises LandingFailure if it is missing: it was deleted if the table exists, else it is awaited.
    """
    cluster.forget([config.topic])
    try:
        return cluster.topic(config.topic)
    except NoSuchTopic as error:
        if Table.exists(config.path):
            raise topic_deleted(config.topic) from error
        raise LandingFailure(FailureKind.NOT_FOUND, error.message) from error


def next_offsets(table: Table, config: LandedTable, topic: Topic) -> Offsets:
    """The next offset to land of each partition; 0 for partitions new to the table."""
    stored = table.offsets(config.group)
    partitions = [partition_of(topic.name, index) for index in topic.partitions]
    return {partition: stored.get(partition, 0) for partition in partitions}


def check_replays(config: LandedTable, table: Table, dead: Table) -> int:
    """The replay count of the table. Raises LandingFailure if that of its dead letters differs."""
    replays = replay_count(config.group, table.snapshot.transactions)
    if replay_count(config.group, dead.snapshot.transactions) != replays:
        raise LandingFailure(
            FailureKind.CONFLICT,
            f"a replay of {config.name!r} is running, or died before its end; in that case run"
            " it again",
        )
    return replays


def create_table(config: LandedTable, topic: Topic, starts: Offsets) -> None:
    """Create an empty table with its start offsets and the id of its dead letter table."""
    properties = {GROUP: config.group, DEAD_TABLE: open_dead_letters(config, DEAD).id}
    if topic.has_id:
        properties[TOPIC_ID + topic.name] = format_topic_id(topic.id)
    try:
        Table.create(
            config.path,
            initial_schema(config),
            config.partition_by,
            {**starts, **same_replay_count(config.dead_path, config.group)},
            config.group,
            properties,
        )
    except TableExists:
        pass  # by another driver at the same time, which is fine


def resolve_starts(
    cluster: Cluster, config: LandedTable, partitions: list[TopicPartition]
) -> Offsets:
    """The start offset of each partition; its end for a time after the last record."""
    start = config.start
    if isinstance(start, AtOffset):
        return dict.fromkeys(partitions, start.offset)
    ends, found = (
        list_offsets(cluster, dict.fromkeys(partitions, at), read_committed=config.read_committed)
        for at in (LATEST, start.timestamp_ms)
    )
    return {
        partition: ends[partition].offset if found_offset.offset < 0 else found_offset.offset
        for partition, found_offset in sorted(found.items())
    }


def check_owner(table: Table, config: LandedTable) -> None:
    """Raise LandingFailure if the table belongs to something else than this landing."""
    group = _properties(table).get(GROUP)
    if group is None:
        raise _refused(f"the table in {config.path} was not created by a landing; use another name")
    if group != config.group:
        raise _refused(
            f"the table in {config.path} is filled by the group {group!r}, the file says"
            f" {config.group!r}: with another group every record would land again; set"
            f" `group: {group}` in the file"
        )


def landed_topics(table: Table, group: str) -> set[str]:
    """The topics whose records the landing has put into the table."""
    return {tp.topic for tp in table.offsets(group)}


def landed_topic_id(table: Table, topic: str) -> bytes:
    """The id of the topic whose records the table has; NO_TOPIC_ID if it is unknown."""
    topic_id = _properties(table).get(TOPIC_ID + topic)
    return parse_topic_id(topic_id) if topic_id else NO_TOPIC_ID


def check_table(table: Table, config: LandedTable, topic: Topic) -> None:
    """Raise LandingFailure if table and file contradict each other. New columns are allowed."""
    check_owner(table, config)
    topics = landed_topics(table, config.group)
    if topics and topic.name not in topics:
        raise _refused(
            f"the table in {config.path} has records of {', '.join(sorted(topics))}, the file says"
            f" {topic.name!r}: land it in a table of another name"
        )
    check_topic_id(topic.name, landed_topic_id(table, topic.name), topic.id)
    wanted = [parse(entry) for entry in config.partition_by]
    if wanted != table.partition_by:
        has = ", ".join(map(str, table.partition_by)) or "nothing"
        raise _refused(
            f"the table in {config.path} is partitioned by {has}, the file says otherwise; that"
            " cannot be changed: land it in a table of another name"
        )
    try:
        check_columns(table.schema, initial_schema(config))
    except SchemaMismatch as error:
        raise _other_schema(config, error) from None


def _other_schema(config: LandedTable, error: SchemaMismatch) -> LandingFailure:
    return _refused(
        f"the schema of {config.name!r} is not that of its table: {error}; what a table has"
        " cannot be changed: land it in a table of another name"
    )


def _properties(table: Table) -> dict[str, str]:
    return table.snapshot.metadata.get("configuration") or {}


def _refused(text: str) -> LandingFailure:
    return LandingFailure(FailureKind.INVALID, text)
