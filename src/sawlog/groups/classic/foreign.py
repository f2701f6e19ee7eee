"""Requests of the classic protocol to a group of another: the one place where they end.

A group that members of both protocols are in, while they roll from one to the other (KIP-848), has
to answer them itself. Here they hear what Kafka tells where that is not allowed.
"""

# ruff: noqa: ARG001 - all that an answer will need

from typing import TYPE_CHECKING

from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.classic.answers import join_error

if TYPE_CHECKING:
    from sawlog.groups.classic.group import Respond
    from sawlog.groups.group import Group
    from sawlog.groups.shard import GroupShard
    from sawlog.groups.world import Caller
    from sawlog.protocol.messages.heartbeat_request import HeartbeatRequest
    from sawlog.protocol.messages.join_group_request import JoinGroupRequest
    from sawlog.protocol.messages.leave_group_request import LeaveGroupRequest
    from sawlog.protocol.messages.sync_group_request import SyncGroupRequest


def join(
    shard: "GroupShard",
    group: "Group",
    caller: "Caller",
    message: "JoinGroupRequest",
    respond: "Respond",
) -> Plan:
    """Never called for an empty group: that one becomes a classic group."""
    return Plan(join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))


def sync(
    shard: "GroupShard",
    group: "Group",
    caller: "Caller",
    message: "SyncGroupRequest",
    respond: "Respond",
) -> Plan:
    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)


def heartbeat(
    shard: "GroupShard", group: "Group", caller: "Caller", message: "HeartbeatRequest"
) -> Plan:
    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)


def leave(
    shard: "GroupShard", group: "Group", caller: "Caller", message: "LeaveGroupRequest"
) -> Plan:
    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
