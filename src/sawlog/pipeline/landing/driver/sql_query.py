"""The streaming query of one SQL table: SQL over tables and topics, committed batch by batch.

Its checkpoint is kept, in a directory of the lake or of `checkpoints`, because a query has state
that its table does not have. If the checkpoint is lost, or a source table was rewritten, the query
starts again over all rows. If a source table gets new columns, the query restarts from its
checkpoint with them (`SqlQuery`).
"""

import json
import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sawlog.pipeline.delta.table import Table
from sawlog.pipeline.delta.table_path import table_path
from sawlog.pipeline.landing.configuration.pipeline_config import PipelineConfig, QueryTable
from sawlog.pipeline.landing.driver.events import Events, LandedBatch
from sawlog.pipeline.landing.driver.query_output import (
    WrittenBatch,
    append_batch,
    arrow_schema,
    is_new_query,
    open_query_table,
    replace_by_key,
    upsert_batch,
)
from sawlog.pipeline.landing.driver.query_run import BatchCommitter, LateBatch, QueryRun
from sawlog.pipeline.landing.driver.query_supervisor import SPARK_GONE_ERRORS
from sawlog.pipeline.landing.driver.spark_session import in_own_pool
from sawlog.pipeline.landing.driver.sql_parser import condense_spark_error, session_parser
from sawlog.pipeline.landing.failures import FailureKind, LandingFailure, classify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SqlCommitter(BatchCommitter):
    """Commits the batches of one run of the query."""

    def __init__(self, query: "SqlQuery", table: Table, query_id: str) -> None:
        super().__init__()
        self._query = query
        self._table = table
        self._query_id = query_id

    def commit_batch(self, frame: "DataFrame", batch_id: int) -> None:
        """Commit a batch. Raises LateBatch after the stop: if it returned, Spark would record the
        batch as done and not repeat it.
        """
        began_s = time.monotonic()
        with self.commit_lock:
            if not self.accepts_batches:
                raise LateBatch(f"batch {batch_id} of {self._query.name!r} is left to the next run")
            written = self._commit(frame, batch_id)
        if written is not None:
            self.rows += written.rows
            self._query.wrote(written, time.monotonic() - began_s)

    def _commit(self, frame: "DataFrame", batch_id: int) -> WrittenBatch | None:
        config = self._query.config
        self._table.refresh()
        is_new = is_new_query(self._table, self._query_id)
        if config.key:
            put = replace_by_key if is_new and not config.topics else upsert_batch
            return put(self._table, frame, config.key, self._query_id, batch_id)
        if is_new and config.topics:
            raise LandingFailure(
                FailureKind.INVALID,
                f"the checkpoint of {config.name!r} is gone, and its table has rows of the topics"
                " that it reads, which would be duplicated; delete the table too to start again",
            )
        return append_batch(self._table, frame, self._query_id, batch_id, replace=is_new)


class SqlQuery:
    """A query that reads its source tables with the columns they have at its start.

    If a source table gets new columns, its stream ends the query before the first row that has them
    (`delta/tail.py`), and `start` restarts it from its checkpoint with the new columns, which are
    added to its own table. The query id and batch numbers stay, so a batch planned before is
    committed once. State that Spark cannot use with the new columns, such as that of
    `max_by(struct(*), offset)`, is computed again over all rows.
    """

    def __init__(
        self, spark: "SparkSession", pipeline: PipelineConfig, config: QueryTable, events: Events
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self.config = config
        self._events = events

    @property
    def name(self) -> str:
        return self.config.name

    def start(self, *, once: bool) -> QueryRun:
        config = self.config
        frame = self._frame()
        schema = arrow_schema(frame)
        for key in config.key:
            if key not in schema.names:
                raise _refused(
                    f"the query of {config.name!r} has no column {key!r}, which 'key' names; it"
                    f" has {', '.join(schema.names)}"
                )
        table = open_query_table(config.path, schema, config.partition_by, config.name)
        committer = SqlCommitter(self, table, make_checkpoint(config.checkpoint))
        writer = (
            frame.writeStream.queryName(f"query {config.name}")
            .option("checkpointLocation", f"file://{config.checkpoint}")
            .outputMode("update" if config.key else "append")
            .foreachBatch(committer)
        )
        trigger = (
            {"availableNow": True} if once else {"processingTime": f"{config.every_s} seconds"}
        )
        in_own_pool(self._spark.sparkContext, config.name)
        with self._explained_failures():
            query = writer.trigger(**trigger).start()
        return QueryRun(query, committer)

    def wrote(self, written: WrittenBatch, seconds: float) -> None:
        landed = LandedBatch(
            written.version, written.rows, 0, 0, written.files, written.file_bytes, seconds, {}
        )
        self._events.batch_landed(self.name, landed, written.rows)

    def reset(self, why: FailureKind) -> None:
        """Delete the checkpoint, so that the first batch has all rows.

        State over topics is not dropped automatically: topics may have lost the records it came
        from.
        """
        if why is FailureKind.STATE_INCOMPATIBLE and self.config.topics:
            raise _refused(
                f"the columns of {self.name!r} changed, and Spark cannot use the state that it has"
                f" for them; topics that it reads ({', '.join(self.config.topics)}) may no longer"
                f" have all records it came from: to start again, delete {self.config.checkpoint}"
            )
        shutil.rmtree(self.config.checkpoint, ignore_errors=True)

    def _frame(self) -> "DataFrame":
        """The query over streams. The views exist only while the SQL is analysed."""
        views: list[str] = []
        columns: set[str] = set()
        try:
            with self._explained_failures():
                for name in (*self.config.tables, *self.config.topics):
                    is_table = name in self.config.tables
                    stream = self._table_stream(name) if is_table else self._topic_stream(name)
                    columns.update(stream.columns)
                    self._view(name, stream)
                    views.append(name)
                check_watermark(self.config, columns)
                # `spark.sql` would also run statements that are no query, such as INSERT.
                if (error := session_parser(self._spark).error(self.config.sql)) is not None:
                    raise _refused(f"the query of {self.name!r}: {error}")
                frame = self._spark.sql(self.config.sql)
        finally:
            for view in views:
                self._spark.catalog.dropTempView(view)
        if not frame.isStreaming:
            raise _refused(f"the query of {self.name!r} reads no table or topic of the file")
        return frame

    def _view(self, name: str, frame: "DataFrame") -> None:
        for column, delay_s in self.config.watermark.items():
            if column in frame.columns:
                frame = frame.withWatermark(column, f"{delay_s} seconds")
        frame.createOrReplaceTempView(f"`{name}`")

    def _table_stream(self, name: str) -> "DataFrame":
        source = self._pipeline.table(name)
        assert source is not None, name
        if not Table.exists(source.path):
            raise LandingFailure(FailureKind.NOT_FOUND, f"the table {name!r} does not exist yet")
        from sawlog.pipeline.delta.table_source import register

        format_name = register(self._spark, table_path(source.path).options)
        return self._spark.readStream.format(format_name).option("path", str(source.path)).load()

    def _topic_stream(self, topic: str) -> "DataFrame":
        return (
            self._spark.readStream.format("sawlog")
            .option("kafka.bootstrap.servers", self._pipeline.brokers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
        )

    @contextmanager
    def _explained_failures(self) -> Iterator[None]:
        """Convert exceptions to LandingFailure with a kind that says whether to retry."""
        try:
            yield
        except (LandingFailure, *SPARK_GONE_ERRORS):
            raise
        except Exception as error:
            has_run = os.path.exists(os.path.join(self.config.checkpoint, "commits"))
            failure = start_failure(error, has_run=has_run)
            text = f"the query of {self.name!r}: {failure.message}"
            raise LandingFailure(failure.kind, text) from error


_KEY_ADVICE = (
    "the rows of an aggregate change: name the columns that identify a row (key: [...]), so that"
    " they are upserted, or give a watermark, so that each is written once"
)


def start_failure(error: Exception, *, has_run: bool = False) -> LandingFailure:
    """Why a query did not start.

    Only invalid SQL is rejected. A missing column may appear later if columns are inferred. In a
    UNION one table may get its new column before the other: a query that has run before waits for
    that; a new one is retried for some minutes only, because its SQL may be wrong.
    """
    from pyspark.errors import AnalysisException

    message = condense_spark_error(str(error)) or type(error).__name__
    if "STREAMING_OUTPUT_MODE" in message:
        return LandingFailure(FailureKind.INVALID, f"{message}; {_KEY_ADVICE}")
    if "UNRESOLVED_COLUMN" in message:
        return LandingFailure(FailureKind.NOT_FOUND, message)
    if "NUM_COLUMNS_MISMATCH" in message:
        return LandingFailure(FailureKind.NOT_FOUND if has_run else FailureKind.OTHER, message)
    if isinstance(error, AnalysisException) and "PYTHON_DATA_SOURCE_ERROR" not in message:
        return LandingFailure(FailureKind.INVALID, message)
    return classify(error)


def check_watermark(config: QueryTable, columns: Collection[str]) -> None:
    """Raise LandingFailure if no source has a watermark column: the state would grow without bound.

    The column may appear later.
    """
    for column in config.watermark:
        if column not in columns:
            raise LandingFailure(
                FailureKind.NOT_FOUND,
                f"the query of {config.name!r} reads nothing with a column {column!r}, which"
                f" 'watermark' names; there are {', '.join(sorted(columns))}",
            )


def make_checkpoint(path: str) -> str:
    """Read the query id of a checkpoint, or create a checkpoint with a new id.

    The id is stored where Spark expects it, so that it is known before the first batch.
    """
    import uuid

    file = os.path.join(path, "metadata")
    try:
        with open(file, encoding="utf-8") as opened:
            return str(json.load(opened)["id"])
    except FileNotFoundError:
        pass
    except (ValueError, KeyError):
        shutil.rmtree(path, ignore_errors=True)  # torn; Spark could not use it either
    os.makedirs(path, exist_ok=True)
    query_id = str(uuid.uuid4())
    temporary = f"{file}.{query_id}"
    with open(temporary, "w", encoding="utf-8") as opened:
        json.dump({"id": query_id}, opened)
        opened.flush()
        os.fsync(opened.fileno())
    os.rename(temporary, file)
    return query_id


def _refused(text: str) -> LandingFailure:
    return LandingFailure(FailureKind.INVALID, text)
