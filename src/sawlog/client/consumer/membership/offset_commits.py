"""Commits of one group by one reader: waited for, or heard of later. For one thread.

The coordinator takes a commit only from who is a member now; `CommitFailed` is its no.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sawlog.client.admin.group_offsets import (
    LAST_VERSION_WITH_NAMES,
    Committed,
    Identity,
    commit_offsets,
    commit_refusals,
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

Offsets = Mapping[TopicPartition, int]
CommitCallback = Callable[[Offsets, Exception | None], object]
"""Hears the offsets, and why they were not committed or None."""

MOVED_ON = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
"""The group has gone on: as who one is now it may be possible."""
FENCED = MOVED_ON | {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
}


class CommitFailed(KafkaError):
    """The group goes on without this member: what was read since the last commit will be read
    again, by whoever has the partitions now.
    """


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
        """One that is waited for; KafkaError is the first refusal."""
        refused = commit_offsets(
            self._coordinators, self._group, offsets, identity=identity, deadline=deadline
        )
        for error in refused.values():
            raise error

    def send(self, offsets: Offsets, identity: Identity, done: CommitCallback) -> None:
        """One that `collect` hears of. It is tried once: the next one says it all again."""
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
        """Tells those whose answer has come, in the order in which they were sent; `wait`: all."""
        while self._sent:
            sent = self._sent[0]
            error: Exception | None = None
            try:
                answer = (
                    sent.connection.wait(sent.pending)
                    if wait
                    else sent.connection.poll(sent.pending)
                )
                if answer is None:
                    return
                error = _first_error(self._group, answer)
            except ClientError as lost:
                error = lost
            self._sent.popleft()
            if error is not None:
                self._coordinators.forget(self._group)
            sent.done(sent.offsets, error)

    def committed(
        self, *, require_stable: bool, deadline: Deadline | None = None
    ) -> dict[TopicPartition, Committed]:
        """All that the group has committed."""
        found, refused = committed_offsets(
            self._coordinators, [self._group], require_stable=require_stable, deadline=deadline
        )
        for error in refused.values():
            raise error
        return found[self._group]


def _first_error(group: str, answer: OffsetCommitResponse) -> KafkaError | None:
    refused = commit_refusals(group, answer)
    if isinstance(refused, KafkaError):
        return refused
    return next(iter(refused.values()), None)
