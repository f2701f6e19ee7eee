"""Several writers of one Iceberg table, stale or overtaken, with faults of the catalog, land every
record once.

The model is the set of landed offsets. Each writer plans from the offsets that it saw last, so most
batches of several writers overlap.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from sawlog.pipeline.delta.errors import OffsetConflict
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.table import CommittedVersion
from sawlog.pipeline.iceberg.catalogs import CatalogConfig
from sawlog.pipeline.iceberg.iceberg_table import IcebergTable
from support.pipeline.iceberg_rest_catalog import Fault, RestCatalogServer
from support.pipeline.iceberg_tables import (
    iceberg_contents,
    new_iceberg,
    rest_catalog,
    table_ref,
)
from support.pipeline.tables import PIPELINE, at, rows
from support.tiers import rounds

WRITERS = 3
_names = itertools.count()


class Step(NamedTuple):
    """One batch of a writer; `rival` commits its own after this writer has planned."""

    writer: int
    partition: int
    length: int
    has_rows: bool
    is_refreshed: bool
    fault: Fault | None
    rival: int | None


steps = st.builds(
    Step,
    st.integers(0, WRITERS - 1),
    st.integers(0, 1),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.none() | st.sampled_from(list(Fault)),
    st.none() | st.integers(0, WRITERS - 1),
)


class Writers:
    """The writers of a new table, and which rows the table must have."""

    def __init__(self, lake: Path, catalog: CatalogConfig | None) -> None:
        self.ref = table_ref(lake, f"t{next(_names)}", catalog)
        new_iceberg(self.ref)
        self.tables = [IcebergTable.open(self.ref) for _ in range(WRITERS)]
        self.seen: list[dict[int, int]] = [{} for _ in range(WRITERS)]
        self.landed: list[tuple[int, int]] = []

    def land(self, step: Step) -> None:
        table, partition = self.tables[step.writer], step.partition
        if step.is_refreshed:
            table.refresh()
            self.seen[step.writer] = {
                tp.partition: end for tp, end in table.offsets(PIPELINE).items()
            }
        start = self.seen[step.writer].get(partition, 0)
        offsets = range(start, start + step.length)
        files = []
        if step.has_rows:
            with FileWriter(table.storage) as writer:
                writer.write(rows(partition, offsets))
                files = writer.close()
        rival = None if step.rival is None else step._replace(
            writer=step.rival, rival=None, fault=None, length=step.length + 1, is_refreshed=False
        )  # fmt: skip

        def overtake(_: Mapping[str, int]) -> dict[str, int]:
            nonlocal rival
            if rival is not None and rival.writer != step.writer:
                todo, rival = rival, None
                self.land(todo)
            return {}

        span = {at(partition): OffsetSpan(offsets.start, offsets.stop)}
        try:
            done = table.commit(PIPELINE, files, span, more_txn_versions=overtake)
        except OffsetConflict:
            return
        self.seen[step.writer][partition] = offsets.stop
        if isinstance(done, CommittedVersion) and files:
            self.landed += [(partition, offset) for offset in offsets]

    def check(self) -> None:
        found = [(partition, offset) for partition, offset, _ in iceberg_contents(self.ref)]
        assert found == sorted(set(found)), "an offset landed twice"
        assert found == sorted(self.landed), "a result was wrong"
        table = IcebergTable.open(self.ref)
        ends = {tp.partition: end for tp, end in table.offsets(PIPELINE).items()}
        assert all(offset < ends[partition] for partition, offset in found)
        assert table.detail().rows == len(found)


@pytest.fixture(scope="module")
def server() -> Iterator[RestCatalogServer]:
    with RestCatalogServer().running() as running:
        yield running


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


def _histories(examples: int, body: Callable[[list[Step]], None]) -> None:
    given(st.lists(steps, min_size=2, max_size=8))(settings(max_examples=examples)(body))()


@pytest.mark.parametrize("examples", rounds(fast=8, long=20, soak=400))
def test_rest_catalog_with_faults_lands_every_offset_once(
    server: RestCatalogServer, lake: Path, examples: int
) -> None:
    def history(found: list[Step]) -> None:
        server.faults.clear()
        writers = Writers(lake, rest_catalog(server.uri))
        for step in found:
            server.faults.clear()
            server.faults += [step.fault] if step.fault else []
            writers.land(step)
        server.faults.clear()
        writers.check()

    _histories(examples, history)


@pytest.mark.parametrize("examples", rounds(fast=8, long=20, soak=400))
def test_sql_catalog_with_faults_lands_every_offset_once(lake: Path, examples: int) -> None:
    def history(found: list[Step]) -> None:
        writers = Writers(lake, None)
        for step in found:
            with pytest.MonkeyPatch.context() as patch:
                _break_next_commit(patch, writers.ref.open_catalog(), step.fault)
                writers.land(step)
        writers.check()

    _histories(examples, history)


def _break_next_commit(patch: pytest.MonkeyPatch, catalog: Any, fault: Fault | None) -> None:
    """Make the next commit fail; a late commit is made before the one that follows."""
    commit_table = catalog.commit_table
    waiting: list[tuple[Any, ...]] = []
    faults = [fault] if fault else []

    def commit(*arguments: Any) -> Any:
        while waiting:
            try:
                commit_table(*waiting.pop())
            except CommitFailedException:
                pass
        match faults.pop() if faults else None:
            case Fault.LOST_ANSWER | Fault.UNKNOWN:
                commit_table(*arguments)
                raise CommitStateUnknownException("asked for by a test")
            case Fault.LOST_REQUEST | Fault.UNAVAILABLE | Fault.FORBIDDEN:
                raise ConnectionError("asked for by a test")
            case Fault.CONFLICT:
                raise CommitFailedException("asked for by a test")
            case Fault.LATE:
                waiting.append(arguments)
                raise TimeoutError("asked for by a test")
        return commit_table(*arguments)

    patch.setattr(catalog, "commit_table", commit)
