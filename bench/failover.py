"""`python -m bench.failover`: how long partitions acknowledge nothing after a fault.

An idempotent librdkafka producer with acks=all sends to all partitions of three brokers; a row has
the longest time without an acknowledgement of one of them. Before each fault all in-sync sets are
full and every broker leads its share; at the end the history of the clients is checked. ZooKeeper
calls fsync, as it does by default. Only the row of the cut has a proxy between the processes.
Apache Kafka's figures are of 4.3.0 (KRaft), with the same session timeout, on the same kind of
machine; `python -m bench` measures four of the faults (`failover-...`) on both in the same run.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from tools.faults import faults
from tools.faults.cluster import FaultyBroker, FaultyCluster, faulty_cluster
from tools.faults.faults import Fault, controller, everyone, first_two
from tools.faults.load import Load
from tools.faults.loaded import loaded

SESSION_MS = 6_000
PARTITIONS = 12


class Row(NamedTuple):
    title: str
    fault: Fault
    kafka: str
    target_s: float | None = None
    is_beyond_session: bool = True
    is_linked: bool = False  # needs links that can be cut


def other(cluster: FaultyCluster, _: Load) -> list[FaultyBroker]:
    """A broker that is not the controller."""
    busy = cluster.controller()
    return [next(broker for broker in cluster.brokers if broker is not busy)]


def controller_and_other(cluster: FaultyCluster, load: Load) -> list[FaultyBroker]:
    return [*controller(cluster, load), *other(cluster, load)]


ROWS = (
    Row("one killed, not the controller", faults.killed(other), "7-12", 2.0),
    Row("the controller killed", faults.killed(controller), "7-12", 2.0),
    Row("one killed and started at once", faults.killed_and_restarted(other), "", 2.0),
    Row(
        "controller and another killed, started at once",
        faults.killed_and_restarted(controller_and_other),
        "17-20",
        3.0,
    ),
    Row("all killed, started at once", faults.killed_and_restarted(everyone), "13-21", 3.0),
    Row(
        "SIGTERM of one, not the controller",
        faults.stopped(other),
        "0-1.4",
        0.5,
        is_beyond_session=False,
    ),
    Row(
        "SIGTERM of the controller",
        faults.stopped(controller),
        "0-1.4",
        0.5,
        is_beyond_session=False,
    ),
    Row(
        "SIGTERM of two, started again",
        faults.stopped(first_two),
        "9-13",
        9.0,
        is_beyond_session=False,
    ),
    Row("paused beyond the session", faults.paused(other), "6-9", 2.0),
    Row("cut from everything", faults.isolated(other), "3-8", 2.0, is_linked=True),
)


def measure(
    rows: Sequence[Row], rounds: int, session_ms: int, *, zookeeper_syncs: bool, console: Console
) -> dict[str, list[float]]:
    """The outages of each row, in seconds; all rows run on one cluster."""
    found: dict[str, list[float]] = {row.title: [] for row in rows}
    is_linked = any(row.is_linked for row in rows)
    with (
        tempfile.TemporaryDirectory() as directory,
        faulty_cluster(
            Path(directory),
            session_ms=session_ms,
            zookeeper_syncs=zookeeper_syncs,
            is_linked=is_linked,
        ) as cluster,
        loaded(cluster, lambda: Load(cluster.bootstrap, PARTITIONS)) as load,
    ):
        for row in [row for _ in range(rounds) for row in rows]:
            cluster.wait_until_in_sync(load.topic, load.partitions)
            load.elect_preferred_leaders()
            load.wait_until_available(time.monotonic())
            outage_s = row.fault(cluster, load)
            found[row.title].append(outage_s)
            console.print(f"{row.title}: {outage_s:.2f} s", highlight=False)
    return found


def results_table(found: dict[str, list[float]], session_ms: int, title: str) -> Table:
    """One line for each row that was measured: the median of the rounds and their range. A target
    is reached if it is reached in every round."""
    table = Table(title=title)
    for column in ("fault", "median", "range", "Apache Kafka 4.3.0", "target", "reached"):
        table.add_column(column, justify="left" if column == "fault" else "right")
    for row in ROWS:
        times = found.get(row.title)
        if not times:
            continue
        median = statistics.median(times)
        cells = ["", ""]
        if row.target_s is not None:
            limit = row.target_s + (session_ms / 1000 if row.is_beyond_session else 0)
            cells = [f"{limit:g}", "yes" if max(times) <= limit else "no"]
        spread = f"{min(times):.2f}-{max(times):.2f}"
        table.add_row(row.title, f"{median:.2f}", spread, row.kafka, *cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of all faults (3)")
    parser.add_argument("--session-ms", type=int, default=SESSION_MS)
    parser.add_argument("--only", help="measure the rows whose title contains this text")
    parser.add_argument(
        "--no-zookeeper-fsync", action="store_true", help="ZooKeeper does not call fsync"
    )
    options = parser.parse_args()
    console = Console()
    found: dict[str, list[float]] = {}
    for is_linked in (False, True):
        rows = [
            row for row in ROWS if row.is_linked is is_linked and (options.only or "") in row.title
        ]
        if rows:
            found |= measure(
                rows,
                options.rounds,
                options.session_ms,
                zookeeper_syncs=not options.no_zookeeper_fsync,
                console=console,
            )
    syncs = "without" if options.no_zookeeper_fsync else "with"
    title = (
        f"Seconds without acknowledgement: {options.rounds} rounds, session"
        f" {options.session_ms / 1000:g} s, ZooKeeper {syncs} fsync, load {os.getloadavg()[0]:.1f}"
        f" on {os.cpu_count()} cores"
    )
    console.print(results_table(found, options.session_ms, title))
    console.print("Nothing acknowledged was lost or repeated; the replicas are identical.")


if __name__ == "__main__":
    main()
