"""`python -m bench.failover`: how long partitions acknowledge nothing after a fault.

An idempotent librdkafka producer with acks=all sends to all partitions of three brokers; a row has
the longest time without an acknowledgement of one of them. After each fault the cluster heals until
all in-sync sets are full; at the end the history of the clients is checked. Apache Kafka's figures
are of 4.3.0 (KRaft), with the same session timeout, on the same kind of machine.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from tools.faults import faults
from tools.faults.cluster import FaultyCluster, faulty_cluster
from tools.faults.faults import Fault, everyone, first_two, leader
from tools.faults.load import Load

SESSION_MS = 6_000
PARTITIONS = 12


class Row(NamedTuple):
    title: str
    fault: Fault
    kafka: str
    target_s: float | None = None
    is_beyond_session: bool = True


ROWS = (
    Row("one broker killed", faults.killed(leader), "7-12", 2.0),
    Row("one killed and started at once", faults.killed_and_restarted(leader), "", 2.0),
    Row("two killed, started at once", faults.killed_and_restarted(first_two), "17-20", 3.0),
    Row("all killed, started at once", faults.killed_and_restarted(everyone), "13-21", 3.0),
    Row("SIGTERM of one", faults.stopped(leader), "0-1.4", 0.5, is_beyond_session=False),
    Row("SIGTERM of two, started again", faults.stopped(first_two), "9-13"),
    Row("paused beyond the session", faults.paused(leader), "6-9", 2.0),
    Row("cut from everything", faults.isolated(leader), "3-8", 2.0),
)


def measure(
    cluster: FaultyCluster, load: Load, rounds: int, console: Console
) -> dict[str, list[float]]:
    """The outages of each row, in seconds."""
    found: dict[str, list[float]] = {row.title: [] for row in ROWS}
    for _ in range(rounds):
        for row in ROWS:
            cluster.wait_until_in_sync(load.topic, load.partitions)
            load.wait_until_available(time.monotonic())
            outage_s = row.fault(cluster, load)
            found[row.title].append(outage_s)
            console.print(f"{row.title}: {outage_s:.2f} s", highlight=False)
    return found


def show(found: dict[str, list[float]], session_ms: int, console: Console) -> None:
    table = Table(title=f"Seconds without acknowledgement, session {session_ms / 1000:g} s")
    for column in ("fault", "Sawlog", "Apache Kafka 4.3.0", "target", "reached"):
        table.add_column(column, justify="left" if column == "fault" else "right")
    for row in ROWS:
        times = sorted(found[row.title])
        limit = None
        if row.target_s is not None:
            limit = row.target_s + (session_ms / 1000 if row.is_beyond_session else 0)
        reached = "" if limit is None else "yes" if times[-1] <= limit else "no"
        target = "" if limit is None else f"{limit:g}"
        table.add_row(row.title, f"{times[0]:.2f}-{times[-1]:.2f}", row.kafka, target, reached)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of all faults (3)")
    parser.add_argument("--session-ms", type=int, default=SESSION_MS)
    options = parser.parse_args()
    console = Console()
    with (
        tempfile.TemporaryDirectory() as directory,
        faulty_cluster(Path(directory), session_ms=options.session_ms) as cluster,
    ):
        load = Load(cluster.bootstrap, PARTITIONS)
        try:
            load.wait_until_available(time.monotonic())
            found = measure(cluster, load, options.rounds, console)
            cluster.wait_until_in_sync(load.topic, load.partitions)
        except BaseException:
            load.abandon()
            raise
        load.stop()
        load.check()
        cluster.check_identical_replicas(load.topic, load.partitions)
    show(found, options.session_ms, console)
    console.print("Nothing acknowledged was lost or repeated; the replicas are identical.")


if __name__ == "__main__":
    main()
