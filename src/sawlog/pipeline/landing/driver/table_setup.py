"""Prepares a landing: finds its topics, creates or checks the table, reads its offsets.

Start offsets are resolved once per topic and stored in the table, together with the id of the
topic; from then on the table has the offsets. A table of another group, or of another topic of the
same name, is rejected.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sawlog.client.admin.admin import Admin
from sawlog.client.admin.list_offsets import LATEST, list_offsets
from sawlog.client.consumer.consumer import AT_EARLIEST, AT_LATEST, AtOffset
from sawlog.client.net.cluster import Cluster, NoSuchTopic
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.net.metadata import Topic
from sawlog.core.errors import ErrorCode
from sawlog.core.ids import NO_TOPIC_ID, TopicPartition, format_topic_id, parse_topic_id
from sawlog.pipeline.delta.errors import SchemaMismatch, TableExists
from sawlog.pipeline.delta.landed_offsets import application_id
from sawlog.pipeline.delta.merge import KEY
from sawlog.pipeline.delta.partitioning import parse
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.vacuum import RETENTION
from sawlog.pipeline.formats.landed_rows import DEAD
from sawlog.pipeline.landing.configuration.declared_columns import initial_schema
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable
from sawlog.pipeline.landing.driver.dead_letter_counts import (
    DEAD_TABLE,
    check_dead_letters,
    set_dead_letter_table,
)
from sawlog.pipeline.landing.driver.dead_letter_retry import finish_retry
from sawlog.pipeline.landing.driver.dead_letters import open_dead_letters
from sawlog.pipeline.landing.driver.landed_tables import (
    LandingTable,
    add_columns,
    check_columns,
    check_other_format,
    create,
    open_table,
    table_exists,
)
from sawlog.pipeline.landing.driver.replay_counts import replay_count, same_replay_count
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure
from sawlog.pipeline.landing.topic_check import check_topic_id, topic_deleted
from sawlog.pipeline.source.offset_json import Offsets

GROUP = "sawlog.group"
TOPIC_ID = "sawlog.topicId."
KEYED_RETENTION = "interval 1 day"  # a table of which each batch may replace every file


class PreparedTable(NamedTuple):
    table: LandingTable
    dead: Table
    starts: Offsets
    topics: Mapping[str, bytes]  # with their ids
    replays: int


def prepare(cluster: Cluster, config: LandedTable) -> PreparedTable:
    """Create what is missing. Raises LandingFailure, KafkaError or TableError."""
    topics = find_topics(cluster, config)
    if not table_exists(config):
        check_other_format(config)
        create_table(config, topics, resolve_starts(cluster, config, partitions_of(topics)))
    table = open_table(config)
    check_table(table, config, topics)
    check_dead_letters(config, table)
    try:
        add_columns(table, initial_schema(config))
    except SchemaMismatch as error:
        raise _other_schema(config, error) from None
    dead = open_dead_letters(config, DEAD)
    set_dead_letter_table(config, table, dead)
    finish_retry(config, table, dead)
    replays = check_replays(config, table, dead)
    _add_topics(cluster, config, table, topics)
    ids = {str(topic.name): bytes(topic.id) for topic in topics}
    return PreparedTable(table, dead, next_offsets(table, config, topics), ids, replays)


def find_topics(cluster: Cluster, config: LandedTable) -> list[Topic]:
    """Look up the topics; those of a list or a pattern that do not exist yet are left out.

    Raises LandingFailure if a topic that the table has is missing, because it was deleted, or if
    there is none, which is awaited.
    """
    selection = config.selection
    landed: set[str] = set()
    if table_exists(config):
        landed = landed_topics(open_table(config), config.group)
    if selection.is_one:
        return [_find_topic(cluster, config)]
    if selection.pattern:
        found = selection.among(Admin(cluster).list_topics())
    else:
        found, errors = Admin(cluster).describe_topics(selection.names)
        for error in errors.values():
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise error
    deleted = {name for name in landed if selection.selects(name)} - {one.name for one in found}
    if deleted:
        raise topic_deleted(min(deleted), is_one=False)
    if not found:
        raise no_topics(config)
    return found


def no_topics(config: LandedTable) -> LandingFailure:
    """The failure for a table none of whose topics exists."""
    selection = config.selection
    text = (
        f"no topic matches {selection.pattern!r} yet"
        if selection.pattern
        else f"none of the topics {selection} exists"
    )
    return LandingFailure(FailureKind.NOT_FOUND, text)


def _find_topic(cluster: Cluster, config: LandedTable) -> Topic:
    (name,) = config.selection.names
    cluster.forget([name])
    try:
        return cluster.topic(name)
    except NoSuchTopic as error:
        if table_exists(config):
            raise topic_deleted(name) from error
        raise LandingFailure(FailureKind.NOT_FOUND, error.message) from error


def partitions_of(topics: Iterable[Topic]) -> list[TopicPartition]:
    return [partition_of(topic.name, index) for topic in topics for index in topic.partitions]


def next_offsets(table: LandingTable, config: LandedTable, topics: Iterable[Topic]) -> Offsets:
    """The next offset to land of each partition; 0 for partitions new to the table."""
    stored = table.offsets(config.group)
    return {partition: stored.get(partition, 0) for partition in partitions_of(topics)}


def _add_topics(
    cluster: Cluster, config: LandedTable, table: LandingTable, topics: Iterable[Topic]
) -> None:
    """Store ids and start offsets of topics that are new to the table.

    They start as the table did, but not at their end: their records came after the table.
    """
    new = [topic for topic in topics if topic.name not in landed_topics(table, config.group)]
    if not new:
        return
    later = replace(config, start=AT_EARLIEST) if config.start == AT_LATEST else config
    starts = resolve_starts(cluster, later, partitions_of(new))

    def plan() -> tuple[dict[str, str], dict[str, int]] | None:
        known = landed_topics(table, config.group)
        missing = {tp: start for tp, start in starts.items() if tp.topic not in known}
        if not missing:  # another driver was first
            return None
        ids = _topic_ids(topic for topic in new if topic.name not in known)
        return ids, {application_id(config.group, tp): at for tp, at in sorted(missing.items())}

    table.set_properties(plan)


def _topic_ids(topics: Iterable[Topic]) -> dict[str, str]:
    """The properties with the ids of topics."""
    return {TOPIC_ID + topic.name: format_topic_id(topic.id) for topic in topics if topic.has_id}


def check_replays(config: LandedTable, table: LandingTable, dead: Table) -> int:
    """The replay count of the table. Raises LandingFailure if that of its dead letters differs."""
    replays = replay_count(config.group, table.txn_versions)
    of_dead_letters = replay_count(config.group, dead.txn_versions)
    if of_dead_letters != replays:
        what = "replay" if of_dead_letters > replays else "resume"
        raise LandingFailure(
            FailureKind.CONFLICT,
            f"a {what} of {config.name!r} is running, or died before its end; in that case run"
            " it again",
        )
    return replays


def create_table(config: LandedTable, topics: Iterable[Topic], starts: Offsets) -> None:
    """Create an empty table with its start offsets and the id of its dead letter table."""
    dead = open_dead_letters(config, DEAD)
    properties = {GROUP: config.group, DEAD_TABLE: dead.id, **_topic_ids(topics)}
    if config.upsert is not None:
        properties[KEY] = json.dumps(config.upsert.key)
        properties[RETENTION] = KEYED_RETENTION
    try:
        create(
            config,
            initial_schema(config),
            {**starts, **same_replay_count(config.group, dead.txn_versions)},
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


def check_owner(table: LandingTable, config: LandedTable) -> None:
    """Raise LandingFailure if the table belongs to something else than this landing."""
    group = table.properties.get(GROUP)
    if group is None:
        raise _refused(f"the table in {config.path} was not created by a landing; use another name")
    if group != config.group:
        raise _refused(
            f"the table in {config.path} is filled by the group {group!r}, the file says"
            f" {config.group!r}: with another group every record would land again; set"
            f" `group: {group}` in the file"
        )


def landed_topics(table: LandingTable, group: str) -> set[str]:
    """The topics whose records the landing has put into the table."""
    return {tp.topic for tp in table.offsets(group)}


def landed_topic_id(table: LandingTable, topic: str) -> bytes:
    """The id of the topic whose records the table has; NO_TOPIC_ID if it is unknown."""
    topic_id = table.properties.get(TOPIC_ID + topic)
    return parse_topic_id(topic_id) if topic_id else NO_TOPIC_ID


def check_topics(table: LandingTable, config: LandedTable, topics: Sequence[Topic]) -> None:
    """Raise LandingFailure if the table has records of other topics only."""
    landed = landed_topics(table, config.group)
    if landed and not any(topic.name in landed for topic in topics):
        raise _refused(
            f"the table in {config.path} has records of {', '.join(sorted(landed))}, the file says"
            f" {str(config.selection)!r}: land it in a table of another name"
        )


def check_table(table: LandingTable, config: LandedTable, topics: Sequence[Topic]) -> None:
    """Raise LandingFailure if table and file contradict each other.

    New columns are allowed, and more or fewer topics if there are several.
    """
    check_owner(table, config)
    check_topics(table, config, topics)
    for topic in topics:
        check_topic_id(topic.name, landed_topic_id(table, topic.name), topic.id)
    wanted = [parse(entry) for entry in config.partition_by]
    if wanted != table.partition_by:
        has = ", ".join(map(str, table.partition_by)) or "nothing"
        raise _refused(
            f"the table in {config.path} is partitioned by {has}, the file says otherwise; that"
            " cannot be changed: land it in a table of another name"
        )
    _check_key(table, config)
    try:
        check_columns(table, initial_schema(config))
    except SchemaMismatch as error:
        raise _other_schema(config, error) from None


def _other_schema(config: LandedTable, error: SchemaMismatch) -> LandingFailure:
    return _refused(
        f"the schema of {config.name!r} is not that of its table: {error}; what a table has"
        " cannot be changed: land it in a table of another name"
    )


def _check_key(table: LandingTable, config: LandedTable) -> None:
    """A row for each key cannot become a row for each record, nor the other way round."""
    stored = tuple(json.loads(table.properties.get(KEY, "[]")))
    wanted = () if config.upsert is None else config.upsert.key
    if stored != wanted:
        has, says = (f"the key {', '.join(key)}" if key else "no key" for key in (stored, wanted))
        raise _refused(
            f"the table in {config.path} has {has}, the file says {says}; that cannot be changed:"
            " land it in a table of another name"
        )


def _refused(text: str) -> LandingFailure:
    return LandingFailure(FailureKind.INVALID, text)
