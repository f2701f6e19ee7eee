"""Faults of the exactly-once sink in Spark, each at its exact place by a gate before the broker.

The committed records of the topic equal the input, or the query has stopped with the reason.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from sawlog.client.admin.groups import GroupAdmin
from sawlog.client.admin.transactions import TransactionAdmin
from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.sink.batch_markers import BatchMarkers, query_name, task_name
from sawlog.protocol.messages.end_txn_request import EndTxnRequest
from support.kafka.request_gate import (
    GatedRequest,
    RequestGate,
    gated_broker,
    kill_sender,
    nth,
    pass_all,
)
from support.kafka.shared_brokers import QUICK_GROUPS, Server
from support.pipeline.exactly_once_copy import Copy
from support.pipeline.topics import Topics, making
from support.process import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = QUICK_GROUPS | {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
COUNT = 10  # records in each partition of the source


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("sawlog", marks=pytest.mark.long),
        pytest.param("kafka", marks=pytest.mark.soak),
    ],
)
def gated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, RequestGate]]:
    with gated_broker(request.param, tmp_path_factory.mktemp("gated"), SETTINGS) as found:
        yield found


@pytest.fixture
def gate(gated: tuple[Server, RequestGate]) -> Iterator[RequestGate]:
    yield gated[1]
    gated[1].script = pass_all


@pytest.fixture
def topics(gated: tuple[Server, RequestGate]) -> Iterator[Topics]:
    with making(gated[0].bootstrap) as found:
        yield found


@pytest.fixture
def copy(
    spark: "SparkSession", topics: Topics, gated: tuple[Server, RequestGate], tmp_path: Path
) -> Copy:
    """A query with three tasks; task `n` has the numbers from `n * COUNT` on."""
    found = Copy(spark, topics, gated[0], tmp_path, partitions=3)
    write(found, range(3))
    return found


def write(copy: Copy, numbers: range) -> None:
    """Write a group of COUNT numbers to each partition of the source."""
    for index, number in enumerate(numbers):
        copy.topics.write(copy.source, COUNT, index, first=number * COUNT)


def break_off(copy: Copy, gate: RequestGate, ends: int, rows: "DataFrame | None" = None) -> None:
    """Run until the process that commits is killed after `ends` of the three EndTxns."""
    gate.script = nth(ends + 1, EndTxnRequest, kill_sender)
    with pytest.raises(StreamingQueryException):
        copy.run(copy.rows() if rows is None else rows)
    gate.script = pass_all


@pytest.mark.parametrize("ends", [pytest.param(0, marks=pytest.mark.soak), 1, 2])
def test_a_commit_that_dies_between_two_ends_is_continued(
    copy: Copy, gate: RequestGate, ends: int
) -> None:
    break_off(copy, gate, ends)
    assert copy.committed() == [*range(ends * COUNT)]
    copy.run(copy.rows())
    assert copy.committed() == [*range(3 * COUNT)]
    write(copy, range(3, 6))
    copy.run(copy.rows())
    assert copy.committed() == [*range(6 * COUNT)]


def test_an_end_without_an_answer_is_retried(copy: Copy, gate: RequestGate) -> None:
    gate.script = nth(2, EndTxnRequest, lambda _: False)
    copy.run(copy.rows())
    assert copy.committed() == [*range(3 * COUNT)]


@pytest.mark.parametrize("tasks", [1, 5])
def test_a_rerun_with_other_tasks_is_refused_after_the_first_commit(
    copy: Copy, gate: RequestGate, tasks: int
) -> None:
    break_off(copy, gate, 1)
    with pytest.raises(StreamingQueryException, match="task 0 has committed other rows"):
        copy.run(copy.rows().repartition(tasks))
    assert copy.committed() == [*range(COUNT)]
    copy.run(copy.rows())  # the refusal has changed nothing
    assert copy.committed() == [*range(3 * COUNT)]


@pytest.mark.parametrize("tasks", [1, 5])
def test_a_rerun_with_other_tasks_is_exact_before_the_first_commit(
    copy: Copy, gate: RequestGate, tasks: int
) -> None:
    break_off(copy, gate, 0)
    copy.run(copy.rows().repartition(tasks))
    assert copy.committed() == [*range(3 * COUNT)]


def test_the_driver_finds_a_committed_task_that_the_rerun_does_not_have(
    copy: Copy, gate: RequestGate
) -> None:
    break_off(copy, gate, 2, copy.rows().filter("partition <> 1"))  # task 1 has no rows
    with pytest.raises(StreamingQueryException, match="more than 1 tasks, and committed task 1"):
        copy.run(copy.rows().filter("partition = 0").coalesce(1))  # task 0 has the same rows
    assert copy.committed() == [*range(COUNT)]


def test_a_nondeterministic_query_is_refused(copy: Copy, gate: RequestGate) -> None:
    changing = "cast(cast(rand() * 1e9 as int) as string) as value"
    break_off(copy, gate, 1, copy.rows().selectExpr("key", changing))
    before = copy.committed()
    assert len(before) == COUNT
    with pytest.raises(StreamingQueryException, match="must give the same rows"):
        copy.run(copy.rows().selectExpr("key", changing))
    assert copy.committed() == before


def test_a_timeout_before_the_commit_fails_the_batch_and_its_rerun_is_exact(
    copy: Copy, gate: RequestGate
) -> None:
    admin = TransactionAdmin(copy.topics.cluster)

    def wait_for_timeout(_: GatedRequest) -> bool:
        names = [task_name(copy.query_id, task) for task in range(3)]
        wait_until(
            lambda: all(one.state == "CompleteAbort" for one in admin.describe(names)[0].values())
        )
        return True

    gate.script = nth(1, EndTxnRequest, wait_for_timeout)
    with pytest.raises(StreamingQueryException, match=r"longer than 'kafka.transaction.timeout.ms"):
        copy.run(copy.rows(), **{"kafka.transaction.timeout.ms": "4000"})
    assert copy.committed() == []
    copy.run(copy.rows())
    assert copy.committed() == [*range(3 * COUNT)]


def test_expired_markers_stop_the_query(copy: Copy) -> None:
    copy.run(copy.rows())
    groups = [query_name(copy.query_id), *(task_name(copy.query_id, task) for task in range(3))]
    assert GroupAdmin(copy.topics.cluster).delete_groups(groups) == {}
    write(copy, range(3, 6))
    with pytest.raises(StreamingQueryException, match=r"has expired \(offsets.retention.minutes"):
        copy.run(copy.rows())
    assert copy.committed() == [*range(3 * COUNT)]


def test_a_deleted_marker_of_one_task_stops_the_query(copy: Copy) -> None:
    copy.run(copy.rows())
    offsets = [partition_of(copy.markers, 0)]
    admin = GroupAdmin(copy.topics.cluster)
    assert admin.delete_offsets(task_name(copy.query_id, 1), offsets) == {}
    write(copy, range(3, 6))
    with pytest.raises(StreamingQueryException, match="the marker of task 1 was deleted"):
        copy.run(copy.rows())
    assert copy.committed() == [*range(3 * COUNT)]


def test_a_batch_whose_predecessor_is_not_recorded_stops_the_query(copy: Copy) -> None:
    copy.run(copy.rows(maxOffsetsPerTrigger=15))  # two batches
    BatchMarkers(copy.topics.cluster, copy.markers, copy.query_id).record(0, 3)
    write(copy, range(3, 6))
    with pytest.raises(StreamingQueryException, match="predecessor is not recorded as committed"):
        copy.run(copy.rows())
    assert copy.committed() == [*range(3 * COUNT)]
