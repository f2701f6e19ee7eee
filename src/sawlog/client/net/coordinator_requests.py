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
    NoAnswer,
    NotServed,
    Refusals,
    refusal,
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
Told = Iterator[tuple[str, Result | KafkaError]]
Ask = Callable[[Connection, Node, list[str]], Told[Result]]

_GROUP = 0  # the type of the keys; 1 is for transactions
_FIRST_VERSION_WITH_KEYS = 4
_AT_ONCE = 100  # groups in a request: no broker should be busy with one for long
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

    def ask(
        self,
        groups: Iterable[str],
        ask: Ask[Result],
        *,
        repeatable: bool = True,
        deadline: Deadline | None = None,
    ) -> tuple[dict[str, Result], Refusals]:
        """What is told of each group, in their order, and what was refused, for good or too long.

        `ask` sends one request about groups of one coordinator. Where it is not `repeatable` and
        its answer got lost, ConnectionLost or NoAnswer says so.
        """
        wanted = list(dict.fromkeys(groups))
        done: dict[str, Result] = {}
        refused: Refusals = {}
        delayed: Refusals = {}

        def take(group: str, told: Result | KafkaError) -> None:
            delayed.pop(group, None)
            if not isinstance(told, KafkaError):
                done[group] = told
            elif told.is_retriable:
                delayed[group] = told
                self._known.pop(group, None)
            else:
                refused[group] = told

        def attempt() -> None:
            rest = [group for group in wanted if group not in done and group not in refused]
            for group, error in self._find(rest):
                take(group, error)
            for node, kept in self._by_node(rest).items():
                for group, told in self._ask_one(node, kept, ask, repeatable):
                    take(group, told)
            if delayed:
                raise next(iter(delayed.values()))

        try:
            self._cluster.retry(attempt, deadline=deadline)
        except _Lost as lost:
            raise lost.error from lost
        except KafkaError as error:
            for group in wanted:
                if group not in done and group not in refused:
                    refused[group] = delayed.get(group, error)
        return {group: done[group] for group in wanted if group in done}, refused

    def connection(self, group: str, lane: str = "") -> Connection:
        """To the coordinator of a group. One try; whoever sees it fail tells by `forget`."""
        for _, error in self._find([group]):
            raise error
        return self._cluster.connection(self._known[group].id, lane)

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
                yield entry.key, group_refusal(entry.key, entry.error_code, entry.error_message)
            else:
                address = Address(entry.host, entry.port)
                self._known[entry.key] = Node(NodeId(entry.node_id), address, None)

    def _by_node(self, groups: list[str]) -> dict[Node, list[str]]:
        by_node: dict[Node, list[str]] = defaultdict(list)
        for group in groups:
            if group in self._known:
                by_node[self._known[group]].append(group)
        return dict(sorted(by_node.items(), key=lambda item: item[0].id))

    def _ask_one(
        self, node: Node, groups: list[str], ask: Ask[Result], repeatable: bool
    ) -> Told[Result]:
        try:
            for first in range(0, len(groups), _AT_ONCE):
                connection = self._cluster.connection(node.id)
                yield from ask(connection, node, groups[first : first + _AT_ONCE])
        except (KafkaError, *UNANSWERED) as error:
            for group in groups:
                self._known.pop(group, None)
            if isinstance(error, ConnectionLost | NoAnswer) and not repeatable:
                raise _Lost(error) from error
            raise


class _Lost(Exception):
    """What was asked for may have happened, and must not happen twice."""

    def __init__(self, error: ConnectionLost | NoAnswer) -> None:
        super().__init__(str(error))
        self.error = error


def group_refusal(group: str, error_code: int, message: str | None) -> KafkaError:
    """What an answer says is wrong with a group, in words that name it."""
    refused = refusal(error_code, message)
    text = _TEXTS.get(refused.code)
    return refused if text is None else KafkaError(refused.code, text.format(group))


def require_version(connection: Connection, api: ApiKey, lowest: int) -> None:
    """NotServed where the broker knows older versions only."""
    offered = connection.version(api)
    if offered < lowest:
        raise NotServed(
            f"{connection.address} offers {api.name} up to version {offered}, and {lowest} is"
            " needed; use a newer broker"
        )
