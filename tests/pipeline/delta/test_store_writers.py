"""Concurrent writers of a table in versitygw, killed and behind a faulty network."""

import random
import signal
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.table import AlreadyCommitted, CommittedVersion, Table
from sawlog.pipeline.delta.table_path import StorageOptions, TablePath
from sawlog.pipeline.delta.vacuum import vacuum
from support.pipeline.fault_proxy import (
    CONFLICT,
    ERROR_AFTER_SUCCESS,
    LOST_REQUEST,
    LOST_RESPONSE,
    UNAVAILABLE,
    Fault,
    FaultProxy,
    proxied,
)
from support.pipeline.s3_servers import S3Server, store_options
from support.pipeline.table_workers import PARTITIONS
from support.pipeline.tables import PIPELINE, at, contents, expected, new_table, rows, written
from support.pipeline.worker_processes import finish, kill_repeatedly, start
from support.tiers import rounds

pytestmark = pytest.mark.long


@pytest.fixture
def proxy(versitygw: S3Server) -> Iterator[FaultProxy]:
    with proxied(versitygw.port) as found:
        yield found


def check(table: Table, end: int) -> None:
    """The table equals the topic, by our own reader and by deltalake's."""
    ends = dict.fromkeys(range(PARTITIONS), end)
    assert contents(table) == expected(ends)
    assert table.offsets(PIPELINE) == {at(number): end for number in ends}
    options = dict(table.storage.delta_options() or {})
    theirs = DeltaTable(str(table.path), storage_options=options)
    assert theirs.version() == table.version
    found = pa.table(theirs.to_pyarrow_table(columns=["partition", "offset", "value"]))
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == expected(ends)


def test_six_writers_and_a_compaction_at_once(versitygw: S3Server, random_seed: int) -> None:
    end = 150
    path = versitygw.new_path()
    new_table(path, ["date(timestamp)"])
    landings = [start("land", path, random_seed + number, end) for number in range(6)]
    compaction = start("compact", path, random_seed, end)
    landed = [finish(worker) for worker in landings]
    merged = finish(compaction)
    check(Table.open(path), end)
    assert sum(met["committed"] for met in landed) > 10
    assert sum(met["overtaken"] + met["already"] for met in landed) > 0, (
        "no writer conflicted with another"
    )
    assert merged["merged"] > 0


@pytest.mark.parametrize("kills", rounds(long=6, soak=200))
def test_writers_that_are_killed_repeatedly_lose_and_duplicate_nothing(
    versitygw: S3Server, random_seed: int, kills: int
) -> None:
    path = versitygw.new_path()
    new_table(path, ["date(timestamp)"])
    end = kill_repeatedly(path, ["land", "land", "compact"], kills, random_seed)
    table = Table.open(path)
    check(table, end)
    vacuum(table, orphan_ms=-60_000, tombstone_ms=-60_000)
    files = {file.path for file in table.storage.walk() if not file.path.startswith("_")}
    assert len(files) == len(table.files())
    check(Table.open(path), end)


@pytest.mark.parametrize(("point", "is_committed"), [("files", False), ("put", True)])
def test_a_writer_that_dies_in_its_commit_has_committed_all_or_nothing(
    versitygw: S3Server, point: str, is_committed: bool
) -> None:
    path = versitygw.new_path()
    table = new_table(path)
    files = written(table, rows(0, range(10)))
    table.commit(PIPELINE, files, {at(0): OffsetSpan(0, 10)})
    worker = start("die", path, point)
    _, errors = worker.communicate(timeout=120)
    assert worker.returncode == -signal.SIGKILL, errors
    after = Table.open(path)
    assert contents(after) == expected({0: 20 if is_committed else 10})
    again = written(after, rows(0, range(10, 20)))
    done = after.commit(PIPELINE, again, {at(0): OffsetSpan(10, 20)})
    assert done == (AlreadyCommitted(2) if is_committed else CommittedVersion(2))
    vacuum(after, orphan_ms=-60_000)
    assert contents(Table.open(path)) == expected({0: 20})


FAULTS = [LOST_RESPONSE, LOST_REQUEST, ERROR_AFTER_SUCCESS, CONFLICT, UNAVAILABLE]


def test_writers_behind_a_faulty_network_land_each_record_once(
    versitygw: S3Server, proxy: FaultProxy, random_seed: int
) -> None:
    """One commit of three is lost, answered with an error or held up until another commit."""
    choice, later = random.Random(random_seed), [threading.Event()]

    def script(method: str, path: str) -> Fault | None:
        if method != "PUT" or "_delta_log" not in path:
            return None
        later[0].set()
        later[0] = threading.Event()
        if choice.random() < 0.1:
            return Fault(passes=True, until=later[0])
        return choice.choice(FAULTS) if choice.random() < 0.3 else None

    path = TablePath(versitygw.new_path(), StorageOptions(store_options(proxy.port)))
    new_table(path, ["date(timestamp)"])
    proxy.script = script
    end = 60
    try:
        landed = [
            finish(worker)
            for worker in [start("land", path, random_seed + number, end) for number in range(3)]
        ]
    finally:
        proxy.script = lambda _method, _path: None
        later[0].set()
    assert sum(met["committed"] for met in landed) > 5
    check(Table.open(path), end)


def test_a_commit_whose_response_was_lost_is_not_committed_again(
    versitygw: S3Server, proxy: FaultProxy
) -> None:
    """The writer takes the entry for its own by the commit id, and plans nothing again."""
    path = TablePath(versitygw.new_path(), StorageOptions(store_options(proxy.port)))
    table = new_table(path)
    for number, fault in enumerate(FAULTS * 2):
        left = [fault]
        proxy.script = lambda method, where, left=left: (
            left.pop() if method == "PUT" and "_delta_log" in where and left else None
        )
        files = written(table, rows(0, range(number * 10, number * 10 + 10)))
        span = {at(0): OffsetSpan(number * 10, number * 10 + 10)}
        assert table.commit(PIPELINE, files, span) == CommittedVersion(number + 1)
        assert not left
    assert contents(Table.open(path)) == expected({0: 100})
