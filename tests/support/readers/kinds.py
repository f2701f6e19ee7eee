"""The kinds of members: a library and the way in which it shares."""

from typing import Any

from support.readers.journal import Tell
from support.readers.library_aio import AioMember
from support.readers.library_confluent import ConfluentMember
from support.readers.library_kafka_python import KafkaPythonMember
from support.readers.member import Member

KINDS: dict[str, tuple[type[Member], str]] = {
    "confluent-range": (ConfluentMember, "range"),
    "confluent-cooperative": (ConfluentMember, "cooperative"),
    "confluent-consumer": (ConfluentMember, "consumer"),
    "aiokafka-range": (AioMember, "range"),
    "kafka-python-range": (KafkaPythonMember, "range"),
    "kafka-python-cooperative": (KafkaPythonMember, "cooperative"),
}
COOPERATIVE = ("confluent-cooperative", "confluent-consumer", "kafka-python-cooperative")
"""Those in which members keep what they keep while others come and go."""


def make_member(
    kind: str, bootstrap: str, group: str, topic: str, name: str, tell: Tell, **more: Any
) -> Member:
    """Begins at once to join."""
    cls, protocol = KINDS[kind]
    member = cls(bootstrap, group, topic, name, tell, protocol, **more)  # type: ignore[call-arg]
    member.begin()
    return member
