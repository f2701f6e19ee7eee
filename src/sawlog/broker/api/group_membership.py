"""JoinGroup 0 to 9, SyncGroup 0 to 5, Heartbeat 0 to 4 and LeaveGroup 0 to 5: the classic protocol.

JoinGroup requires a member id from version 4 (KIP-394) and has static members from version 5
(KIP-345), SyncGroup and Heartbeat from version 3. JoinGroup 9 can skip the assignment (KIP-814).
SyncGroup 5 names the protocol (KIP-559). LeaveGroup takes several members from version 3, with
reasons from version 5 (KIP-800).
"""

from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Protocol, TypeVar

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.classic.classic_responses import (
    RespondOnce,
    join_error,
    leave_response,
    sync_error,
)
from sawlog.groups.context import Caller
from sawlog.protocol.messages.heartbeat_response import HeartbeatResponse
from sawlog.protocol.messages.leave_group_request import MemberIdentity
from sawlog.protocol.messages.leave_group_response import LeaveGroupResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from sawlog.broker.group_coordinator import GroupCoordinator
    from sawlog.broker.request import Request
    from sawlog.coordinator.plan import Plan
    from sawlog.coordinator.runtime import Refuse
    from sawlog.core.config_dynamic import DynamicBrokerConfig
    from sawlog.groups.group_machine import GroupMachine
    from sawlog.protocol.messages.heartbeat_request import HeartbeatRequest
    from sawlog.protocol.messages.join_group_request import JoinGroupRequest
    from sawlog.protocol.messages.join_group_response import JoinGroupResponse
    from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest
    from sawlog.protocol.messages.sync_group_request import SyncGroupRequest

    class MembershipContext(Protocol):
        config: DynamicBrokerConfig
        groups: GroupCoordinator


R = TypeVar("R")

FIRST_JOIN_WITH_REBALANCE_TIMEOUT = 1
FIRST_JOIN_WITH_NULL_PROTOCOL = 7
FIRST_SYNC_WITH_PROTOCOL = 5
FIRST_LEAVE_OF_SEVERAL = 3


def join_group(
    context: "MembershipContext", request: "Request", message: "JoinGroupRequest"
) -> None:
    def reply(response: "JoinGroupResponse") -> None:
        if response.protocol_name is None and version < FIRST_JOIN_WITH_NULL_PROTOCOL:
            response.protocol_name = ""
        request.reply(response)

    version = request.api_version
    if version < FIRST_JOIN_WITH_REBALANCE_TIMEOUT:
        message.rebalance_timeout_ms = message.session_timeout_ms
    once = RespondOnce(reply)
    config = context.config
    min_ms, max_ms = (
        config["group.min.session.timeout.ms"],
        config["group.max.session.timeout.ms"],
    )
    if not message.group_id:
        once(join_error(ErrorCode.INVALID_GROUP_ID, message.member_id))
    elif not min_ms <= message.session_timeout_ms <= max_ms:
        once(join_error(ErrorCode.INVALID_SESSION_TIMEOUT, message.member_id))
    else:

        def refuse(error: KafkaError) -> None:
            once(join_error(error.code))

        caller = caller_of(request)
        context.groups.ask(
            message.group_id,
            lambda groups: groups.classic.join(caller, message, once),
            once,
            refuse,
        )


def sync_group(
    context: "MembershipContext", request: "Request", message: "SyncGroupRequest"
) -> None:
    once = RespondOnce(request.reply)

    def refuse(error: KafkaError) -> None:
        """Ask the member to join again while the coordinator loads, as Kafka did before 4.0: the
        rebalance is over, and clients stop at COORDINATOR_LOAD_IN_PROGRESS here."""
        is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        once(sync_error(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else error.code))

    if request.api_version >= FIRST_SYNC_WITH_PROTOCOL and (
        message.protocol_type is None or message.protocol_name is None
    ):
        refuse(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    caller = caller_of(request)
    _ask_named_group(
        context,
        message.group_id,
        lambda groups: groups.classic.sync(caller, message, once),
        once,
        refuse,
    )


def heartbeat(
    context: "MembershipContext", request: "Request", message: "HeartbeatRequest"
) -> None:
    def refuse(error: KafkaError) -> None:
        """As in Kafka, a heartbeat succeeds while the coordinator loads."""
        code = 0 if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else int(error.code)
        request.reply(HeartbeatResponse(error_code=code))

    caller = caller_of(request)
    _ask_named_group(
        context,
        message.group_id,
        lambda groups: groups.classic.heartbeat(caller, message),
        request.reply,
        refuse,
    )


def leave_group(
    context: "MembershipContext", request: "Request", message: "LeaveGroupRequest"
) -> None:
    has_one_member = request.api_version < FIRST_LEAVE_OF_SEVERAL
    if has_one_member:
        message.members = [MemberIdentity(message.member_id)]

    def reply(response: LeaveGroupResponse) -> None:
        if has_one_member and response.members:
            response = LeaveGroupResponse(error_code=response.members[0].error_code)
        request.reply(response)

    def refuse(error: KafkaError) -> None:
        """An unknown group is answered as unknown members."""
        if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
            members = [leave_response(identity, error.code) for identity in message.members]
            reply(LeaveGroupResponse(members=members))
        else:
            request.reply(LeaveGroupResponse(error_code=int(error.code)))

    caller = caller_of(request)
    _ask_named_group(
        context,
        message.group_id,
        lambda groups: groups.classic.leave(caller, message),
        reply,
        refuse,
    )


def _ask_named_group(
    context: "MembershipContext",
    group_id: str,
    operation: "Callable[[GroupMachine], Plan[R]]",
    answer: "Callable[[R], None]",
    refuse: "Refuse",
) -> None:
    if group_id:
        context.groups.ask(group_id, operation, answer, refuse)
    else:
        refuse(KafkaError(ErrorCode.INVALID_GROUP_ID))


def caller_of(request: "Request") -> Caller:
    """Return client id, host and version of a request; the host as Java prints an InetAddress."""
    host = _in_java(request.client.host)
    return Caller(request.client_id or "", f"/{host}", request.api_version)


def _in_java(host: str) -> str:
    """Format a host as Java does: all eight groups of an IPv6 address, mapped IPv4 as IPv4."""
    if ":" not in host:
        return host
    number, percent, zone = host.partition("%")
    address = IPv6Address(number)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    groups = (f"{int(group, 16):x}" for group in address.exploded.split(":"))
    return ":".join(groups) + percent + zone
