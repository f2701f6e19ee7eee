"""The metadata hash equals Kafka's: the numbers below are from Kafka 4.3.0."""

from sawlog.cluster.metadata_image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from sawlog.core.ids import LeaderEpoch, NodeId, TopicId, TopicName
from sawlog.groups.consumer.metadata_hash import MetadataHashes


def topic(name: str, number: int, size: int, *nodes: int) -> TopicImage:
    replicas = tuple(map(NodeId, nodes))
    partition = PartitionImage(NodeId(1), LeaderEpoch(0), replicas, replicas, 0)
    return TopicImage(TopicName(name), TopicId(number.to_bytes(16, "big")), (partition,) * size)


def image(*topics: TopicImage, **racks: str | None) -> MetadataImage:
    brokers = {}
    for index, rack in enumerate(racks.values(), 1):
        brokers[NodeId(index)] = BrokerImage(NodeId(index), "h", 9092, rack, index)
    return MetadataImage(brokers=brokers, topics={one.name: one for one in topics})


T = topic("t", (1 << 64) + 2, 3, 1, 2)
U = topic("tópic", (0x0102030405060708 << 64) + ((1 << 64) - 2), 1, 2)
RACKS = {"first": "b\U0001f600", "second": "a"}


def test_the_hash_is_that_of_kafka() -> None:
    bare = image(T, U, first=None, second=None)
    assert MetadataHashes().of(["t"], bare) == -7127032519566717298
    assert MetadataHashes().of(["tópic"], bare) == 6143030321094321882
    assert MetadataHashes().of(["tópic", "t"], bare) == 6371304120156948911


def test_racks_change_the_hash() -> None:
    racked = image(T, U, **RACKS)
    assert MetadataHashes().of(["t"], racked) == -1402181514985243976
    assert MetadataHashes().of(["tópic"], racked) == -5698343918024164014
    assert MetadataHashes().of(["t", "tópic"], racked) == -2905652511813654822


def test_missing_topics_do_not_change_the_hash() -> None:
    hashes = MetadataHashes()
    assert hashes.of([], image(T)) == 0
    assert hashes.of(["x"], image(T)) == 0
    assert hashes.of(["x", "t"], image(T)) == hashes.of(["t"], image(T)) != 0


def test_a_topic_that_is_extended_or_recreated_has_another_hash() -> None:
    hashes = MetadataHashes()
    found = {
        hashes.of(["t"], image(one))
        for one in (T, topic("t", (1 << 64) + 2, 4, 1, 2), topic("t", 5, 3, 1, 2))
    }
    assert len(found) == 3


def test_a_broker_that_is_down_keeps_its_rack() -> None:
    hashes = MetadataHashes()
    before = hashes.of(["t"], image(T, **RACKS))
    assert hashes.of(["t"], image(T, first=RACKS["first"])) == before
    assert hashes.of(["t"], image(T, first=RACKS["first"], second="c")) != before
