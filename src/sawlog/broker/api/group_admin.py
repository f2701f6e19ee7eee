"""ListGroups 0 to 5 (states: KIP-518, types: KIP-848), DescribeGroups 0 to 6 and DeleteGroups 0 to
3 (KIP-229, 1331): the group APIs of admin clients. DeleteGroups gives no error message.

Each group is queried in the coordinator partition that holds it; the response is sent when all have
replied.
"""

from functools import partial
from typing import TYPE_CHECKING, Protocol

from sawlog.broker.gather_replies import gather
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.messages.delete_groups_response import (
    DeletableGroupResult,
    DeleteGroupsResponse,
)
from sawlog.protocol.messages.describe_groups_response import (
    DescribedGroup,
    DescribeGroupsResponse,
)
from sawlog.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sawlog.broker.gather_replies import Reply
    from sawlog.broker.group_coordinator import GroupCoordinator
    from sawlog.broker.request import Request
    from sawlog.coordinator.runtime import CoordinatorRuntime
    from sawlog.core.ports import Timer
    from sawlog.groups.group_machine import GroupMachine
    from sawlog.protocol.messages.consumer_group_describe_response import (
        DescribedGroup as DescribedConsumerGroup,
    )
    from sawlog.protocol.messages.delete_groups_request import DeleteGroupsRequest
    from sawlog.protocol.messages.describe_groups_request import DescribeGroupsRequest
    from sawlog.protocol.messages.list_groups_request import ListGroupsRequest

    class GroupAdminContext(Protocol):
        groups: GroupCoordinator
        timer: Timer


GROUP_OPERATIONS = sum(1 << code for code in (3, 6, 8, 10, 11))
"""All operations on a group: Read, Delete, Describe, DescribeConfigs, AlterConfigs."""


# ListGroups


def list_groups(
    context: "GroupAdminContext", request: "Request", message: "ListGroupsRequest"
) -> None:
    states = frozenset(state.lower().strip() for state in message.states_filter)
    types = frozenset(kind.lower() for kind in message.types_filter)

    def query(
        runtime: "CoordinatorRuntime[GroupMachine]",
        reply: "Reply[list[ListedGroup] | KafkaError]",
    ) -> None:
        runtime.run(lambda: runtime.machine.admin.list(states, types), reply, reply)

    def done(replies: list[list[ListedGroup] | KafkaError]) -> None:
        groups: list[ListedGroup] = []
        for listed in replies:
            if not isinstance(listed, KafkaError):
                groups += listed
            elif listed.code is not ErrorCode.NOT_COORDINATOR:
                request.reply(ListGroupsResponse(error_code=int(listed.code)))
                return
        request.reply(ListGroupsResponse(groups=groups))

    runtimes = context.groups.runtimes.values()
    gather([partial(query, runtime) for runtime in runtimes], done, context.timer)


# DescribeGroups


def describe_groups(
    context: "GroupAdminContext", request: "Request", message: "DescribeGroupsRequest"
) -> None:
    version = request.api_version

    def query(group_id: str, reply: "Reply[DescribedGroup]") -> None:
        def refuse(error: KafkaError) -> None:
            reply(DescribedGroup(group_id=group_id, error_code=int(error.code)))

        context.groups.ask(
            group_id, lambda groups: groups.admin.describe(group_id, version), reply, refuse
        )

    def done(groups: list[DescribedGroup]) -> None:
        if message.include_authorized_operations:
            allow_all(groups)
        request.reply(DescribeGroupsResponse(groups=groups))

    gather([partial(query, group_id) for group_id in message.groups], done, context.timer)


def allow_all(groups: "Iterable[DescribedGroup] | Iterable[DescribedConsumerGroup]") -> None:
    """Set the authorized operations of all groups that exist; there are no ACLs yet."""
    for group in groups:
        if group.error_code == 0:
            group.authorized_operations = GROUP_OPERATIONS


# DeleteGroups


def delete_groups(
    context: "GroupAdminContext", request: "Request", message: "DeleteGroupsRequest"
) -> None:
    def query(group_id: str, reply: "Reply[DeletableGroupResult]") -> None:
        def refuse(error: KafkaError) -> None:
            reply(DeletableGroupResult(group_id, int(error.code)))

        context.groups.ask(group_id, lambda groups: groups.admin.delete(group_id), reply, refuse)

    def done(results: list[DeletableGroupResult]) -> None:
        request.reply(DeleteGroupsResponse(results=results))

    group_ids = dict.fromkeys(message.groups_names)
    gather([partial(query, group_id) for group_id in group_ids], done, context.timer)
