"""`python -m bench`: compare Sawlog with Apache Kafka; prints tables, writes docs/benchmarks.md."""

import argparse
import json
import os
import platform
import shutil
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from confluent_kafka import KafkaException
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench import chart, document
from bench.brokers import Name
from bench.process import ChildFailed
from bench.raw import BadAnswer
from bench.restarts import NEEDED_BYTES
from bench.results import Results
from bench.runs import GIGABYTE, ROOT, Measured
from bench.session import Plan, compare
from bench.tables import number, sections
from bench.workloads import BY_NAME, Metric
from tools.kafka_node import KafkaUnavailable, java_command

DOCUMENTS = ROOT / "docs"
PAGE = DOCUMENTS / "benchmarks.md"
QUICK_FACTOR = 0.25
LEAST_DISK_BYTES = 6_000_000_000
SHOWN = (
    (Metric.RATE, "a second"),
    (Metric.BROKER_CPU, "s broker CPU"),
    (Metric.MEGABYTES_PER_CPU, "MB per CPU second"),
    (Metric.P99, "ms p99"),
    (Metric.P99_QUIET, "ms p99 without"),
    (Metric.MAX, "ms at most"),
    (Metric.REBALANCE, "ms to rebalance"),
    (Metric.FIRST_ANSWER, "s to first answer"),
    (Metric.RESIDENT_IDLE, "MB resident"),
    (Metric.OPEN_5000, "s to open"),
    (Metric.RECOVER_10GB, "s to recover"),
    (Metric.LOAD_OFFSETS, "s to load"),
    (Metric.LOAD_DIRTY_OFFSETS, "s to load before the first cleaning"),
    (Metric.WORKER_PEAK, "MB in the largest Python worker"),
    (Metric.COMPILE, "s to compile"),
    (Metric.MEGABYTES, "MB/s"),
    (Metric.BEHIND, "s behind"),
    (Metric.IN_SYNC_AGAIN, "s until in sync"),
    (Metric.CREATE, "s to create"),
    (Metric.CREATE_CPU, "s CPU to create"),
    (Metric.IDLE_CORES, "cores idle"),
    (Metric.LEADERS_AGAIN, "s until all have leaders"),
    (Metric.OUTAGE, "s without an acknowledgement"),
    (Metric.RESIDENT_AFTER, "MB resident"),
    (Metric.FIRST_ROWS, "s to the first rows"),
    (Metric.LANDED, "s to the end"),
    (Metric.LANDING_CPU, "s CPU"),
    (Metric.LANDING_MEMORY, "MB in all processes"),
    (Metric.WRITTEN, "bytes written per changed byte"),
    (Metric.OTHERS, "cores used by others"),
)


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = ", ".join(BY_NAME)
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (5)")
    parser.add_argument("--only", metavar="A,B", help=f"run only these workloads: {names}")
    parser.add_argument("--skip", metavar="A,B", default="", help="run all workloads but these")
    parser.add_argument(
        "--brokers", default="kafka,sawlog", help="the measured brokers (kafka,sawlog)"
    )
    parser.add_argument("--quick", action="store_true", help="a quarter of the records, one round")
    parser.add_argument("--no-warmup", action="store_true", help="skip the warm-up")
    parser.add_argument(
        "--patience",
        type=float,
        default=0.0,
        metavar="S",
        help="wait up to S seconds for an idle machine, and repeat a run that others disturbed",
    )
    parser.add_argument("--directory", type=Path, default=ROOT / ".cache" / "bench")
    parser.add_argument("--json", type=Path, help="also write the values to this file")
    parser.add_argument(
        "--render", type=Path, help="write the document from this file, without measuring"
    )
    parser.add_argument(
        "--merge",
        action="store_true",
        help="replace the measured rows of docs/benchmarks.md, and keep its other rows",
    )
    return parser.parse_args(given)


def make_plan(options: argparse.Namespace) -> Plan:
    """The plan of the options; SystemExit with the name of an unknown workload."""
    skipped = set(filter(None, options.skip.split(",")))
    if options.quick and not options.only:
        skipped |= {"recovery", "latency-java-1", "latency-java-all"}
    wanted = options.only.split(",") if options.only else list(BY_NAME)
    for name in (*wanted, *skipped):
        if name not in BY_NAME:
            raise SystemExit(f"unknown workload {name!r}; expected one of {', '.join(BY_NAME)}")
    try:
        names = tuple(Name(name) for name in options.brokers.split(","))
    except ValueError:
        raise SystemExit(f"unknown broker in {options.brokers!r}; expected kafka, sawlog") from None
    if options.merge and (options.quick or len(names) < len(Name)):
        raise SystemExit("--merge needs all records and both brokers: rows are compared")
    return Plan(
        workloads=tuple(BY_NAME[name] for name in wanted if name not in skipped),
        names=names,
        rounds=1 if options.quick else options.rounds,
        factor=QUICK_FACTOR if options.quick else 1.0,
        warmup_factor=0.0 if options.no_warmup else 1.0,
        directory=options.directory,
        patience_s=options.patience,
    )


def check(plan: Plan) -> None:
    """SystemExit with one line if a requirement is missing on this machine."""
    try:
        java_command("")
    except KafkaUnavailable as missing:
        raise SystemExit(f"the benchmark needs Apache Kafka's tools: {missing}") from None
    wants_recovery = BY_NAME["recovery"] in plan.workloads
    needed = NEEDED_BYTES if wants_recovery else LEAST_DISK_BYTES
    plan.directory.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(plan.directory).free
    if free < needed:
        hint = " (or --skip recovery)" if wants_recovery else ""
        raise SystemExit(
            f"the benchmark needs {needed / GIGABYTE:.0f} GB of disk,"
            f" {free / GIGABYTE:.0f} GB are free{hint}"
        )


def machine() -> dict[str, str]:
    """Hardware and software versions, without anything that identifies this machine."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIGABYTE
    kernel = ".".join(platform.release().split(".")[:2])
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{memory_gb:.0f} GB",
        "kernel": f"{platform.system()} {kernel}",
        "Python": platform.python_version(),
    }


def measure(plan: Plan, results: Results, console: Console) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("start", total=plan.steps())

        def listener(step: str, measured: Measured | None) -> None:
            progress.update(task, description=step)
            if measured is not None:
                progress.advance(task)
                console.print(f"{step}: {line_of(measured)}", highlight=False, soft_wrap=True)

        compare(plan, results, listener)


def line_of(measured: Measured) -> str:
    """The result of one run as one line."""
    parts = [f"{number(measured[metric])} {unit}" for metric, unit in SHOWN if metric in measured]
    return ", ".join(parts)


def show(results: Results, console: Console) -> None:
    for section in sections(results):
        table = Table(title=section.title, title_justify="left", title_style="bold")
        for position, column in enumerate(section.columns):
            table.add_column(column, justify="right" if position else "left")
        for *cells, reached in section.rows:
            style = {"yes": "green", "no": "yellow"}.get(reached, "")
            table.add_row(*cells, f"[{style}]{reached}[/]" if style else reached)
        console.print(table)
    for metric, title in (
        (Metric.OTHERS, "cores used by other processes"),
        (Metric.LOAD, "load average at the end of a run"),
    ):
        if (value := results.of_all_runs(metric)) is not None:
            console.print(f"{title}: {number(value)} (median of all runs)")


def write(results: Results) -> None:
    DOCUMENTS.mkdir(exist_ok=True)
    PAGE.write_text(document.render(results))
    (DOCUMENTS / "benchmarks.svg").write_text(chart.draw(chart.groups(results)))


def write_rows(results: Results) -> None:
    """Replace the measured rows of the document; the chart stays that of the last whole run."""
    PAGE.write_text(document.render(results, PAGE.read_text()))


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit("stopped")


def main(given: list[str]) -> int:
    options = arguments(given)
    console = Console()
    if options.render:
        stored = Results.from_json(json.loads(options.render.read_text()))
        (write_rows if options.merge else write)(stored)
        return 0
    # SIGTERM, too, must stop the brokers.
    signal.signal(signal.SIGTERM, _stop)
    plan = make_plan(options)
    check(plan)
    results = Results(machine(), datetime.now(UTC).date().isoformat())
    if plan.patience_s:
        results.machine["shared with others"] = "the calmest of up to three runs counts"
    try:
        measure(plan, results, console)
    except (ChildFailed, BadAnswer, KafkaException) as failure:
        console.print(f"[red]failed:[/] {failure}", highlight=False)
        return 1
    finally:
        if options.json:
            options.json.write_text(json.dumps(results.as_json(), indent=1) + "\n")
    show(results, console)
    is_complete = len(plan.workloads) == len(BY_NAME) and len(plan.names) == len(Name)
    if is_complete and not options.quick:
        write(results)
        console.print("docs/benchmarks.md and docs/benchmarks.svg are written.")
    elif options.merge:
        write_rows(results)
        console.print("The measured rows of docs/benchmarks.md are replaced.")
    else:
        console.print("Not everything was measured: docs/benchmarks.md stays as it is.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
