"""Everything that must be so before the first batch: the topic, the table, where it begins.

Starting offsets are resolved once and are in the table's first version. From then on the table says
where to go on, whatever else is lost. A table that somebody else's landing fills, or that was made
for another topic of the same name, is refused.
"""

from typing import NamedTuple

from sawlog.client.admin.list_offsets import LATEST, list_offsets
from sawlog.client.consumer.consumer import AtOffset
from sawlog.client.net.cluster import Cluster, NoSuchTopic
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.metadata import Topic
from sawlog.core.ids import NO_TOPIC_ID, TopicPartition, format_topic_id, parse_topic_id
from sawlog.pipeline.delta.delta_types import stored_schema
from sawlog.pipeline.delta.errors import SchemaMismatch, TableExists
from sawlog.pipeline.delta.partitioning import parse
from sawlog.pipeline.delta.schema_evolution import evolved_schema
from sawlog.pipeline.delta.table import Table
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
    """Creates what is missing; LandingFailure, KafkaError or TableError where it cannot begin."""
    topic = find_topic(cluster, config)
    if not Table.exists(config.path):
        partitions = [partition_of(topic.name, index) for index in topic.partitions]
        create_table(config, topic, resolve_starts(cluster, config, partitions))
    table = Table.open(config.path)
    check_table(table, config, topic)
    check_dead_letters(config, table)
    table.evolve_schema(initial_schema(config))
    dead = open_dead_letters(config, DEAD)
    set_dead_letter_table(config, table, dead)
    replays = check_replays(config, table, dead)
    return PreparedTable(table, dead, next_offsets(table, config, topic), topic.id, replays)


def find_topic(cluster: Cluster, config: LandedTable) -> Topic:
    """The topic as the brokers have it now; LandingFailure where there is none: it was deleted if
    the table is there, and is waited for if not.
    """
    cluster.forget([config.topic])
    try:
        return cluster.topic(config.topic)
    except NoSuchTopic as error:
        if Table.exists(config.path):
            raise topic_deleted(config.topic) from error
        raise LandingFailure(FailureKind.NOT_FOUND, error.message) from error


def next_offsets(table: Table, config: LandedTable, topic: Topic) -> Offsets:
    """The next offset to land of each partition. One that the table does not know begins at 0."""
    stored = table.offsets(config.group)
    partitions = [partition_of(topic.name, index) for index in topic.partitions]
    return {partition: stored.get(partition, 0) for partition in partitions}


def check_replays(config: LandedTable, table: Table, dead: Table) -> int:
    """How many replays the table has seen; LandingFailure where its dead letters differ in that."""
    replays = replay_count(config.group, table.snapshot.transactions)
    if replay_count(config.group, dead.snapshot.transactions) != replays:
        raise LandingFailure(
            FailureKind.CONFLICT,
            f"a replay of {config.name!r} is under way, or died before its end; in that case run"
            " it again",
        )
    return replays


def create_table(config: LandedTable, topic: Topic, starts: Offsets) -> None:
    """An empty table that knows where it begins, and which table has its dead letters."""
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
        pass  # by another driver, at the same time, and with the same right


def resolve_starts(
    cluster: Cluster, config: LandedTable, partitions: list[TopicPartition]
) -> Offsets:
    """An offset for each partition. A time that no record has yet is the end."""
    start = config.start
    if isinstance(start, AtOffset):
        return dict.fromkeys(partitions, start.offset)
    ends, found = (
        list_offsets(cluster, dict.fromkeys(partitions, at), read_committed=config.read_committed)
        for at in (LATEST, start.timestamp_ms)
    )
    return {
        partition: ends[partition].offset if told.offset < 0 else told.offset
        for partition, told in sorted(found.items())
    }


def check_owner(table: Table, config: LandedTable) -> None:
    """A table that this landing did not make is none of its business."""
    group = _properties(table).get(GROUP)
    if group is None:
        raise _refused(f"the table in {config.path} was not made by a landing; use another name")
    if group != config.group:
        raise _refused(
            f"the table in {config.path} is filled by the group {group!r}, the file says"
            f" {config.group!r}: with another group all would land twice; say group: {group}"
        )


def landed_topics(table: Table, group: str) -> set[str]:
    """Whose records a landing has put there."""
    return {tp.topic for tp in table.offsets(group)}


def landed_topic_id(table: Table, topic: str) -> bytes:
    """Of the topic whose records the table has; NO_TOPIC_ID where no broker told it."""
    told = _properties(table).get(TOPIC_ID + topic)
    return parse_topic_id(told) if told else NO_TOPIC_ID


def check_table(table: Table, config: LandedTable, topic: Topic) -> None:
    """LandingFailure where the table and the file do not belong together. A schema that the file
    grew by columns is none.
    """
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
        evolved_schema(table.schema, stored_schema(initial_schema(config)))
    except SchemaMismatch as error:
        raise _refused(
            f"the schema of {config.name!r} is not that of its table: {error}; what a table has"
            " cannot be changed: land it in a table of another name"
        ) from None


def _properties(table: Table) -> dict[str, str]:
    return table.snapshot.metadata.get("configuration") or {}


def _refused(text: str) -> LandingFailure:
    return LandingFailure(FailureKind.INVALID, text)
