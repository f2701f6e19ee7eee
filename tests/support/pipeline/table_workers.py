"""Processes that write to one table concurrently, to be killed at any time.

`python -m support.pipeline.table_workers land PATH SEED END` lands every partition up to END with
retries, `upsert PATH SEED END` does so into a keyed table; `compact PATH SEED END` compacts until
that is done; `die PATH POINT` lands one batch and kills itself at a point of the commit. The last
line of output is the result as JSON.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn

from sawlog.core.ids import TopicPartition
from sawlog.pipeline.delta.compaction import compact
from sawlog.pipeline.delta.errors import FileConflict, OffsetConflict
from sawlog.pipeline.delta.landed_offsets import OffsetSpan
from sawlog.pipeline.delta.table import AlreadyCommitted, CommittedVersion, Table
from support.pipeline.keyed_tables import commit_changes, random_change
from support.pipeline.tables import PIPELINE, at, rows, written

PARTITIONS = 3
ROUNDS = 10_000  # far more than any run needs
IDLE_S = 0.02
COMPACTING_S = 200


def is_done(table: Table, end: int) -> bool:
    stored = table.offsets(PIPELINE)
    return all(stored.get(at(number), 0) == end for number in range(PARTITIONS))


Spans = Mapping[TopicPartition, OffsetSpan]
Commit = Callable[[Table, Spans], CommittedVersion | AlreadyCommitted]


def append(table: Table, spans: Spans) -> CommittedVersion | AlreadyCommitted:
    batches = [rows(p.partition, range(*span), days=2) for p, span in spans.items()]
    return table.commit(PIPELINE, written(table, *batches), spans)


def upsert(table: Table, spans: Spans) -> CommittedVersion | AlreadyCommitted:
    changes = [
        random_change(tp.partition, offset) for tp, span in spans.items() for offset in range(*span)
    ]
    return commit_changes(table, changes, {tp.partition: span for tp, span in spans.items()}, 2)


def land_all(path: str, seed: int, end: int, commit: Commit = append) -> dict[str, int]:
    table, choice = Table.open(path), random.Random(seed)
    met = {"committed": 0, "already": 0, "overtaken": 0}
    for _ in range(ROUNDS):
        if is_done(table, end):
            return met
        stored = table.offsets(PIPELINE)
        spans = {}
        for number in choice.sample(range(PARTITIONS), choice.randint(1, PARTITIONS)):
            start = stored.get(at(number), 0)
            spans[at(number)] = OffsetSpan(start, min(end, start + choice.randint(1, 12)))
        try:
            done = commit(table, spans)
        except (OffsetConflict, FileConflict):
            met["overtaken"] += 1
        else:
            met["already" if isinstance(done, AlreadyCommitted) else "committed"] += 1
    raise AssertionError(f"not done after {ROUNDS} rounds: {table.offsets(PIPELINE)}")


def compact_all(path: str, seed: int, end: int) -> dict[str, int]:
    table, choice = Table.open(path), random.Random(seed)
    met = {"merged": 0, "overtaken": 0}
    deadline = time.monotonic() + COMPACTING_S
    while time.monotonic() < deadline:
        table.refresh()
        last = is_done(table, end)
        done = compact(None, path, choice.choice([8_000, 20_000, 1_000_000]))
        met["merged"] += done.files_before
        met["overtaken"] += done.conflicts
        if last:
            return met
        if not done.files_before:
            time.sleep(IDLE_S)  # an idle compaction must not take the processor from the landings
    raise AssertionError(f"the landing was not done after {COMPACTING_S} s")


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def _before(function: Callable[..., object]) -> Callable[..., object]:
    return lambda *_: _die()


def _after(function: Callable[..., object]) -> Callable[..., object]:
    def call(*arguments: object) -> object:
        function(*arguments)
        _die()

    return call


def die(path: str, point: str) -> None:
    """`files`: data files are written; `aside`: the entry is written but has no name yet; `named`:
    it has its name, but the directory is not synced; `put`: an object store has the entry.
    """
    table = Table.open(path)
    files = written(table, rows(0, range(10, 20)))
    storage: Any = type(table.storage)
    if point == "files":
        storage.put_if_absent = _before(storage.put_if_absent)
    elif point == "put":
        storage.put_if_absent = _after(storage.put_if_absent)
    elif point == "aside":
        os.link = _before(os.link)  # type: ignore[assignment]
    elif point == "named":
        os.link = _after(os.link)  # type: ignore[assignment]
    table.commit(PIPELINE, files, {at(0): OffsetSpan(10, 20)})


def main(what: str, path: str, *more: str) -> None:
    if what == "die":
        die(path, *more)
        return
    upsert_all = partial(land_all, commit=upsert)
    work = {"land": land_all, "upsert": upsert_all, "compact": compact_all}[what]
    seed, end = more
    print(json.dumps(work(path, int(seed), int(end))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
