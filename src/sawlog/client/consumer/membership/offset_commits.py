"""Offset commits of one group by one consumer, blocking or asynchronous. For one thread.

The coordinator accepts commits of current members only; otherwise CommitFailed is raised.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from sawlog.client.admin.group_offsets import (
    LAST_VERSION_WITH_NAMES,
    Committed,
    Identity,
    commit_errors,
    commit_offsets,
    commit_request,
    committed_offsets,
)
from sawlog.client.errors import ClientError
from sawlog.client.net.connection import Connection, Pending
from sawlog.client.net.coordinator_requests import Coordinators
from sawlog.client.net.retries import Deadline
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.protocol.messages.offset_commit_response import OffsetCommitResponse

_HIGHEST_OFFSET = (1 << 63) - 1

Offsets = Mapping[TopicPartition, int]
CommitCallback = Callable[[Offsets, Exception | None], object]
"""Called with the offsets and the error, or None."""

REBALANCED = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
"""Errors of a rebalance: a retry with the current generation may succeed."""
FENCED = REBALANCED | {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
}


class CommitFailed(KafkaError):
    """This member does not own the partitions any more.

    The next owner reads the records since the last commit again.
    """


def checked_offsets(offsets: Offsets) -> dict[TopicPartition, int]:
    """Return a copy; ValueError if one cannot be an offset."""
    for partition, offset in offsets.items():
        if not 0 <= offset <= _HIGHEST_OFFSET:
            raise ValueError(
                f"{partition}: an offset must be from 0 to {_HIGHEST_OFFSET}, not {offset}"
            )
    return dict(offsets)


class _Sent(NamedTuple):
    offsets: Offsets
    connection: Connection
    pending: Pending[OffsetCommitResponse]
    done: CommitCallback


class OffsetCommits:
    def __init__(self, coordinators: Coordinators, group: str) -> None:
        self._coordinators = coordinators
        self._group = group
        self._sent: deque[_Sent] = deque()

    def commit(self, offsets: Offsets, identity: Identity, deadline: Deadline) -> None:
        """Commit and wait; KafkaError is the first partition's error."""
        refused = commit_offsets(
            self._coordinators, self._group, offsets, identity=identity, deadline=deadline
        )
        for error in refused.values():
            raise error

    def send(self, offsets: Offsets, identity: Identity, done: CommitCallback) -> None:
        """Commit without waiting, with one try; `collect` takes the response."""
        try:
            connection = self._coordinators.connection(self._group)
            pending = connection.send(
                commit_request(self._group, offsets, identity),
                OffsetCommitResponse,
                highest_version=LAST_VERSION_WITH_NAMES,
            )
        except (KafkaError, ClientError) as error:
            self._coordinators.forget(self._group)
            done(offsets, error)
        else:
            self._sent.append(_Sent(offsets, connection, pending, done))

    def collect(self, *, wait: bool = False) -> None:
        """Call the callbacks of commits whose response has arrived, in order; `wait`: of all."""
        while self._sent:
            sent = self._sent[0]
            error: Exception | None = None
            try:
                response = (
                    sent.connection.wait(sent.pending)
                    if wait
                    else sent.connection.poll(sent.pending)
                )
                if response is None:
                    return
                error = _first_error(self._group, response)
            except ClientError as lost:
                error = lost
            self._sent.popleft()
            if error is not None:
                self._coordinators.forget(self._group)
            sent.done(sent.offsets, error)

    def committed(
        self,
        partitions: Iterable[TopicPartition],
        *,
        require_stable: bool,
        deadline: Deadline | None = None,
    ) -> dict[TopicPartition, Committed]:
        """Return the committed offsets of these partitions; those without one are left out."""
        found, refused = committed_offsets(
            self._coordinators,
            [self._group],
            partitions=partitions,
            require_stable=require_stable,
            deadline=deadline,
        )
        for error in refused.values():
            raise error
        return found[self._group]


def _first_error(group: str, response: OffsetCommitResponse) -> KafkaError | None:
    refused = commit_errors(group, response)
    if isinstance(refused, KafkaError):
        return refused
    return next(iter(refused.values()), None)
