"""A cluster under load, and what must hold after it: for clients, and on the disks."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from sawlog.log_inspection.segment_reader import StoredBatch, find_segments, read_batches
from tools.faults.load import Load
from tools.faults.process import wait_for

SAME_S = 60.0
"""How long replicas may take to become identical after the last record."""


class ReplicatedCluster(Protocol):
    """Brokers of which each one has a replica of every partition."""

    @property
    def data_directories(self) -> Sequence[Path]: ...

    def wait_until_in_sync(self, topic: str, partitions: int) -> None:
        """Wait until every in-sync set has all brokers."""


@contextlib.contextmanager
def loaded(cluster: ReplicatedCluster, make: Callable[[], Load]) -> Iterator[Load]:
    """Run a load during a `with` block, and then check what it saw and what is on the disks."""
    load = make()
    try:
        load.wait_until_available(time.monotonic())
        yield load
        cluster.wait_until_in_sync(load.topic, load.partitions)
        load.stop()
    except BaseException:
        load.abandon()
        raise
    load.check()
    check_identical_replicas(cluster.data_directories, load.topic, load.partitions)


def check_identical_replicas(directories: Sequence[Path], topic: str, partitions: int) -> None:
    """AssertionError if replicas differ; no producer may run, and all sets must be full."""
    for partition in range(partitions):

        def is_same(partition: int = partition) -> bool:
            logs = [_batches(directory / f"{topic}-{partition}") for directory in directories]
            return all(log == logs[0] for log in logs)

        wait_for(is_same, f"the replicas of {topic}-{partition} are identical", SAME_S)


def _batches(log: Path) -> list[bytes]:
    """The batches of a replica's log, as they are on the disk."""
    found: list[bytes] = []
    for segment in find_segments(log).segments:
        for batch in read_batches(segment):
            assert isinstance(batch, StoredBatch), f"{log}: {batch}"
            found.append(batch.data)
    return found
