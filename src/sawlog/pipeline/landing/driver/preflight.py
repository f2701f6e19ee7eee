"""A look at what a run of the file would meet, without changing anything."""

from collections.abc import Iterable
from typing import NamedTuple

from sawlog.client.errors import ClientError
from sawlog.client.net.cluster import Cluster
from sawlog.core.errors import KafkaError
from sawlog.pipeline.delta.errors import TableError
from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.formats import parser
from sawlog.pipeline.formats.landed_rows import value_schema
from sawlog.pipeline.formats.parsed import FormatError
from sawlog.pipeline.landing.configuration.declared_columns import (
    declared,
    first_columns,
    format_of,
)
from sawlog.pipeline.landing.configuration.pipeline_config import LandedTable, QueryTable
from sawlog.pipeline.landing.driver.dead_letter_counts import check_letters
from sawlog.pipeline.landing.driver.table_setup import (
    check_replays,
    find_topic,
    starts_of,
    topic_id_of,
)
from sawlog.pipeline.landing.driver.table_setup import check_table as check_existing
from sawlog.pipeline.landing.failures import FATAL, Kind, LandingFailure, classify
from sawlog.pipeline.landing.planning.topic_check import TopicLog
from sawlog.pipeline.source.offset_json import Offsets

_FAILURES = (LandingFailure, FormatError, TableError, KafkaError, ClientError, OSError)


class Found(NamedTuple):
    text: str
    problem: Kind | None = None


class Prospect(NamedTuple):
    """What a run that begins now would meet at a landed table."""

    partitions: int  # of the topic; 0 where it is not known
    starts: Offsets | None = None  # None: there is no table yet
    ends: Offsets | None = None  # None: not known, or those of a log that did not land here
    failure: LandingFailure | None = None


def prospect(cluster: Cluster, config: LandedTable) -> Prospect:
    """Goes through the checks of a run in its order: the file, the topic, the table, the log."""
    found = Prospect(0)
    try:
        columns = value_schema(first_columns(config))
        parser(format_of(config), columns, widen=declared(config) is None)
        topic = find_topic(cluster, config)
        found = Prospect(len(topic.partitions))
        if not Table.exists(config.path):
            return found
        table = Table.open(config.path)
        check_existing(table, config, topic)
        check_letters(config, table)
        if Table.exists(config.dead_path):
            check_replays(config, table, Table.open(config.dead_path))
        starts = starts_of(table, config, topic)
        found = found._replace(starts=starts)
        log = TopicLog(
            cluster, config.topic, topic_id_of(table, config.topic),
            read_committed=config.read_committed,
        )  # fmt: skip
        ends = log.check_ends(starts, log.ends())
        found = found._replace(ends=ends)
        log.check_begins(starts, ends)
    except _FAILURES as error:
        return found._replace(failure=classify(error))
    return found


def check_tables(cluster: Cluster, tables: Iterable[LandedTable | QueryTable]) -> dict[str, Found]:
    """What is found out about each, by name. A query is told of tables that it reads and that
    stopped, because no new rows will come from them.
    """
    configs = list(tables)
    found = {config.name: check_table(cluster, config) for config in configs}
    for config in configs:
        if isinstance(config, QueryTable):
            stopped = [name for name in config.tables if found[name].problem in FATAL]
            if stopped:
                text = f"{found[config.name].text}; it gets no more rows of {', '.join(stopped)}"
                found[config.name] = found[config.name]._replace(text=text)
    return found


def check_table(cluster: Cluster, config: LandedTable | QueryTable) -> Found:
    """What can be known now, in a line."""
    if isinstance(config, QueryTable):
        reads = ", ".join([*config.tables, *config.topics])
        return Found(f"a query over {reads}; Spark checks its SQL when it runs")
    partitions, starts, _, failure = prospect(cluster, config)
    if failure is not None:
        is_stopped = failure.kind in FATAL and Table.exists(config.path)
        text = f"stopped: {failure.message}" if is_stopped else failure.message
        return Found(text, failure.kind)
    if starts is not None:
        return Found(f"goes on at offset {sum(starts.values())} of {config.topic!r}")
    return Found(f"will be made from {partitions} partitions of {config.topic!r}")
