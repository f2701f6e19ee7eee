"""The kinds of members: a library and the way in which it shares."""

from importlib import import_module
from typing import Any

from support.readers.journal import Tell
from support.readers.member import Member

KINDS = {
    "confluent-range": ("library_confluent", "ConfluentMember"),
    "confluent-cooperative": ("library_confluent", "ConfluentMember"),
    "confluent-consumer": ("library_confluent", "ConfluentMember"),
    "aiokafka-range": ("library_aio", "AioMember"),
    "kafka-python-range": ("library_kafka_python", "KafkaPythonMember"),
    "kafka-python-cooperative": ("library_kafka_python", "KafkaPythonMember"),
    "sawlog-range": ("library_sawlog", "SawlogMember"),
    "sawlog-cooperative": ("library_sawlog", "SawlogMember"),
    "sawlog-consumer": ("library_sawlog", "SawlogMember"),
}
COOPERATIVE = (
    "confluent-cooperative",
    "confluent-consumer",
    "kafka-python-cooperative",
    "sawlog-cooperative",
    "sawlog-consumer",
)
"""Those in which members keep what they keep while others come and go."""


def make_member(
    kind: str, bootstrap: str, group: str, topic: str, name: str, tell: Tell, **more: Any
) -> Member:
    """Begins at once to join. A library is loaded when it is first used."""
    module, cls = KINDS[kind]
    protocol = kind.rpartition("-")[2]
    library = import_module(f"support.readers.{module}")
    member: Member = getattr(library, cls)(bootstrap, group, topic, name, tell, protocol, **more)
    member.begin()
    return member
