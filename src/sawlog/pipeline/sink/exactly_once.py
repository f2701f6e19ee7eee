"""The exactly-once sink: tasks prepare transactions, the driver commits them.

Python tasks finish before Spark decides to commit, so a task leaves its transaction open and
returns what the driver needs to end it. Whatever dies, a rerun of the batch finds by the markers
which tasks are committed (`batch_markers`).
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from sawlog.client.admin.group_offsets import GroupMetadata
from sawlog.client.admin.transactions import TransactionAdmin
from sawlog.client.errors import UNANSWERED
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.connection import Connection
from sawlog.client.net.coordinator_requests import (
    Coordinators,
    CoordinatorType,
    GroupResults,
    transaction_id_error,
)
from sawlog.client.net.metadata import Node
from sawlog.client.net.retries import is_retriable
from sawlog.client.producer.transaction_errors import TransactionError
from sawlog.client.producer.transaction_manager import TransactionManager
from sawlog.client.producer.transaction_requests import OpenTransaction, end_transaction
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.pipeline.sink.batch_markers import (
    BatchMarkers,
    Decision,
    check_digest,
    check_other_attempts,
    decide,
    task_name,
)
from sawlog.pipeline.sink.sink_errors import Refused
from sawlog.pipeline.sink.sink_options import ExactlyOnce, SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

_logger = logging.getLogger(__name__)
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
_OPEN = "Ongoing"
_ENDED_BY_OTHERS = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
_WHY_ENDED = (
    "Another attempt of the task has begun, or the batch took longer than"
    " 'kafka.transaction.timeout.ms'"
)
_RESTART = "restart the query to rerun the batch"  # Spark stops a query whose batch has failed


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """The task of a batch of a query; an attempt that Spark repeats has the same."""

    query: str
    batch: int
    task: int


@dataclass
class PreparedTransaction(WriterCommitMessage):
    """What a task returns; `transaction` is None if its rows were committed before."""

    identity: TaskIdentity
    transaction: OpenTransaction | None
    digest: str


def this_task() -> TaskIdentity:
    """Return the identity of the Spark task that runs here."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(_QUERY_ID)
    batch = None if context is None else context.getLocalProperty(_BATCH_ID)
    if context is None or not query or not batch:
        raise Refused(
            "Spark did not tell the task its query and batch; exactlyOnce is for streaming queries"
        )
    return TaskIdentity(query, int(batch), context.partitionId())


def prepare(
    cluster: Cluster,
    options: SinkOptions,
    identity: TaskIdentity,
    batches: Iterator["pa.RecordBatch"],
) -> PreparedTransaction:
    """Write the rows and the marker of a task in a transaction that stays open.

    The transactional id is initialized before the marker is read: from then on no earlier attempt
    can be committed.
    """
    try:
        return _prepare(cluster, options, identity, batches)
    except TransactionError as error:
        raise type(error)(_task_failed(identity, options, error), error.code) from error
    except KafkaError as error:
        if error.code not in _ENDED_BY_OTHERS:
            raise
        raise KafkaError(error.code, _task_failed(identity, options, error)) from error


def _prepare(
    cluster: Cluster,
    options: SinkOptions,
    identity: TaskIdentity,
    batches: Iterator["pa.RecordBatch"],
) -> PreparedTransaction:
    from sawlog.pipeline.sink.row_digest import RowDigest  # needs pyarrow and numba
    from sawlog.pipeline.sink.topic_writer import TopicWriter

    exactly_once = _required(options)
    name = task_name(identity.query, identity.task)
    markers = BatchMarkers(cluster, exactly_once.marker_topic, identity.query)
    transactions = TransactionManager(cluster, name, exactly_once.transaction_timeout_ms)
    transactions.init()
    marker, record = markers.read(identity.task)
    decision = decide(identity.batch, identity.task, marker, record)
    digest = RowDigest(options.topic)
    if decision is Decision.VERIFY:
        assert marker is not None
        for batch in batches:
            digest.add(batch)
        check_digest(identity.batch, identity.task, marker, digest.text)
        return PreparedTransaction(identity, None, digest.text)
    transactions.begin()
    writer = TopicWriter(cluster, options, transactions)
    for batch in batches:
        digest.add(batch)
        writer.write(batch)
    writer.finish()
    transactions.send_offsets(
        {markers.partition: markers.new_marker(identity.batch, digest.text)}, GroupMetadata(name)
    )
    return PreparedTransaction(identity, transactions.open_transaction, digest.text)


def _task_failed(
    identity: TaskIdentity, options: SinkOptions, error: KafkaError | TransactionError
) -> str:
    """Say why a task has failed, in the words of a Spark user instead of a producer's."""
    timeout_ms = _required(options).transaction_timeout_ms
    what = f"task {identity.task} of batch {identity.batch} was not written"
    if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        return (
            f"{what}: 'kafka.transaction.timeout.ms' is {timeout_ms}, more than the brokers allow"
            f" ({error.code.name}); lower it, or raise 'transaction.max.timeout.ms' of the brokers"
        )
    if error.code in _ENDED_BY_OTHERS:
        reason = f"{error.code.name}. {_WHY_ENDED} ({timeout_ms})"
    else:
        is_wrapped = isinstance(error, TransactionError) and error.__cause__ is not None
        reason = str(error.__cause__ if is_wrapped else error)
    return f"{what}: {reason}. If the query stops, {_RESTART}"


def commit_batch(
    cluster: Cluster,
    options: SinkOptions,
    messages: Sequence[WriterCommitMessage | None],
    batch: int,
) -> None:
    """Commit the transactions of all tasks, then record the batch.

    They are committed in the order of the task numbers, up to the first failure. So the tasks that
    have a batch's marker are always the first ones, and the first task number that a rerun does not
    have shows whether an earlier attempt with more tasks has committed one of those.

    Refused, with all transactions aborted, if another attempt has committed more tasks than this
    one has. If a transaction cannot be committed, the batch fails; its rerun is exact.
    """
    prepared = _prepared(messages, batch)
    query, tasks = prepared[0].identity.query, len(prepared)
    markers = BatchMarkers(cluster, _required(options).marker_topic, query)
    try:
        _fence_from(cluster, query, tasks)
        check_other_attempts(batch, tasks, *markers.read(tasks))
    except Refused:
        abort_batch(cluster, messages)
        raise
    ends = _TransactionEnds(cluster)
    for each in prepared:
        if each.transaction is None:
            continue
        try:
            ends.end(each.transaction, each.identity, commits=True)
        except UNANSWERED as error:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"it is not known whether the transaction of task {each.identity.task} of batch"
                f" {batch} was committed: {error}; {_RESTART}, which finds out",
            ) from error
    markers.record(batch, tasks)


def abort_batch(cluster: Cluster, messages: Iterable[WriterCommitMessage | None]) -> None:
    """Abort the transactions that are known; the coordinator aborts the others in time.

    Never fails: the reason why the batch is aborted must reach the user.
    """
    ends = _TransactionEnds(cluster)
    for each in messages:
        if isinstance(each, PreparedTransaction) and each.transaction is not None:
            try:
                ends.end(each.transaction, each.identity, commits=False)
            except (KafkaError, *UNANSWERED) as error:
                if is_retriable(error):
                    _logger.warning("transactions stay open until they time out: %s", error)
                    return  # each of the others would wait as long
                continue  # it has ended already


def _fence_from(cluster: Cluster, query: str, first: int) -> None:
    """Fence the task `first`, if it was ever used, and those after it with open transactions."""
    admin = TransactionAdmin(cluster)
    number = first
    while True:
        name = task_name(query, number)
        described, refused = admin.describe([name])
        for error in refused.values():
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise error  # the transaction may be open: it must not be committed any more
        found = described.get(name)
        if found is None or (number > first and found.state != _OPEN):
            return
        for error in admin.fence([name]).values():
            raise error
        number += 1


class _TransactionEnds:
    """Ends transactions of other processes."""

    def __init__(self, cluster: Cluster) -> None:
        self._coordinators = Coordinators(cluster, CoordinatorType.TRANSACTION)

    def end(self, transaction: OpenTransaction, identity: TaskIdentity, *, commits: bool) -> None:
        """KafkaError if the transaction cannot be ended; retried until the cluster's timeout."""
        name = transaction.transactional_id

        def send(connection: Connection, _: Node, __: list[str]) -> GroupResults[None]:
            try:
                end_transaction(connection, transaction, commits=commits)
            except KafkaError as error:
                yield name, transaction_id_error(name, error.code, error.message)
            else:
                yield name, None

        _, refused = self._coordinators.send([name], send)
        for error in refused.values():
            done = "committed" if commits else "aborted"
            is_ended = error.code in _ENDED_BY_OTHERS
            raise KafkaError(
                error.code,
                f"the transaction of task {identity.task} of batch {identity.batch} was not {done}:"
                f" {f'{error.code.name}. {_WHY_ENDED}' if is_ended else error}; {_RESTART}",
            ) from error


def _prepared(
    messages: Sequence[WriterCommitMessage | None], batch: int
) -> list[PreparedTransaction]:
    """Return the messages by task number; Refused unless they are all tasks of this batch."""
    found = [each for each in messages if isinstance(each, PreparedTransaction)]
    found.sort(key=lambda each: each.identity.task)
    queries = {each.identity.query for each in found}
    numbers = [each.identity.task for each in found]
    if not found or len(found) != len(messages) or numbers != [*range(len(found))]:
        raise Refused(
            f"batch {batch} is refused: {len(messages)} tasks ran, and those that reported are"
            f" {numbers}; expected every task from 0 on"
        )
    if len(queries) != 1 or any(each.identity.batch != batch for each in found):
        raise Refused(f"batch {batch} is refused: its tasks are of several queries or batches")
    return found


def _required(options: SinkOptions) -> ExactlyOnce:
    assert options.exactly_once is not None
    return options.exactly_once
