"""A broker's image is immutable and versioned."""

from typing import Any

import pytest

from sawlog.cluster.metadata_image import ALL_BROKERS, EMPTY_IMAGE, MetadataImage
from support.cluster.cluster import Cluster
from support.cluster.member import TIMEOUT_MS, SingleBroker


def changed_broker() -> SingleBroker:
    broker = SingleBroker()
    assert broker.create("t", 2, configs={"retention.ms": "60000"}) is None
    configs = {"log.retention.ms": "60000"}
    alter = broker.resource_configs.alter
    changed = broker.settle(lambda done: alter(ALL_BROKERS, lambda _: configs, TIMEOUT_MS, done))
    assert changed is None
    return broker


def test_the_version_grows_with_every_change() -> None:
    broker = changed_broker()
    versions = [image.version for image in broker.images]
    assert len(versions) >= 3
    assert versions == list(range(EMPTY_IMAGE.version + 1, len(versions) + 1))
    assert broker.delete("t") is None
    assert broker.image.version > versions[-1]


def test_the_version_grows_when_a_broker_stops_leading() -> None:
    image = changed_broker().image
    after = image.without_leader(next(iter(image.brokers)))
    assert after.version == image.version + 1


def test_images_of_two_brokers_are_equal_whatever_changes_they_saw() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", [0, 1])
    cluster.boot(2)
    assert cluster.settle()
    first, last = (cluster.members[node].image for node in (0, 2))
    assert first == last
    assert first.version > last.version, "the last broker has seen one image"


def mappings(image: MetadataImage) -> dict[str, Any]:
    (topic,) = image.topics.values()
    return {
        "brokers": image.brokers,
        "topics": image.topics,
        "names": image.names,
        "configs": image.configs,
        "configs of brokers": image.configs_of(ALL_BROKERS),
        "configs of a topic": topic.configs,
    }


def test_no_mapping_of_an_image_can_be_changed() -> None:
    for name, mapping in mappings(changed_broker().image).items():
        assert mapping, name
        key = next(iter(mapping))
        with pytest.raises(TypeError, match="item deletion"):
            del mapping[key]
        with pytest.raises(TypeError, match="item assignment"):
            mapping[key] = mapping[key]


def test_an_image_stays_as_it_was_when_the_cluster_changes() -> None:
    broker = changed_broker()
    before = broker.image
    names, topics = [*before.names.values()], dict(before.topics)
    assert broker.create("u") is None
    assert broker.delete("t") is None
    assert ([*before.names.values()], dict(before.topics)) == (names, topics)
