"""`make demo`: access logs into a topic, the topic into a Delta table, and an account at the end.

A broker, a generator at full speed, and the pipeline beside it: one table of rows with dead
letters, one of counts per minute. Then everything is counted: what was acknowledged, what the topic
has, what the tables have, what is there twice and what is missing.
"""

import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Drawn

from bench import brokers, topics
from bench.brokers import Name
from bench.process import ChildFailed, Server
from sawlog.client.admin.list_offsets import LATEST, list_offsets
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.delta.data_files import on_disk
from sawlog.pipeline.delta.table import Table

DIRECTORY = Path(".cache") / "demo"
TOPIC, PARTITIONS = "access-log", 6
SECONDS, RECORDS = 20, 2_000_000
LONGEST_S = 300.0  # from the last record written to the last row
STILL_S = 90.0  # without a row more, once there were some; before that Spark is starting
LOOK_S = 0.5
TELL_S = 5.0  # where no bar can be drawn
PIPELINE = """\
brokers: {bootstrap}
lake: ./lake
tables:
  access:
    topic: access-log
    format: json
    schema: infer
    partition_by: [date(timestamp)]
    commit: {{every: 2s, rows: 500000, bytes: 128MB}}
    group: lake-access
  minutes:
    sql: >
      SELECT window(timestamp, '1 minute').start AS minute, count(*) AS requests,
             count_if(status >= 500) AS errors, sum(bytes) AS bytes
      FROM access GROUP BY window(timestamp, '1 minute')
    key: [minute]
    watermark: {{timestamp: 5m}}
    every: 2s
"""


@dataclass(frozen=True, slots=True)
class Account:
    """Every number is counted on its own, from where it is."""

    produced: int
    broken: int
    stored: int
    landed: int
    dead: int
    doubles: int
    lost: int
    aggregated: int
    minutes: int
    rows_per_s: float
    files: int

    @property
    def is_right(self) -> bool:
        return (
            self.produced == self.stored == self.landed + self.dead
            and self.dead == self.broken
            and self.aggregated == self.landed
            and self.lost == self.doubles == 0
        )


def places(table: Table) -> dict[int, np.ndarray]:
    """The offsets in a table, by partition, as they are: not made distinct."""
    found: dict[int, list[np.ndarray]] = {}
    for file in table.files():
        rows = pq.read_table(
            table.storage.full(on_disk(file.path)), columns=["partition", "offset"],
            partitioning=None,
        )  # fmt: skip
        for partition in pc.unique(rows["partition"]).to_pylist():
            mine = rows.filter(pc.equal(rows["partition"], partition))["offset"]
            found.setdefault(partition, []).append(mine.to_numpy())
    return {partition: np.concatenate(parts) for partition, parts in found.items()}


def ends(bootstrap: str) -> dict[int, int]:
    with Cluster(bootstrap) as cluster:
        wanted = {partition_of(TOPIC, index): LATEST for index in range(PARTITIONS)}
        return {tp.partition: told.offset for tp, told in list_offsets(cluster, wanted).items()}


def counted(table: Table, column: str) -> tuple[int, int]:
    """The rows of a table, and the sum of a column."""
    rows = total = 0
    for file in table.files():
        read = pq.read_table(
            table.storage.full(on_disk(file.path)), columns=[column], partitioning=None
        )
        rows += read.num_rows
        total += pc.sum(read[column]).as_py() or 0
    return rows, total


def account(bootstrap: str, lake: Path, told: dict[str, float], seconds: float) -> Account:
    access, dead = Table.open(lake / "access"), Table.open(lake / "access__dead")
    good, bad = places(access), places(dead)
    stored = ends(bootstrap)
    doubles = lost = 0
    for partition, end in stored.items():
        nothing = np.array([], np.int64)
        both = np.concatenate([good.get(partition, nothing), bad.get(partition, nothing)])
        distinct = np.unique(both)
        doubles += len(both) - len(distinct)
        lost += end - int(np.count_nonzero(distinct < end))
    landed = sum(map(len, good.values()))
    minutes, aggregated = counted(Table.open(lake / "minutes"), "requests")
    return Account(
        int(told["produced"]), int(told["broken"]), sum(stored.values()), landed,
        sum(map(len, bad.values())), doubles, lost, aggregated, minutes,
        landed / seconds, len(access.files()),
    )  # fmt: skip


class Seen(NamedTuple):
    """How far the tables are."""

    written: int  # offsets of the topic
    landed: int  # those of them that are in access, or beside it as dead letters
    rows: int  # of access
    aggregated: int  # the rows that minutes has counted

    @property
    def is_all(self) -> bool:
        return self.landed == self.written and self.aggregated == self.rows

    def __str__(self) -> str:
        if not self.landed:
            return "Spark is starting"
        return (
            f"{self.landed:,} of {self.written:,} records have landed, and {self.aggregated:,} of"
            f" {self.rows:,} rows are counted by the minute"
        )


class NotLanded(Exception):
    """Nobody believes any more that the rest will come."""


class Patience:
    """Ends where no row has come for long, and somewhen in any case."""

    def __init__(self, now_s: float) -> None:
        self._began_s = self._moved_s = now_s
        self._last: Seen | None = None

    def is_over(self, seen: Seen, now_s: float) -> bool:
        if seen != self._last:
            self._last, self._moved_s = seen, now_s
        is_still = seen.landed > 0 and now_s - self._moved_s >= STILL_S
        return is_still or now_s - self._began_s >= LONGEST_S


def look(bootstrap: str, lake: Path) -> Seen:
    landed = rows = aggregated = 0
    if Table.exists(lake / "access"):
        access = Table.open(lake / "access")
        landed = sum(access.offsets("lake-access").values())
        rows = sum(file.rows or 0 for file in access.files())
    if Table.exists(lake / "minutes"):
        aggregated = counted(Table.open(lake / "minutes"), "requests")[1]
    return Seen(sum(ends(bootstrap).values()), landed, rows, aggregated)


def wait_for_rows(bootstrap: str, lake: Path, pipeline: Server, console: Console) -> None:
    """Until the tables have what the topic has; NotLanded says what they have not."""
    began_s = told_s = time.monotonic()
    patience = Patience(began_s)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        bar = progress.add_task("Spark is starting", total=None)
        while not (seen := look(bootstrap, lake)).is_all:
            pipeline.check_running()
            now_s = time.monotonic()
            if patience.is_over(seen, now_s):
                raise NotLanded(f"after {now_s - began_s:.0f} s: {seen}")
            if seen.landed:
                done, whole = seen.landed + seen.aggregated, seen.written + seen.rows
                progress.update(bar, description="landing, counting", completed=done, total=whole)
            if not console.is_terminal and now_s - told_s >= TELL_S:
                console.print(f"{seen} ...", highlight=False, soft_wrap=True)
                told_s = now_s
            time.sleep(LOOK_S)


def landing_seconds(lake: Path) -> float:
    """From the making of the table to its last commit."""
    table = Table.open(lake / "access")
    first = table.log.entry(0) or []
    began = next(action["commitInfo"]["timestamp"] for action in first if "commitInfo" in action)
    return float(max(0.001, ((table.state.committed_ms or began) - began) / 1_000))


def run(directory: Path, console: Console) -> Account:
    broker = brokers.start(Name.SAWLOG, directory / "broker")
    try:
        console.print(f"A broker runs on {broker.bootstrap}; its topic is {TOPIC!r}.")
        topics.create(broker.bootstrap, TOPIC, PARTITIONS)
        file = directory / "pipeline.yaml"
        file.write_text(PIPELINE.format(bootstrap=broker.bootstrap))
        command = [sys.executable, "-m", "sawlog.cli.main", "pipeline", "run", str(file)]
        pipeline = Server(command, directory / "pipeline.log")
        try:
            console.print(f"Spark is starting; access logs are written for {SECONDS} s meanwhile.")
            told = generated(broker.bootstrap)
            rate = told["produced"] / told["seconds"]
            console.print(f"{told['produced']:,} records are written, {rate:,.0f} a second.")
            wait_for_rows(broker.bootstrap, directory / "lake", pipeline, console)
        finally:
            pipeline.stop()
        seconds = landing_seconds(directory / "lake")
        return account(broker.bootstrap, directory / "lake", told, seconds)
    finally:
        broker.server.stop()


def generated(bootstrap: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.access_logs", bootstrap, TOPIC, str(SECONDS)]
    done = subprocess.run([*command, str(RECORDS)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChildFailed(f"the generator ended with {done.returncode}:\n{done.stderr}")
    told: dict[str, float] = json.loads(done.stdout)
    return told


def show(found: Account, directory: Path, seconds: float, console: Console) -> None:
    drawn = Drawn(title="The account", show_header=False)
    drawn.add_column()
    drawn.add_column(justify="right")
    drawn.add_column()
    for name, number, remark in (
        ("produced", f"{found.produced:,}", "acknowledged, acks=all"),
        ("stored", f"{found.stored:,}", "offsets of the topic"),
        ("landed", f"{found.landed:,}", f"rows of the table access, in {found.files} files"),
        ("dead letters", f"{found.dead:,}", f"{found.broken:,} were broken on purpose"),
        ("doubles", f"{found.doubles:,}", "rows of an offset that is there already"),
        ("lost", f"{found.lost:,}", "offsets that no table has"),
        ("aggregated", f"{found.aggregated:,}", f"in {found.minutes} rows of the table minutes"),
        ("rows/s", f"{found.rows_per_s:,.0f}", "landed, from the first look to the last commit"),
    ):
        drawn.add_row(name, number, remark)
    console.print(drawn)
    console.print(f"The tables are in {directory / 'lake'}; this took {seconds:.0f} s.")


def main() -> int:
    console = Console()
    began = time.monotonic()
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    DIRECTORY.mkdir(parents=True)
    directory = DIRECTORY.resolve()
    try:
        found = run(directory, console)
    except ChildFailed as failure:
        console.print(f"[red]failed:[/] {failure}", highlight=False)
        return 1
    except NotLanded as failure:
        log = DIRECTORY / "pipeline.log"
        console.print(
            f"[red]not all landed[/] {failure}; {log} says what the pipeline did.", highlight=False
        )
        return 1
    show(found, DIRECTORY, time.monotonic() - began, console)
    if not found.is_right:
        told = (directory / "pipeline.log").read_text(errors="replace")
        console.print(f"[red]The account does not come out.[/]\n{told}", highlight=False)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
