"""What members of a classic group tell each other through the coordinator: a version and a message.

A later version than ours is read as ours: fields are only ever added.
"""

from collections.abc import Iterable
from typing import TypeVar

from sawlog.client.consumer.membership.client_assignors import Subscriber
from sawlog.client.net.leader_requests import group_by_topic, partition_of
from sawlog.core.errors import ErrorCode, KafkaError, MalformedFrame
from sawlog.core.ids import TopicPartition
from sawlog.protocol.codec import decode, encode
from sawlog.protocol.messages import consumer_protocol_assignment as assigned
from sawlog.protocol.messages import consumer_protocol_subscription as subscribed
from sawlog.protocol.schema import Message

M = TypeVar("M", bound=Message)

PROTOCOL_TYPE = "consumer"
_VERSION = 3
_VERSION_BYTES = 2


def write_subscription(subscriber: Subscriber, rack: str | None) -> bytes:
    message = subscribed.ConsumerProtocolSubscription(
        topics=sorted(subscriber.topics),
        owned_partitions=[
            subscribed.TopicPartition(topic=topic, partitions=list(indexes))
            for topic, indexes in group_by_topic(subscriber.owned).items()
        ],
        generation_id=subscriber.generation,
        rack_id=rack,
    )
    return _write(message)


def read_subscription(data: bytes, instance_id: str | None) -> Subscriber:
    message = _read(subscribed.ConsumerProtocolSubscription, data)
    owned = frozenset(
        partition_of(topic.topic, index)
        for topic in message.owned_partitions
        for index in topic.partitions
    )
    return Subscriber(frozenset(message.topics), owned, message.generation_id, instance_id)


def write_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    message = assigned.ConsumerProtocolAssignment(
        assigned_partitions=[
            assigned.TopicPartition(topic=topic, partitions=list(indexes))
            for topic, indexes in group_by_topic(partitions).items()
        ]
    )
    return _write(message)


def read_assignment(data: bytes) -> frozenset[TopicPartition]:
    """Nothing at all is an empty one: the leader did not know of the member."""
    if not data:
        return frozenset()
    message = _read(assigned.ConsumerProtocolAssignment, data)
    return frozenset(
        partition_of(topic.topic, index)
        for topic in message.assigned_partitions
        for index in topic.partitions
    )


def _write(message: Message) -> bytes:
    return _VERSION.to_bytes(_VERSION_BYTES, "big") + encode(message, _VERSION)


def _read(message_class: type[M], data: bytes) -> M:
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    try:
        if len(data) < _VERSION_BYTES or version < 0:
            raise MalformedFrame(f"{len(data)} bytes of version {version}")
        return decode(message_class, min(version, _VERSION), data[_VERSION_BYTES:])
    except MalformedFrame as error:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"a member of the group sent what is no {message_class.__name__}: {error}",
        ) from error
