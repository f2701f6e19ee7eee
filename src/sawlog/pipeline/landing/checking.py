"""A look at what a run of the file would meet, without changing anything."""

from typing import NamedTuple

from sawlog.client.cluster import Cluster
from sawlog.client.errors import ClientError
from sawlog.core.errors import KafkaError
from sawlog.pipeline.formats import parser
from sawlog.pipeline.formats.outcome import FormatError
from sawlog.pipeline.formats.rows import value_schema
from sawlog.pipeline.landing.columns import declared, first_columns, format_of
from sawlog.pipeline.landing.config import LandedTable, QueryTable
from sawlog.pipeline.landing.failures import Kind, LandingFailure, classify
from sawlog.pipeline.landing.preparing import check_table as check_existing
from sawlog.pipeline.tables.errors import TableError
from sawlog.pipeline.tables.table import Table


class Found(NamedTuple):
    text: str
    problem: Kind | None = None


def check_table(cluster: Cluster, config: LandedTable | QueryTable) -> Found:
    """What can be known now, in a line."""
    if isinstance(config, QueryTable):
        reads = ", ".join([*config.tables, *config.topics])
        return Found(f"a query over {reads}; Spark checks its SQL when it runs")
    try:
        columns = value_schema(first_columns(config))
        parser(format_of(config), columns, widen=declared(config) is None)
        topic = cluster.topic(config.topic)
        if Table.exists(config.path):
            table = Table.open(config.path)
            check_existing(table, config, topic)
            offsets = table.offsets(config.group).items()
            at = sum(offset for partition, offset in offsets if partition.topic == topic.name)
            return Found(f"goes on at offset {at} of {config.topic!r}")
    except (LandingFailure, FormatError, TableError, KafkaError, ClientError) as error:
        failure = classify(error)
        return Found(failure.message, failure.kind)
    return Found(f"will be made from {len(topic.partitions)} partitions of {config.topic!r}")
