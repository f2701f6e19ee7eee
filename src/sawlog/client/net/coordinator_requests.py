"""Finds the coordinators of groups and of transactional ids, and sends them requests.

A coordinator that is loading, not elected yet or no longer the coordinator is looked up and asked
again until the deadline.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import TypeVar

from sawlog.client.errors import (
    UNANSWERED,
    ConnectionLost,
    ErrorsByName,
    RequestTimedOut,
    UnsupportedRequest,
    kafka_error,
)
from sawlog.client.net.addresses import Address
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.connection import Connection
from sawlog.client.net.metadata import Node
from sawlog.client.net.retries import Deadline
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from sawlog.protocol.messages.find_coordinator_response import FindCoordinatorResponse

Result = TypeVar("Result")
GroupResults = Iterator[tuple[str, Result | KafkaError]]
SendToCoordinator = Callable[[Connection, Node, list[str]], GroupResults[Result]]

_FIRST_VERSION_WITH_KEYS = 4
_GROUPS_PER_REQUEST = 100  # no broker should be busy with one request for long
_TEXTS = {
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no group {!r}; check the name",
    ErrorCode.NON_EMPTY_GROUP: "the group {!r} has members; stop them first, and wait until"
    " the sessions of killed and of static ones are over",
    ErrorCode.INVALID_GROUP_ID: "{!r} is not a valid group name",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "no permission for the group {!r}",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the group {!r} had no coordinator until the timeout",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator of the group {!r} is still loading;"
    " wait longer, or try again later",
    ErrorCode.NOT_COORDINATOR: "no broker accepted to be the coordinator of the group {!r}",
}


_TRANSACTION_TEXTS = {
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "no permission for the transactional id {!r}",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the transactional id {!r} had no coordinator until the"
    " timeout",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator of the transactional id {!r} is still"
    " loading; wait longer, or try again later",
    ErrorCode.NOT_COORDINATOR: "no broker accepted to be the coordinator of the transactional id"
    " {!r}",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "there is no transactional id {!r}; check the name, or it"
    " has expired",
}


class CoordinatorType(IntEnum):
    """The key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


class Coordinators:
    """The cached coordinator of each group, or of each transactional id."""

    def __init__(self, cluster: Cluster, kind: CoordinatorType = CoordinatorType.GROUP) -> None:
        self._cluster = cluster
        self._kind = kind
        self._known: dict[str, Node] = {}

    def send(
        self,
        groups: Iterable[str],
        send: SendToCoordinator[Result],
        *,
        repeatable: bool = True,
        deadline: Deadline | None = None,
    ) -> tuple[dict[str, Result], ErrorsByName]:
        """Return the result of each group, in their order, and the errors of the others.

        `send` sends one request about groups of one coordinator. If it is not `repeatable`, a lost
        response raises ConnectionLost or RequestTimedOut.
        """
        wanted = list(dict.fromkeys(groups))
        done: dict[str, Result] = {}
        refused: ErrorsByName = {}
        delayed: ErrorsByName = {}

        def take_result(group: str, result: Result | KafkaError) -> None:
            delayed.pop(group, None)
            if not isinstance(result, KafkaError):
                done[group] = result
            elif result.is_retriable:
                delayed[group] = result
                self._known.pop(group, None)
            else:
                refused[group] = result

        def attempt() -> None:
            rest = [group for group in wanted if group not in done and group not in refused]
            for group, error in self._find(rest):
                take_result(group, error)
            for node, kept in self._by_node(rest).items():
                for group, result in self._send_to_one(node, kept, send, repeatable):
                    take_result(group, result)
            if delayed:
                raise next(iter(delayed.values()))

        try:
            self._cluster.retry(attempt, deadline=deadline)
        except _OutcomeUnknown as lost:
            raise lost.error from lost
        except KafkaError as error:
            for group in wanted:
                if group not in done and group not in refused:
                    refused[group] = delayed.get(group, error)
        return {group: done[group] for group in wanted if group in done}, refused

    def connection(self, group: str, channel: str = "") -> Connection:
        """Return a connection to the coordinator, with one try; call `forget` if it fails."""
        for _, error in self._find([group]):
            raise error
        return self._cluster.connection(self._known[group].id, channel)

    def forget(self, group: str) -> None:
        """Drop the cached coordinator because it proved stale."""
        self._known.pop(group, None)

    def _find(self, groups: list[str]) -> Iterator[tuple[str, KafkaError]]:
        """Look up unknown coordinators; yields the errors of groups without one."""
        unknown = [group for group in groups if group not in self._known]
        if not unknown:
            return
        self._cluster.fetch_metadata([])  # for the live brokers
        connection = self._cluster.any_connection()
        require_version(connection, ApiKey.FIND_COORDINATOR, _FIRST_VERSION_WITH_KEYS)
        request = FindCoordinatorRequest(key_type=self._kind, coordinator_keys=unknown)
        for entry in connection.request(request, FindCoordinatorResponse).coordinators:
            if entry.error_code:
                make = group_error if self._kind is CoordinatorType.GROUP else transaction_id_error
                yield entry.key, make(entry.key, entry.error_code, entry.error_message)
            else:
                address = Address(entry.host, entry.port)
                self._known[entry.key] = Node(NodeId(entry.node_id), address, None)

    def _by_node(self, groups: list[str]) -> dict[Node, list[str]]:
        by_node: dict[Node, list[str]] = defaultdict(list)
        for group in groups:
            if group in self._known:
                by_node[self._known[group]].append(group)
        return dict(sorted(by_node.items(), key=lambda item: item[0].id))

    def _send_to_one(
        self, node: Node, groups: list[str], send: SendToCoordinator[Result], repeatable: bool
    ) -> GroupResults[Result]:
        try:
            for first in range(0, len(groups), _GROUPS_PER_REQUEST):
                connection = self._cluster.connection(node.id)
                yield from send(connection, node, groups[first : first + _GROUPS_PER_REQUEST])
        except (KafkaError, *UNANSWERED) as error:
            for group in groups:
                self._known.pop(group, None)
            if isinstance(error, ConnectionLost | RequestTimedOut) and not repeatable:
                raise _OutcomeUnknown(error) from error
            raise


class _OutcomeUnknown(Exception):
    """The request may have been carried out and must not be repeated."""

    def __init__(self, error: ConnectionLost | RequestTimedOut) -> None:
        super().__init__(str(error))
        self.error = error


def group_error(group: str, error_code: int, message: str | None) -> KafkaError:
    """Make the error of a response about a group, with a text that names the group."""
    refused = kafka_error(error_code, message)
    text = _TEXTS.get(refused.code)
    return refused if text is None else KafkaError(refused.code, text.format(group))


def transaction_id_error(transactional_id: str, error_code: int, message: str | None) -> KafkaError:
    """Make the error of a response about a transactional id, with a text that names the id."""
    refused = kafka_error(error_code, message)
    text = _TRANSACTION_TEXTS.get(refused.code)
    return refused if text is None else KafkaError(refused.code, text.format(transactional_id))


def require_version(connection: Connection, api: ApiKey, lowest: int) -> None:
    """UnsupportedRequest if the broker has older versions only."""
    offered = connection.version(api)
    if offered < lowest:
        raise UnsupportedRequest(
            f"{connection.address} offers {api.name} up to version {offered}, and {lowest} is"
            " needed; use a newer broker"
        )
