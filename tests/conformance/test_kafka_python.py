"""kafka-python: its admin client, with requests that other libraries do not send."""

import uuid

import pytest
from kafka import TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import (
    InvalidPartitionsError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)

from support.client_libraries.client_library import Row
from support.client_libraries.kafka_python_library import KafkaPython


@pytest.fixture
def admin(kafka_python: KafkaPython):
    with kafka_python.admin() as admin:
        yield admin


def test_topics_are_created_described_and_deleted(admin, topic) -> None:
    admin.create_topics({topic: {"num_partitions": 2}}, wait_for_metadata=True)
    assert topic in admin.list_topics()
    (described,) = admin.describe_topics([topic])
    assert [each["partition_index"] for each in described["partitions"]] == [0, 1]
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([topic])
    admin.delete_topics([topic])
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_topics_are_described_and_deleted_by_id(admin, create_topic, topic) -> None:
    create_topic(topic)
    (by_name,) = admin.describe_topics([topic])
    topic_id = uuid.UUID(str(by_name["topic_id"]))
    (by_id,) = admin.describe_topics([topic_id])
    assert by_id["name"] == topic
    admin.delete_topics([topic_id])
    with pytest.raises(UnknownTopicIdError):
        admin.delete_topics([topic_id])


def test_partitions_are_described_in_pages(admin, create_topic, topic) -> None:
    create_topic(topic, 5)
    first = admin.describe_topic_partitions([topic], response_partition_limit=3)
    assert [each["partition_index"] for each in first["topics"][0]["partitions"]] == [0, 1, 2]
    assert first["next_cursor"] == {"topic_name": topic, "partition_index": 3}
    rest = admin.describe_topic_partitions([topic], cursor=first["next_cursor"])
    assert [each["partition_index"] for each in rest["topics"][0]["partitions"]] == [3, 4]
    assert rest["next_cursor"] is None


def test_the_cluster_is_described(admin, broker) -> None:
    cluster = admin.describe_cluster()
    (node,) = cluster["brokers"]
    assert (node["host"], node["port"]) == (broker.host, broker.port)
    assert cluster["controller_id"] == node["broker_id"]


def test_partitions_are_added(admin, create_topic, topic) -> None:
    create_topic(topic)
    admin.create_partitions({topic: 4})
    admin.wait_for_topics([topic])
    assert len(admin.describe_topics([topic])[0]["partitions"]) == 4
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 4})


@pytest.mark.parametrize("incremental", [True, False])
def test_topic_configs_are_altered(admin, create_topic, topic, incremental) -> None:
    create_topic(topic, retention_ms="1000")
    change = ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": "5000"})
    assert admin.alter_configs([change], incremental=incremental) == {"topic": {topic: "OK"}}
    wanted = ConfigResource(ConfigResourceType.TOPIC, topic)
    modified = admin.describe_configs([wanted], include_synonyms=True)["topic"][topic]
    values = {name: entry["value"] for name, entry in modified.items()}
    assert values == {"retention.ms": "1000", "max.message.bytes": "5000"}
    size = modified["max.message.bytes"]
    assert size["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    assert [(each["name"], each["source"]) for each in size["synonyms"]] == [
        ("max.message.bytes", "DYNAMIC_TOPIC_CONFIG"),
        ("message.max.bytes", "DEFAULT_CONFIG"),
    ]


def test_a_config_is_reset(admin, create_topic, topic) -> None:
    create_topic(topic, retention_ms="1000")
    reset = {"retention.ms": (AlterConfigOp.DELETE, None)}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, reset)])
    wanted = ConfigResource(ConfigResourceType.TOPIC, topic)
    assert admin.describe_configs([wanted]) == {"topic": {topic: {}}}


def test_offsets_are_listed(admin, kafka_python, create_topic, topic) -> None:
    create_topic(topic)
    kafka_python.produce(topic, [Row(b"x", timestamp_ms=time) for time in (5_000, 9_000, 7_000)])
    tp = TopicPartition(topic, 0)

    def offset_of(spec) -> int:
        return admin.list_partition_offsets({tp: spec})[tp].offset

    assert offset_of(OffsetSpec.EARLIEST) == 0
    assert offset_of(OffsetSpec.LATEST) == 3
    assert offset_of(OffsetSpec.MAX_TIMESTAMP) == 1
    assert offset_of(OffsetSpec.EARLIEST_LOCAL) == 0
    assert offset_of(8_000) == 1


def test_records_are_deleted_up_to_an_offset(admin, kafka_python, create_topic, topic) -> None:
    create_topic(topic)
    rows = [Row(b"%d" % number) for number in range(10)]
    kafka_python.produce(topic, rows)
    admin.delete_records({TopicPartition(topic, 0): 6})
    assert kafka_python.bounds(topic) == (6, 10)
    assert kafka_python.consume(topic, 4, offset=6) == rows[6:]
    tp = TopicPartition(topic, 0)
    with kafka_python.consumer() as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 2)
        with pytest.raises(OffsetOutOfRangeError):
            consumer.poll(30_000)
