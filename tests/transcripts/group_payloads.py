"""Subscriptions and assignments of classic groups: opaque to the broker, decoded here."""

from typing import Any

from sawlog.core.errors import MalformedFrame
from sawlog.protocol.codec import decoder, encode
from sawlog.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from sawlog.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from sawlog.protocol.schema import Message

PAYLOADS: dict[str, type[Message]] = {
    "metadata": ConsumerProtocolSubscription,
    "member_metadata": ConsumerProtocolSubscription,
    "assignment": ConsumerProtocolAssignment,
    "member_assignment": ConsumerProtocolAssignment,
}
LAST_VERSION = 3
VERSION_BYTES = 2
LONGEST = 100


def payload(message: Message, version: int = 0) -> bytes:
    """Encode a subscription or an assignment, with its version in front."""
    return version.to_bytes(VERSION_BYTES, "big") + encode(message, version)


def plain_payload(name: str, data: bytes) -> Any:
    """Decode a payload if possible; else show it as text or hexadecimal digits."""
    version = int.from_bytes(data[:VERSION_BYTES], "big")
    if len(data) > VERSION_BYTES and version <= LAST_VERSION:
        try:
            message, end = decoder(PAYLOADS[name], version)(memoryview(data), VERSION_BYTES)
        except MalformedFrame:
            pass
        else:
            if end == len(data):
                return {"version": version, **_fields(message, version)}
    if len(data) > LONGEST:
        return f"<{len(data)} bytes>"
    return data.decode() if data.isascii() and data.decode().isprintable() else data.hex()


def _fields(message: Message, version: int) -> dict[str, Any]:
    if isinstance(message, ConsumerProtocolAssignment):
        return {"partitions": _partitions(message.assigned_partitions), **_user(message.user_data)}
    assert isinstance(message, ConsumerProtocolSubscription)
    found = {"topics": sorted(message.topics), **_user(message.user_data)}
    if version >= 1:
        found["owned"] = _partitions(message.owned_partitions)
    if version >= 2:
        found["generation"] = message.generation_id
    return found


def _user(data: bytes | None) -> dict[str, Any]:
    return {} if data is None else {"user_data": data.hex()}


def _partitions(topics: list[Any]) -> dict[str, list[int]]:
    return {each.topic: sorted(each.partitions) for each in sorted(topics, key=lambda t: t.topic)}
