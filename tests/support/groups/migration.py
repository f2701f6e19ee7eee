"""Classic groups and consumer groups for tests of the way between them."""

from collections.abc import Mapping

from sawlog.cluster.metadata_image import MetadataImage, PartitionImage, TopicImage
from sawlog.core.ids import LeaderEpoch, NodeId, TopicId, TopicName
from sawlog.groups.classic.classic_group import ClassicGroup
from sawlog.groups.classic.classic_member import CONSUMER_PROTOCOL, Member, Protocol
from sawlog.groups.classic.classic_states import STABLE
from sawlog.groups.migration.subscription_codec import write_assignment
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
    """Topics with so many partitions."""
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
    """What a consumer says in JoinGroup."""
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
    """What a consumer is told in SyncGroup."""
    return write_assignment(by_id(shares), version, known)


def classic_group(
    known: MetadataImage, members: Mapping[str, Shares], *, generation: int = 7
) -> ClassicGroup:
    """A stable group whose members subscribe to `t` and were assigned these."""
    group = ClassicGroup("g", 1_000)
    group.generation = generation
    group.protocol = ASSIGNORS[0]
    metadata = subscription("t")
    for name, shares in members.items():
        protocols = tuple(Protocol(assignor, metadata) for assignor in ASSIGNORS)
        told = assignment(shares, known)
        member = Member(name, None, f"client-{name}", "/127.0.0.1", 60_000, 10_000, protocols, told)
        group.add(member, CONSUMER_PROTOCOL)
    group.state = STABLE
    return group
