"""Tasks and drivers of the exactly-once sink without Spark: each fault at its exact place.

The committed records of the topic equal the rows of the batches, or the batch was refused.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest

from sawlog.client.admin.groups import GroupAdmin
from sawlog.client.admin.transactions import TransactionAdmin
from sawlog.client.consumer.consumer import AT_EARLIEST, Consumer
from sawlog.client.errors import ConnectionLost, ErrorsByName
from sawlog.client.net.cluster import NoSuchTopic
from sawlog.client.net.coordinator_requests import Coordinators, CoordinatorType
from sawlog.client.net.leader_requests import partition_of
from sawlog.client.producer.transaction_errors import TransactionFatal
from sawlog.client.producer.transaction_requests import end_transaction
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.pipeline.sink import exactly_once
from sawlog.pipeline.sink.batch_markers import query_name, task_name
from sawlog.pipeline.sink.exactly_once import (
    PreparedTransaction,
    TaskIdentity,
    abort_batch,
    commit_batch,
    prepare,
)
from sawlog.pipeline.sink.sink_errors import Refused
from sawlog.pipeline.sink.sink_options import SinkOptions, read_sink_options
from support.client.transactional_topic import stable_end
from support.kafka.shared_brokers import (
    EITHER_BROKER,
    QUICK_GROUPS,
    Server,
    SharedBrokers,
    unique,
)
from support.pipeline.topics import Topics, making

Rows = Sequence[Sequence[str]]  # by task


@pytest.fixture(scope="module", params=EITHER_BROKER)
def server(request: pytest.FixtureRequest, shared_brokers: SharedBrokers) -> Server:
    return shared_brokers.get(request.param, QUICK_GROUPS)


class Query:
    """A query with a topic of its own: its tasks and its driver are run by the test."""

    def __init__(self, topics: Topics, bootstrap: str) -> None:
        self.cluster = topics.cluster
        self.topic = topics.create(unique("target-"), 2)
        self.markers = topics.create(unique("markers-"))
        self.id = unique("query-")
        self._bootstrap = bootstrap

    def options(self, **more: str) -> SinkOptions:
        return read_sink_options(
            {
                "kafka.bootstrap.servers": self._bootstrap,
                "topic": self.topic,
                "exactlyOnce": "true",
                "markerTopic": self.markers,
                "kafka.transaction.timeout.ms": "60000",
                **{name.replace("__", "."): value for name, value in more.items()},
            }
        )

    def task(
        self, batch: int, task: int, values: Sequence[str], **more: str
    ) -> PreparedTransaction:
        rows = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.string())})
        identity = TaskIdentity(self.id, batch, task)
        return prepare(self.cluster, self.options(**more), identity, iter([rows]))

    def tasks(self, batch: int, rows: Rows) -> list[PreparedTransaction]:
        return [self.task(batch, number, values) for number, values in enumerate(rows)]

    def commit(self, batch: int, messages: Sequence[PreparedTransaction]) -> None:
        commit_batch(self.cluster, self.options(), messages, batch)

    def run(self, batch: int, rows: Rows) -> None:
        self.commit(batch, self.tasks(batch, rows))

    def die_after(self, ends: int, messages: Sequence[PreparedTransaction]) -> None:
        """Commit the first `ends` tasks only, as a driver that is killed between two EndTxns."""
        coordinators = Coordinators(self.cluster, CoordinatorType.TRANSACTION)
        for message in messages[:ends]:
            assert message.transaction is not None
            connection = coordinators.connection(message.transaction.transactional_id)
            end_transaction(connection, message.transaction, commits=True)

    def committed(self) -> list[str]:
        partitions = [partition_of(self.topic, index) for index in (0, 1)]
        ends = {partition: stable_end(self.cluster, partition) for partition in partitions}
        consumer = Consumer(self.cluster, isolation="read_committed")
        consumer.assign(dict.fromkeys(partitions, AT_EARLIEST))
        found: list[str] = []
        while consumer.positions != ends:
            found += [(record.value or b"").decode() for record in consumer.poll(500)]
        return sorted(found)


@pytest.fixture
def query(server: Server) -> Iterator[Query]:
    with making(server.bootstrap) as topics:
        yield Query(topics, server.bootstrap)


def test_batches_are_written_once_with_changing_numbers_of_tasks(query: Query) -> None:
    query.run(0, [["a", "b"], ["c"]])
    query.run(1, [["d"], [], ["e"], ["f"]])
    query.run(2, [["g"]])
    query.run(3, [["h"], ["i"], ["j"]])
    assert query.committed() == list("abcdefghij")


def test_nothing_is_visible_before_the_driver_commits(query: Query) -> None:
    messages = query.tasks(0, [["a"], ["b"]])
    abort_batch(query.cluster, [messages[0], None])
    messages = query.tasks(0, [["a"], ["b"]])
    assert all(message.transaction is not None for message in messages)
    query.commit(0, messages)
    assert query.committed() == ["a", "b"]


@pytest.mark.parametrize("ends", [1, 2, 3])
@pytest.mark.parametrize("batch", [0, 1])
def test_a_driver_that_dies_between_two_ends_is_continued(
    query: Query, ends: int, batch: int
) -> None:
    for earlier in range(batch):
        query.run(earlier, [["0"]])
    rows = [["a", "b"], ["c"], ["d"]]
    query.die_after(ends, query.tasks(batch, rows))
    again = query.tasks(batch, [["b", "a"], ["c"], ["d"]])  # the order of rows does not count
    assert [message.transaction is None for message in again] == [
        number < ends for number in range(3)
    ]
    query.commit(batch, again)
    query.run(batch + 1, [["e"]])
    assert query.committed() == [*["0"] * batch, *"abcde"]


def test_a_batch_that_was_recorded_is_verified_and_not_written_again(query: Query) -> None:
    query.run(0, [["a"], ["b"]])
    query.run(0, [["a"], ["b"]])
    assert query.committed() == ["a", "b"]


def test_a_retried_task_fences_the_first_attempt(query: Query) -> None:
    first = query.task(0, 0, ["a"])
    second = query.task(0, 0, ["a"])
    with pytest.raises(KafkaError, match="Another attempt of the task has begun"):
        query.commit(0, [first])
    query.commit(0, [second])
    assert query.committed() == ["a"]


def test_an_attempt_that_is_fenced_while_it_writes_says_so(query: Query) -> None:
    rows = pa.RecordBatch.from_pydict({"value": pa.array(["a"], pa.string())})

    def fenced_after_one() -> Iterator[pa.RecordBatch]:
        yield rows
        query.task(0, 0, ["a"])
        yield rows

    identity = TaskIdentity(query.id, 0, 0)
    with pytest.raises(KafkaError, match=r"task 0 of batch 0 was not written.*Another attempt"):
        prepare(query.cluster, query.options(), identity, fenced_after_one())


def test_the_reason_of_a_failed_commit_is_that_of_the_broker(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = query.tasks(0, [["a"], ["b"]])
    found: list[Exception] = [
        KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ConnectionLost("connection lost"),
    ]

    def fail(*_: object, commits: bool) -> None:
        raise found[0]

    monkeypatch.setattr(exactly_once, "end_transaction", fail)
    with pytest.raises(KafkaError, match=r"task 0 of batch 0 was not committed: no permission"):
        query.commit(0, messages)
    monkeypatch.setattr(query.cluster, "retry", lambda attempt, **_: attempt())
    del found[0]
    with pytest.raises(KafkaError, match=r"not known whether .* task 0 .* connection lost"):
        query.commit(0, messages)
    abort_batch(query.cluster, messages)  # does not hide the reason


def test_a_zombie_task_of_an_older_batch_writes_nothing(query: Query) -> None:
    query.run(0, [["a"], ["b"]])
    messages = query.tasks(1, [["c"], ["d"]])
    assert query.task(0, 1, ["b"]).transaction is None  # fences task 1 of batch 1
    with pytest.raises(KafkaError, match="rerun the batch"):
        query.commit(1, messages)
    query.run(1, [["c"], ["d"]])
    with pytest.raises(Refused, match="already"):
        query.task(0, 0, ["a"])
    query.run(2, [["e"]])
    assert query.committed() == list("abcde")


def test_a_zombie_driver_cannot_commit_beside_its_successor(query: Query) -> None:
    old = query.tasks(0, [["a"], ["b"], ["c"]])
    query.die_after(1, old)
    new = query.tasks(0, [["a"], ["b"], ["c"]])
    with pytest.raises(KafkaError, match="task 1 of batch 0 was not committed"):
        query.commit(0, [PreparedTransaction(old[0].identity, None, ""), *old[1:]])
    query.commit(0, new)
    assert query.committed() == ["a", "b", "c"]


def test_a_rerun_with_fewer_tasks_is_refused_and_aborted(query: Query) -> None:
    query.die_after(2, query.tasks(0, [["a"], [], ["b"]]))
    with pytest.raises(Refused, match="committed other rows"):
        query.task(0, 0, ["a", "b"])
    # Task 0 has the same rows by chance: the driver finds the marker of task 1.
    with pytest.raises(Refused, match="had more than 1 tasks, and committed task 1"):
        query.run(0, [["a"]])
    assert query.committed() == ["a"]


def test_a_rerun_with_fewer_tasks_is_exact_if_none_was_committed(query: Query) -> None:
    query.tasks(0, [["a"], ["b"], ["c"]])  # open transactions of a dead driver
    query.run(0, [["a", "b", "c"]])
    assert query.committed() == ["a", "b", "c"]  # the driver has fenced tasks 1 and 2


def test_a_batch_is_not_committed_if_other_tasks_cannot_be_fenced(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.tasks(0, [["a"], ["b"]])
    messages = query.tasks(0, [["a"]])

    def describe(_: TransactionAdmin, names: Sequence[str]) -> tuple[dict[str, None], ErrorsByName]:
        return {}, {names[0]: KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, names[0])}

    with monkeypatch.context() as patch:
        patch.setattr(TransactionAdmin, "describe", describe)
        with pytest.raises(KafkaError, match=task_name(query.id, 1)):
            query.commit(0, messages)
    query.commit(0, messages)
    assert query.committed() == ["a"]


def test_a_rerun_with_more_tasks_is_refused_or_exact(query: Query) -> None:
    query.run(0, [["a"], ["b"]])
    with pytest.raises(Refused, match="committed by 2 tasks, and task 2 was not among them"):
        query.tasks(0, [["a"], ["b"], ["c"]])
    query.die_after(1, query.tasks(1, [["c"], ["d", "e"]]))
    with pytest.raises(Refused, match="committed other rows"):
        query.tasks(1, [["c", "d"], ["e"], []])
    query.run(1, [["c"], ["d"], ["e"]])  # the first task has the same rows
    assert query.committed() == list("abcde")


def test_a_nondeterministic_query_is_refused(query: Query) -> None:
    messages = query.tasks(0, [["a"], ["b"]])
    query.die_after(1, messages)
    abort_batch(query.cluster, messages)
    with pytest.raises(Refused, match="must give the same rows"):
        query.tasks(0, [["A"], ["b"]])
    assert query.committed() == ["a"]


def test_a_rerun_for_another_topic_is_refused_after_the_first_commit(
    query: Query, server: Server
) -> None:
    messages = query.tasks(0, [["a"], ["b"]])
    query.die_after(1, messages)
    first_topic = query.topic
    with making(server.bootstrap) as topics:
        query.topic = topics.create(unique("other-"), 2)
        with pytest.raises(Refused, match="for the same topic"):
            query.tasks(0, [["a"], ["b"]])
    query.topic = first_topic
    query.run(0, [["a"], ["b"]])
    assert query.committed() == ["a", "b"]


def test_a_batch_after_an_expired_record_is_refused(query: Query) -> None:
    query.run(0, [["a"]])
    query.run(1, [["b"]])
    admin = GroupAdmin(query.cluster)
    assert admin.delete_groups([query_name(query.id)]) == {}
    with pytest.raises(Refused, match="no batch of this query is recorded"):
        query.task(2, 0, ["c"])
    assert query.committed() == ["a", "b"]


def test_a_batch_after_a_deleted_marker_is_refused(query: Query) -> None:
    query.run(0, [["a"], ["b"]])
    assert GroupAdmin(query.cluster).delete_groups([task_name(query.id, 1)]) == {}
    with pytest.raises(Refused, match="the marker of task 1 was deleted"):
        query.task(1, 1, ["c"])


def test_a_rolled_back_checkpoint_is_refused(query: Query) -> None:
    for batch, value in enumerate("abc"):
        query.run(batch, [[value]])
    with pytest.raises(Refused, match="The checkpoint was rolled back"):
        query.task(1, 0, ["b"])
    assert query.committed() == ["a", "b", "c"]


def test_an_end_that_is_repeated_after_it_succeeded_is_no_failure(query: Query) -> None:
    messages = query.tasks(0, [["a"], ["b"], ["c"]])
    query.die_after(2, messages)  # the responses are lost
    query.commit(0, messages)
    assert query.committed() == ["a", "b", "c"]


def test_a_transaction_that_is_fenced_before_the_commit_fails_the_batch(query: Query) -> None:
    messages = query.tasks(0, [["a"], ["b"]])
    # As the coordinator does when the transaction times out.
    assert TransactionAdmin(query.cluster).fence([task_name(query.id, 1)]) == {}
    with pytest.raises(KafkaError, match="task 1 of batch 0 was not committed"):
        query.commit(0, messages)
    query.run(0, [["a"], ["b"]])
    assert query.committed() == ["a", "b"]


def test_the_marker_topic_must_exist(query: Query) -> None:
    with pytest.raises(NoSuchTopic, match="'markerTopic': there is no topic 'no-such"):
        query.task(0, 0, ["a"], markerTopic="no-such-topic")


def test_a_timeout_beyond_that_of_the_broker_is_refused(query: Query) -> None:
    reason = "'kafka.transaction.timeout.ms' is 1000000000, more than the brokers allow"
    with pytest.raises(TransactionFatal, match=reason):
        query.task(0, 0, ["a"], kafka__transaction__timeout__ms="1000000000")


def test_missing_tasks_are_refused(query: Query) -> None:
    messages = query.tasks(0, [["a"], ["b"]])
    with pytest.raises(Refused, match="expected every task from 0 on"):
        query.commit(0, messages[1:])
    with pytest.raises(Refused, match="expected every task from 0 on"):
        commit_batch(query.cluster, query.options(), [messages[0], None], 0)
    query.commit(0, messages)
    assert query.committed() == ["a", "b"]
