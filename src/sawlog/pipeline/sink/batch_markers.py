"""Markers of an exactly-once sink: which batch each task, and the whole query, has committed.

A marker is a committed offset of partition 0 of the option `markerTopic`: the batch is the offset.
Each task of a query has a group, whose marker is committed in the transaction of the task's rows;
its metadata is the digest of the rows. The query has a group too: its record says that all tasks of
the batch are committed, and its metadata is their number.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from sawlog.client.admin.group_offsets import Committed, commit_offsets, committed_offsets
from sawlog.client.net.cluster import Cluster, NoSuchTopic
from sawlog.client.net.coordinator_requests import Coordinators
from sawlog.client.net.leader_requests import partition_of
from sawlog.pipeline.sink.sink_errors import Refused

_NEW_CHECKPOINT = (
    "start the query with a new checkpoint, and with 'startingOffsets' where the last batch ended"
)


class Marker(NamedTuple):
    batch: int
    digest: str


class BatchRecord(NamedTuple):
    batch: int
    tasks: int


class Decision(Enum):
    WRITE = "write the rows"
    VERIFY = "the rows are committed: read them and compare"


def task_name(query: str, task: int) -> str:
    """The transactional id of a task, and the group of its marker."""
    return f"sawlog-sink-{query}-{task}"


def query_name(query: str) -> str:
    """The group of the query's record."""
    return f"sawlog-sink-{query}"


def check_record(batch: int, record: BatchRecord | None) -> None:
    """Refuse a batch whose predecessor is not recorded as committed."""
    if record is None and batch > 0:
        raise Refused(
            f"batch {batch} is refused: no batch of this query is recorded as committed. The record"
            " has expired (offsets.retention.minutes) or was deleted, so whether the batch was"
            f" written before cannot be told; {_NEW_CHECKPOINT}"
        )
    if record is None or record.batch in (batch, batch - 1):
        return
    if record.batch > batch:
        raise Refused(
            f"batch {batch} is refused: batch {record.batch} is committed already. The checkpoint"
            f" was rolled back; restore the newest one, or {_NEW_CHECKPOINT}"
        )
    raise Refused(
        f"batch {batch} is refused: its predecessor is not recorded as committed, the last one is"
        f" batch {record.batch}; {_NEW_CHECKPOINT}"
    )


def decide(batch: int, task: int, marker: Marker | None, record: BatchRecord | None) -> Decision:
    """Decide what a task of a batch does; Refused if its rows could be written twice or be lost."""
    check_record(batch, record)
    if marker is not None and marker.batch > batch:
        raise Refused(
            f"batch {batch} is refused: task {task} has committed batch {marker.batch} already. The"
            f" checkpoint was rolled back; restore the newest one, or {_NEW_CHECKPOINT}"
        )
    if marker is not None and marker.batch == batch:
        return Decision.VERIFY
    if record is not None and record.batch == batch:
        raise Refused(
            f"batch {batch} is refused: it was committed by {record.tasks} tasks, and task {task}"
            " was not among them. The query must have the same partitions when a batch is rerun"
        )
    is_known = record is not None and task < record.tasks
    if is_known and (marker is None or record is None or marker.batch < record.batch):
        raise Refused(
            f"batch {batch} is refused: the marker of task {task} was deleted, so whether its rows"
            f" were written before cannot be told; {_NEW_CHECKPOINT}"
        )
    return Decision.WRITE


def check_other_attempts(
    batch: int, tasks: int, marker: Marker | None, record: BatchRecord | None
) -> None:
    """Refuse to commit a batch of which another attempt has committed more tasks.

    `marker` is that of the first task number that this attempt does not have. Attempts commit in
    the order of task numbers, so it is the only one that counts.
    """
    check_record(batch, record)
    if record is not None and record.batch == batch and record.tasks != tasks:
        raise Refused(
            f"batch {batch} is refused: it was committed by {record.tasks} tasks and rerun with"
            f" {tasks}. The query must have the same partitions when a batch is rerun"
        )
    if marker is not None and marker.batch >= batch:
        raise Refused(
            f"batch {batch} is refused: an earlier attempt had more than {tasks} tasks, and"
            f" committed task {tasks}. The query must have the same partitions when a batch is"
            " rerun"
        )


def check_digest(batch: int, task: int, marker: Marker, digest: str) -> None:
    """Refuse a rerun with other rows than those that are committed."""
    if marker.digest != digest:
        raise Refused(
            f"batch {batch} is refused: task {task} has committed other rows than those of this"
            f" rerun (rows:digest {marker.digest}, now {digest}). The query must give the same rows"
            " in the same partitions, for the same topic, when a batch is rerun"
        )


class BatchMarkers:
    """The markers of one query in a cluster."""

    def __init__(self, cluster: Cluster, marker_topic: str, query: str) -> None:
        self._coordinators = Coordinators(cluster)
        self._query = query
        self.partition = partition_of(marker_topic, 0)
        try:
            cluster.leader(self.partition)
        except NoSuchTopic as error:
            raise NoSuchTopic(f"the option 'markerTopic': {error}") from None

    def read(self, task: int) -> tuple[Marker | None, BatchRecord | None]:
        """Return the task's marker and the query's record; waits for commits that are pending."""
        of_task, of_query = task_name(self._query, task), query_name(self._query)
        found = self._committed([of_task, of_query])
        return _marker(found[of_task]), _record(found[of_query])

    def new_marker(self, batch: int, digest: str) -> Committed:
        return Committed(batch, -1, digest)

    def record(self, batch: int, tasks: int) -> None:
        """Record that all tasks of the batch are committed."""
        offsets = {self.partition: Committed(batch, -1, str(tasks))}
        refused = commit_offsets(self._coordinators, query_name(self._query), offsets)
        for error in refused.values():
            raise error

    def _committed(self, groups: list[str]) -> Mapping[str, Committed | None]:
        found, refused = committed_offsets(
            self._coordinators, groups, partitions=[self.partition], require_stable=True
        )
        for error in refused.values():
            raise error
        return {group: found[group].get(self.partition) for group in groups}


def _marker(found: Committed | None) -> Marker | None:
    return None if found is None else Marker(found.offset, found.metadata)


def _record(found: Committed | None) -> BatchRecord | None:
    if found is None:
        return None
    if not found.metadata.isdecimal():
        raise Refused(
            f"the record of the query has the unknown metadata {found.metadata!r}; expected the"
            " number of tasks. Does another program commit offsets to its group?"
        )
    return BatchRecord(found.offset, int(found.metadata))
