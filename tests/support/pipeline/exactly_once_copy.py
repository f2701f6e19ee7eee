"""A stream from one topic to another, exactly once, and what the other topic then has."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sawlog.client.admin.transactions import TransactionAdmin
from sawlog.client.consumer.consumer import AT_EARLIEST, Consumer
from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.sink.batch_markers import query_name
from support.client.transactional_topic import stable_end
from support.kafka.shared_brokers import Server, unique
from support.pipeline.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

WAIT_S = 300


class Copy:
    """The query; its source has `partitions` partitions, and as many tasks write a batch."""

    def __init__(
        self, spark: "SparkSession", topics: Topics, server: Server, out: Path, partitions: int = 2
    ) -> None:
        self._spark = spark
        self._connection = {"kafka.bootstrap.servers": server.bootstrap}
        self._checkpoint = out / "checkpoint"
        self.topics = topics
        self.source = topics.create(unique("source-"), partitions)
        self.target = topics.create(unique("target-"), 3)
        self.markers = topics.create(unique("markers-"))

    @property
    def query_id(self) -> str:
        return str(json.loads((self._checkpoint / "metadata").read_text())["id"])

    def rows(self, **options: Any) -> "DataFrame":
        reader = self._spark.readStream.format("sawlog").options(**self._connection)
        settings = {"subscribe": self.source, "startingOffsets": "earliest"}
        return reader.options(**settings | options).load()

    def start(self, rows: "DataFrame", **options: Any) -> "StreamingQuery":
        settings = {"topic": self.target, "exactlyOnce": "true", "markerTopic": self.markers}
        return (
            rows.select("key", "value")
            .writeStream.format("sawlog")
            .options(**self._connection, **settings | options)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
            .start()
        )

    def run(self, rows: "DataFrame", **options: Any) -> None:
        """Run until the source is copied. Raises StreamingQueryException."""
        query = self.start(rows, **options)
        try:
            assert query.awaitTermination(WAIT_S)
        finally:
            query.stop()

    def write_batch(self, rows: "DataFrame") -> None:
        writer = rows.write.format("sawlog").options(**self._connection)
        writer.options(topic=self.target, exactlyOnce="true", markerTopic=self.markers).mode(
            "append"
        ).save()

    def committed(self) -> list[int]:
        """The numbers that are visible after all, sorted, with duplicates.

        Transactions that are still open are aborted, as their timeout would.
        """
        admin = TransactionAdmin(self.topics.cluster)
        of_query = f"{query_name(self.query_id)}-.*"
        still_open = admin.list(states=["Ongoing"], pattern=of_query)
        assert admin.fence([each.transactional_id for each in still_open]) == {}
        return committed(self.topics, self.target)


def committed(topics: Topics, topic: str) -> list[int]:
    """The committed numbers of a topic, sorted, with duplicates."""
    partitions = [partition_of(topic, index) for index in topics.cluster.topic(topic).partitions]
    ends = {partition: stable_end(topics.cluster, partition) for partition in partitions}
    consumer = Consumer(topics.cluster, isolation="read_committed")
    consumer.assign(dict.fromkeys(partitions, AT_EARLIEST))
    found: list[int] = []
    while consumer.positions != ends:
        found += [int(record.value or b"") for record in consumer.poll(500)]
    return sorted(found)
