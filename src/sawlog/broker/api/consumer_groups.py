"""ConsumerGroupHeartbeat 0 to 1, ConsumerGroupDescribe 0 to 1: the consumer protocol (KIP-848).

From version 1 members choose their id (KIP-1082) and may subscribe with a regular expression.
"""

from functools import partial
from typing import TYPE_CHECKING, Protocol

from sawlog.broker.api.group_admin import allow_all
from sawlog.broker.api.group_membership import caller_of
from sawlog.broker.gather_replies import gather
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.groups.consumer.consumer_member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
)
from sawlog.groups.consumer.heartbeat_checks import UNCHANGED
from sawlog.protocol.messages.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from sawlog.protocol.messages.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from sawlog.broker.gather_replies import Reply
    from sawlog.broker.group_coordinator import GroupCoordinator
    from sawlog.broker.request import Request
    from sawlog.core.config import BrokerConfig
    from sawlog.core.config_dynamic import DynamicBrokerConfig
    from sawlog.core.ports import Timer
    from sawlog.protocol.messages.consumer_group_describe_request import (
        ConsumerGroupDescribeRequest,
    )
    from sawlog.protocol.messages.consumer_group_heartbeat_request import (
        ConsumerGroupHeartbeatRequest,
    )

    class ConsumerGroupContext(Protocol):
        config: DynamicBrokerConfig
        groups: GroupCoordinator
        timer: Timer


FIRST_VERSION_WITH_MEMBER_IDS = 1


def _is_enabled(config: "BrokerConfig") -> bool:
    return "consumer" in config["group.coordinator.rebalance.protocols"]


# ConsumerGroupHeartbeat


def consumer_group_heartbeat(
    context: "ConsumerGroupContext", request: "Request", message: "ConsumerGroupHeartbeatRequest"
) -> ConsumerGroupHeartbeatResponse | None:
    if not _is_enabled(context.config):
        return ConsumerGroupHeartbeatResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION))

    def refuse(error: KafkaError) -> None:
        request.reply(
            ConsumerGroupHeartbeatResponse(
                error_code=int(error.code), error_message=error.message or None
            )
        )

    try:
        check_heartbeat(message, request.api_version, context.config)
    except KafkaError as error:
        refuse(error)
        return None
    caller = caller_of(request)
    context.groups.ask(
        message.group_id,
        lambda groups: groups.consumer.heartbeat(caller, message),
        request.reply,
        refuse,
    )
    return None


def check_heartbeat(
    message: "ConsumerGroupHeartbeatRequest", api_version: int, config: "BrokerConfig"
) -> None:
    """Check everything that does not depend on the group, with Kafka's messages."""
    epoch = message.member_epoch
    needs_id = api_version >= FIRST_VERSION_WITH_MEMBER_IDS or epoch > 0 or epoch == LEAVING_EPOCH
    if needs_id and _is_blank(message.member_id):
        raise _invalid("MemberId can't be empty.")
    if _is_blank(message.group_id):
        raise _invalid("GroupId can't be empty.")
    if message.instance_id is not None and _is_blank(message.instance_id):
        raise _invalid("InstanceId can't be empty.")
    if message.rack_id is not None and _is_blank(message.rack_id):
        raise _invalid("RackId can't be empty.")
    if epoch == JOINING_EPOCH:
        _check_join(message)
    elif epoch == STATIC_LEAVING_EPOCH:
        if message.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVING_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    offered = config["group.consumer.assignors"]
    if message.server_assignor is not None and message.server_assignor not in offered:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {message.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(offered)}.",
        )


def _check_join(message: "ConsumerGroupHeartbeatRequest") -> None:
    if message.rebalance_timeout_ms == UNCHANGED:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if message.topic_partitions is None or message.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if message.subscribed_topic_names is None and message.subscribed_topic_regex is None:
        raise _invalid(
            "A member that joins must send SubscribedTopicNames or SubscribedTopicRegex."
        )


def _is_blank(text: str) -> bool:
    """Whether Java's String.trim() makes the text empty."""
    return all(character <= " " for character in text)


def _invalid(words: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, words)


# ConsumerGroupDescribe


def consumer_group_describe(
    context: "ConsumerGroupContext", request: "Request", message: "ConsumerGroupDescribeRequest"
) -> None:
    def query(group_id: str, reply: "Reply[DescribedGroup]") -> None:
        def refuse(error: KafkaError) -> None:
            reply(
                DescribedGroup(
                    group_id=group_id,
                    error_code=int(error.code),
                    error_message=error.message or None,
                )
            )

        if not _is_enabled(context.config):
            refuse(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
        elif not group_id:
            refuse(KafkaError(ErrorCode.INVALID_GROUP_ID))
        else:
            context.groups.ask(
                group_id, lambda groups: groups.consumer.describe(group_id), reply, refuse
            )

    def done(groups: list[DescribedGroup]) -> None:
        if message.include_authorized_operations:
            allow_all(groups)
        request.reply(ConsumerGroupDescribeResponse(groups=groups))

    gather([partial(query, group_id) for group_id in message.group_ids], done, context.timer)
