"""`make demo`: access logs into a topic, the topic into Delta tables, and a check of the counts.

It runs a broker, a generator at full speed, and a pipeline with two tables: the rows, with dead
letters, and counts per minute. At the end it counts acknowledged records, offsets in the topic and
rows in the tables, and looks for duplicates and missing rows.
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
from sawlog.pipeline.delta.data_files import decode_path
from sawlog.pipeline.delta.table import Table

DIRECTORY = Path(".cache") / "demo"
TOPIC, PARTITIONS = "access-log", 6
SECONDS, RECORDS = 20, 2_000_000
LONGEST_S = 300.0  # from the last record to the last row
STILL_S = 90.0  # without a new row after the first one; before that, Spark is starting
LOOK_S = 0.5
SHOW_S = 5.0  # without a terminal
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
class Counts:
    """Counts of records and rows, each taken from its own source."""

    produced: int
    broken: int
    stored: int
    landed: int
    dead: int
    duplicates: int
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
            and self.lost == self.duplicates == 0
        )


def places(table: Table) -> dict[int, np.ndarray]:
    """The offsets in a table by partition, with duplicates."""
    found: dict[int, list[np.ndarray]] = {}
    for file in table.files():
        rows = pq.read_table(
            table.storage.full(decode_path(file.path)), columns=["partition", "offset"],
            partitioning=None,
        )  # fmt: skip
        for partition in pc.unique(rows["partition"]).to_pylist():
            mine = rows.filter(pc.equal(rows["partition"], partition))["offset"]
            found.setdefault(partition, []).append(mine.to_numpy())
    return {partition: np.concatenate(parts) for partition, parts in found.items()}


def ends(bootstrap: str) -> dict[int, int]:
    with Cluster(bootstrap) as cluster:
        wanted = {partition_of(TOPIC, index): LATEST for index in range(PARTITIONS)}
        return {tp.partition: found.offset for tp, found in list_offsets(cluster, wanted).items()}


def counted(table: Table, column: str) -> tuple[int, int]:
    """The number of rows of a table and the sum of a column."""
    rows = total = 0
    for file in table.files():
        read = pq.read_table(
            table.storage.full(decode_path(file.path)), columns=[column], partitioning=None
        )
        rows += read.num_rows
        total += pc.sum(read[column]).as_py() or 0
    return rows, total


def count(bootstrap: str, lake: Path, counts: dict[str, float], seconds: float) -> Counts:
    access, dead = Table.open(lake / "access"), Table.open(lake / "access__dead")
    good, bad = places(access), places(dead)
    stored = ends(bootstrap)
    duplicates = lost = 0
    for partition, end in stored.items():
        nothing = np.array([], np.int64)
        both = np.concatenate([good.get(partition, nothing), bad.get(partition, nothing)])
        distinct = np.unique(both)
        duplicates += len(both) - len(distinct)
        lost += end - int(np.count_nonzero(distinct < end))
    landed = sum(map(len, good.values()))
    minutes, aggregated = counted(Table.open(lake / "minutes"), "requests")
    return Counts(
        int(counts["produced"]), int(counts["broken"]), sum(stored.values()), landed,
        sum(map(len, bad.values())), duplicates, lost, aggregated, minutes,
        landed / seconds, len(access.files()),
    )  # fmt: skip


class Seen(NamedTuple):
    """The progress of the tables."""

    written: int  # offsets in the topic
    landed: int  # of these, rows in `access` and dead letters
    rows: int  # of access
    aggregated: int  # rows counted in `minutes`

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
    """The tables did not get all rows in time."""


class Deadline:
    """A timeout without new rows, and a total timeout."""

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
    """Wait until the tables have all offsets of the topic; raise NotLanded with what is missing."""
    began_s = shown_s = time.monotonic()
    deadline = Deadline(began_s)
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
            if deadline.is_over(seen, now_s):
                raise NotLanded(f"after {now_s - began_s:.0f} s: {seen}")
            if seen.landed:
                done, whole = seen.landed + seen.aggregated, seen.written + seen.rows
                progress.update(bar, description="landing, counting", completed=done, total=whole)
            if not console.is_terminal and now_s - shown_s >= SHOW_S:
                console.print(f"{seen} ...", highlight=False, soft_wrap=True)
                shown_s = now_s
            time.sleep(LOOK_S)


def landing_seconds(lake: Path) -> float:
    """The seconds from the creation of the table to its last commit."""
    table = Table.open(lake / "access")
    first = table.log.entry(0) or []
    began = next(action["commitInfo"]["timestamp"] for action in first if "commitInfo" in action)
    return float(max(0.001, ((table.snapshot.committed_ms or began) - began) / 1_000))


def run(directory: Path, console: Console) -> Counts:
    broker = brokers.start(Name.SAWLOG, directory / "broker")
    try:
        console.print(f"A broker runs on {broker.bootstrap}; its topic is {TOPIC!r}.")
        topics.create(broker.bootstrap, TOPIC, PARTITIONS)
        file = directory / "pipeline.yaml"
        file.write_text(PIPELINE.format(bootstrap=broker.bootstrap))
        command = [sys.executable, "-m", "sawlog.cli.main", "pipeline", "run", str(file)]
        pipeline = Server(command, directory / "pipeline.log")
        try:
            console.print(
                f"Spark is starting; meanwhile access logs are written, {RECORDS:,} or for"
                f" {SECONDS} s."
            )
            counts = generated(broker.bootstrap)
            rate = counts["produced"] / counts["seconds"]
            console.print(
                f"{counts['produced']:,} records were written in {counts['seconds']:.0f} s,"
                f" {rate:,.0f} a second."
            )
            wait_for_rows(broker.bootstrap, directory / "lake", pipeline, console)
        finally:
            pipeline.stop()
        seconds = landing_seconds(directory / "lake")
        return count(broker.bootstrap, directory / "lake", counts, seconds)
    finally:
        broker.server.stop()


def generated(bootstrap: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.access_logs", bootstrap, TOPIC, str(SECONDS)]
    done = subprocess.run([*command, str(RECORDS)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChildFailed(f"the generator ended with code {done.returncode}:\n{done.stderr}")
    counts: dict[str, float] = json.loads(done.stdout)
    return counts


def show(found: Counts, directory: Path, seconds: float, console: Console) -> None:
    drawn = Drawn(title="Counts", show_header=False)
    drawn.add_column()
    drawn.add_column(justify="right")
    drawn.add_column()
    for name, number, remark in (
        ("produced", f"{found.produced:,}", "acknowledged with acks=all"),
        ("stored", f"{found.stored:,}", "offsets in the topic"),
        ("landed", f"{found.landed:,}", f"rows in the table access, {found.files} files"),
        ("dead letters", f"{found.dead:,}", f"{found.broken:,} invalid records were produced"),
        ("duplicates", f"{found.duplicates:,}", "rows with an offset that another row has"),
        ("lost", f"{found.lost:,}", "offsets that are in no table"),
        (
            "aggregated",
            f"{found.aggregated:,}",
            f"requests in {found.minutes} rows of the table minutes",
        ),
        ("rows/s", f"{found.rows_per_s:,.0f}", "from the creation of the table to its last commit"),
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
            f"[red]not all rows landed[/] {failure}; see the log of the pipeline, {log}.",
            highlight=False,
        )
        return 1
    show(found, DIRECTORY, time.monotonic() - began, console)
    if not found.is_right:
        output = (directory / "pipeline.log").read_text(errors="replace")
        console.print(f"[red]The counts do not match.[/]\n{output}", highlight=False)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
