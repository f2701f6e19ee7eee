"""Finding the coordinators of groups, and asking each for its own until every group has an answer.

One that is loading, not chosen yet or no longer the coordinator is looked for and asked again
until the time is up.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
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

_GROUP = 0  # the type of the keys; 1 is for transactions
_FIRST_VERSION_WITH_KEYS = 4
_GROUPS_PER_REQUEST = 100  # groups in a request: no broker should be busy with one for long
_TEXTS = {
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no group {!r}; check the name",
    ErrorCode.NON_EMPTY_GROUP: "the group {!r} has members; stop them first, and wait until"
    " the sessions of killed and of static ones are over",
    ErrorCode.INVALID_GROUP_ID: "{!r} is no name for a group",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "no permission for the group {!r}",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the group {!r} had no coordinator as long as was waited",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator of the group {!r} is still loading;"
    " wait longer, or try again later",
    ErrorCode.NOT_COORDINATOR: "no broker owned to be the coordinator of the group {!r}",
}


class Coordinators:
    """Which broker keeps which group, as far as it was asked for and not proved wrong."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, Node] = {}

    def send(
        self,
        groups: Iterable[str],
        send: SendToCoordinator[Result],
        *,
        repeatable: bool = True,
        deadline: Deadline | None = None,
    ) -> tuple[dict[str, Result], ErrorsByName]:
        """What is told of each group, in their order, and what was refused, for good or too long.

        `ask` sends one request about groups of one coordinator. Where it is not `repeatable` and
        its answer got lost, ConnectionLost or NoAnswer says so.
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
        """To the coordinator of a group. One try; whoever sees it fail tells by `forget`."""
        for _, error in self._find([group]):
            raise error
        return self._cluster.connection(self._known[group].id, channel)

    def forget(self, group: str) -> None:
        """Where it was known to be proved wrong."""
        self._known.pop(group, None)

    def _find(self, groups: list[str]) -> Iterator[tuple[str, KafkaError]]:
        """Notes where each group is; which have no coordinator, and why."""
        unknown = [group for group in groups if group not in self._known]
        if not unknown:
            return
        self._cluster.fetch_metadata([])  # the live brokers by their ids
        connection = self._cluster.any_connection()
        require_version(connection, ApiKey.FIND_COORDINATOR, _FIRST_VERSION_WITH_KEYS)
        request = FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=unknown)
        for entry in connection.request(request, FindCoordinatorResponse).coordinators:
            if entry.error_code:
                yield entry.key, group_error(entry.key, entry.error_code, entry.error_message)
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
    """What was asked for may have happened, and must not happen twice."""

    def __init__(self, error: ConnectionLost | RequestTimedOut) -> None:
        super().__init__(str(error))
        self.error = error


def group_error(group: str, error_code: int, message: str | None) -> KafkaError:
    """What an answer says is wrong with a group, in words that name it."""
    refused = kafka_error(error_code, message)
    text = _TEXTS.get(refused.code)
    return refused if text is None else KafkaError(refused.code, text.format(group))


def require_version(connection: Connection, api: ApiKey, lowest: int) -> None:
    """NotServed where the broker knows older versions only."""
    offered = connection.version(api)
    if offered < lowest:
        raise UnsupportedRequest(
            f"{connection.address} offers {api.name} up to version {offered}, and {lowest} is"
            " needed; use a newer broker"
        )
