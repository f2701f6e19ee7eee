"""Groups and consumer protocol messages for tests of the migration between the two protocols."""

from collections.abc import Mapping

from sawlog.cluster.metadata_image import MetadataImage, PartitionImage, TopicImage
from sawlog.core.ids import LeaderEpoch, NodeId, TopicId, TopicName
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_member import CONSUMER_PROTOCOL, ClassicMember, Protocol
from sawlog.groups.migration.member_assignments import write_assignment
from sawlog.protocol.codec import encoder
from sawlog.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)

Shares = Mapping[str, set[int]]

NODE = NodeId(1)
ASSIGNORS = ("cooperative-sticky", "range")


def topic_id(name: str) -> TopicId:
    return TopicId(name.encode().rjust(16, b"\0"))


def image(**counts: int) -> MetadataImage:
    """An image of topics with these partition counts."""
    partition = PartitionImage(NODE, LeaderEpoch(0), (NODE,), (NODE,), 0)
    topics = {
        TopicName(name): TopicImage(TopicName(name), topic_id(name), (partition,) * count)
        for name, count in counts.items()
    }
    return MetadataImage(topics=topics, names={topic.id: topic.name for topic in topics.values()})


def by_id(shares: Shares) -> dict[TopicId, frozenset[int]]:
    return {topic_id(name): frozenset(indexes) for name, indexes in shares.items()}


def subscription(
    *topics: str, owned: Shares | None = None, generation: int = -1, version: int = 3
) -> bytes:
    """The metadata of a consumer in JoinGroup."""
    message = ConsumerProtocolSubscription(
        list(topics),
        owned_partitions=[
            TopicPartition(name, sorted(indexes)) for name, indexes in (owned or {}).items()
        ],
        generation_id=generation,
    )
    body = encoder(ConsumerProtocolSubscription, version)(message)
    return version.to_bytes(2) + body


def assignment(shares: Shares, known: MetadataImage, version: int = 3) -> bytes:
    """The assignment of a consumer in SyncGroup."""
    return write_assignment(by_id(shares), version, known)


def classic_group(
    known: MetadataImage, members: Mapping[str, Shares], *, generation: int = 7
) -> ClassicGroup:
    """A stable group whose members subscribe to `t` and have these assignments."""
    protocols = tuple(Protocol(assignor, subscription("t")) for assignor in ASSIGNORS)
    return ClassicGroup.of_generation(
        "g",
        [
            ClassicMember(
                name,
                None,
                f"client-{name}",
                "/127.0.0.1",
                60_000,
                10_000,
                protocols,
                assignment(shares, known),
            )
            for name, shares in members.items()
        ],
        generation=generation,
        protocol_type=CONSUMER_PROTOCOL,
        protocol=ASSIGNORS[0],
        state_since_ms=1_000,
    )
