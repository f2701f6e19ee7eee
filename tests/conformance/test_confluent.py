"""confluent-kafka: the admin client, delivery errors and offsets."""

from typing import Any

import pytest
from confluent_kafka import (
    IsolationLevel,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from sawlog.core.errors import ErrorCode
from sawlog.protocol.apis import ApiKey
from support.client.producing_broker import answering, batches
from support.client.scripted_broker import ScriptedBroker
from support.client_libraries.client_library import GUARD_S, BrokerError, Row
from support.client_libraries.confluent_library import Confluent

UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC = 17
INVALID_REQUIRED_ACKS = 21
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_CONFIG = 40
OFFSET_OUT_OF_RANGE = 1
AUTO_OFFSET_RESET = -140
LOCAL_UNKNOWN_PARTITION = -190


@pytest.fixture(scope="module")
def admin(confluent: Confluent):
    return confluent.admin()


def code_of(error: pytest.ExceptionInfo[KafkaException]) -> int:
    return error.value.args[0].code()


def test_topics_are_created_described_and_deleted(admin, topic) -> None:
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(GUARD_S)
    (future,) = admin.describe_topics(TopicCollection([topic])).values()
    described = future.result(GUARD_S)
    assert described.name == topic
    assert not described.is_internal
    assert [partition.id for partition in described.partitions] == [0, 1, 2]
    for partition in described.partitions:
        assert [node.id for node in partition.isr] == [node.id for node in partition.replicas]
    assert topic in admin.list_topics(timeout=GUARD_S).topics
    admin.delete_topics([topic])[topic].result(GUARD_S)
    with pytest.raises(KafkaException) as error:
        admin.delete_topics([topic])[topic].result(GUARD_S)
    assert code_of(error) == UNKNOWN_TOPIC_OR_PARTITION


def test_the_cluster_is_described(admin, broker) -> None:
    cluster = admin.describe_cluster().result(GUARD_S)
    assert cluster.cluster_id
    assert [(node.host, node.port) for node in cluster.nodes] == [(broker.host, broker.port)]
    assert cluster.controller.id == cluster.nodes[0].id


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (NewTopic("not a name!", 1, 1), INVALID_TOPIC),
        (NewTopic("..", 1, 1), INVALID_TOPIC),
        (NewTopic("x" * 250, 1, 1), INVALID_TOPIC),
        (NewTopic("no-partitions", 0, 1), INVALID_PARTITIONS),
        (NewTopic("too-many-replicas", 1, 3), INVALID_REPLICATION_FACTOR),
        (NewTopic("unknown-key", 1, 1, config={"no.such.key": "1"}), INVALID_CONFIG),
        (NewTopic("wrong-value", 1, 1, config={"retention.ms": "soon"}), INVALID_CONFIG),
    ],
    ids=lambda each: getattr(each, "topic", None),
)
def test_invalid_topics_are_refused(admin, wanted: NewTopic, code: int) -> None:
    with pytest.raises(KafkaException) as error:
        admin.create_topics([wanted])[wanted.topic].result(GUARD_S)
    assert code_of(error) == code


def test_an_existing_topic_is_not_created_again(admin, create_topic, topic) -> None:
    create_topic(topic)
    with pytest.raises(KafkaException) as error:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(GUARD_S)
    assert code_of(error) == TOPIC_ALREADY_EXISTS


def test_validate_only_creates_no_topic(admin, topic) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True)[topic].result(GUARD_S)
    assert topic not in admin.list_topics(timeout=GUARD_S).topics


def test_deleting_an_unknown_topic_is_refused(admin, topic) -> None:
    with pytest.raises(KafkaException) as error:
        admin.delete_topics([topic])[topic].result(GUARD_S)
    assert code_of(error) == UNKNOWN_TOPIC_OR_PARTITION


def test_the_name_of_a_deleted_topic_can_be_reused(admin, confluent, create_topic, topic) -> None:
    create_topic(topic)
    confluent.produce(topic, [Row(b"old")])
    admin.delete_topics([topic])[topic].result(GUARD_S)
    create_topic(topic)
    confluent.produce(topic, [Row(b"new")])
    assert confluent.consume(topic, 1) == [Row(b"new")]


def test_partitions_are_added_and_never_removed(admin, confluent, create_topic, topic) -> None:
    create_topic(topic, 2)
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(GUARD_S)
    assert len(admin.list_topics(topic, timeout=GUARD_S).topics[topic].partitions) == 5
    confluent.produce(topic, [Row(b"last", partition=4)])
    assert confluent.consume(topic, 1, partition=4) == [Row(b"last", partition=4)]
    with pytest.raises(KafkaException) as error:
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(GUARD_S)
    assert code_of(error) == INVALID_PARTITIONS


def describe(admin, topic: str):
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return admin.describe_configs([resource])[resource].result(GUARD_S)


def test_topic_configs_are_described_with_their_sources(admin, create_topic, topic) -> None:
    create_topic(topic, retention_ms="12345")
    configs = describe(admin, topic)
    assert configs["retention.ms"].value == "12345"
    assert not configs["retention.ms"].is_default
    assert configs["cleanup.policy"].value == "delete"
    assert configs["cleanup.policy"].is_default
    assert configs["segment.bytes"].value == str(1 << 30)


def test_topic_configs_are_altered_one_by_one(admin, create_topic, topic) -> None:
    create_topic(topic, retention_ms="1", segment_ms="2000")
    changes = [
        ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("segment.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    admin.incremental_alter_configs([resource])[resource].result(GUARD_S)
    configs = describe(admin, topic)
    assert configs["retention.ms"].value == "5000"
    assert configs["segment.ms"].is_default
    assert configs["cleanup.policy"].value == "delete,compact"


def test_an_invalid_config_is_refused_and_nothing_changes(admin, create_topic, topic) -> None:
    create_topic(topic, retention_ms="1000")
    change = ConfigEntry("retention.ms", "x", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    with pytest.raises(KafkaException) as error:
        admin.incremental_alter_configs([resource])[resource].result(GUARD_S)
    assert code_of(error) == INVALID_CONFIG
    assert describe(admin, topic)["retention.ms"].value == "1000"


def test_broker_configs_are_described(admin, broker) -> None:
    node = admin.describe_cluster().result(GUARD_S).nodes[0].id
    resource = ConfigResource(ResourceType.BROKER, str(node))
    configs = admin.describe_configs([resource])[resource].result(GUARD_S)
    assert configs["node.id"].value == str(node)
    assert configs["num.partitions"].value == "1"


def test_offsets_are_listed(admin, confluent, create_topic, topic) -> None:
    create_topic(topic)
    times = [5_000, 9_000, 7_000]
    confluent.produce(topic, [Row(b"x", timestamp_ms=time) for time in times])
    tp = TopicPartition(topic, 0)

    def offset_of(spec: OffsetSpec, **options) -> int:
        return admin.list_offsets({tp: spec}, **options)[tp].result(GUARD_S).offset

    assert offset_of(OffsetSpec.earliest()) == 0
    assert offset_of(OffsetSpec.latest()) == 3
    assert offset_of(OffsetSpec.latest(), isolation_level=IsolationLevel.READ_COMMITTED) == 3
    assert offset_of(OffsetSpec.max_timestamp()) == 1
    assert offset_of(OffsetSpec.for_timestamp(6_000)) == 1


def test_records_are_deleted_up_to_an_offset(admin, confluent, create_topic, topic) -> None:
    create_topic(topic)
    rows = [Row(b"%d" % number) for number in range(10)]
    confluent.produce(topic, rows)
    tp = TopicPartition(topic, 0, 4)
    assert admin.delete_records([tp])[tp].result(GUARD_S).low_watermark == 4
    assert confluent.bounds(topic) == (4, 10)
    assert confluent.consume(topic, 6, offset=4) == rows[4:]
    with pytest.raises(BrokerError) as error:
        confluent.consume(topic, 1, offset=2)
    assert error.value.code == AUTO_OFFSET_RESET
    beyond = TopicPartition(topic, 0, 11)
    with pytest.raises(KafkaException) as too_far:
        admin.delete_records([beyond])[beyond].result(GUARD_S)
    assert code_of(too_far) == OFFSET_OUT_OF_RANGE


def test_producing_to_an_unknown_partition_fails(confluent, create_topic, topic) -> None:
    create_topic(topic)
    with pytest.raises((BrokerError, KafkaException)) as error:
        confluent.produce(topic, [Row(b"x", partition=5)])
    code = getattr(error.value, "code", None) or error.value.args[0].code()
    assert code == LOCAL_UNKNOWN_PARTITION


def test_log_append_time_replaces_the_create_time(confluent, create_topic, topic):
    create_topic(topic, message_timestamp_type="LogAppendTime")
    confluent.produce(topic, [Row(b"x", timestamp_ms=1_000)], codec="lz4")
    (row,) = confluent.consume(topic, 1)
    assert row.timestamp_ms > 1_000_000


def test_invalid_acks_are_refused(confluent, create_topic, topic) -> None:
    create_topic(topic)
    with pytest.raises(BrokerError) as error:
        confluent.produce(topic, [Row(b"x")], acks="2")
    assert error.value.code == INVALID_REQUIRED_ACKS
    assert confluent.bounds(topic) == (0, 0)


def test_watermarks_of_an_unknown_topic_fail_without_creating_it(confluent, admin, topic) -> None:
    tp = TopicPartition(topic, 0)
    with confluent.consumer() as consumer, pytest.raises(KafkaException) as error:
        consumer.get_watermark_offsets(tp, timeout=GUARD_S)
    assert code_of(error) in (UNKNOWN_TOPIC_OR_PARTITION, LOCAL_UNKNOWN_PARTITION)
    assert topic not in admin.list_topics(timeout=GUARD_S).topics


@pytest.mark.parametrize(
    ("code", "attempts"),
    [(ErrorCode.NOT_LEADER_OR_FOLLOWER, 2), (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 1)],
)
def test_librdkafka_without_retries_resends_what_a_deposed_leader_may_have_appended(
    code: ErrorCode, attempts: int
) -> None:
    """Kafka and Sawlog answer a waiting acks=all request with NOT_LEADER_OR_FOLLOWER when its
    leader epoch ends, after the append. librdkafka takes that for "not appended" and does not
    count the next attempt as a retry: without idempotence, the value can be in the log twice."""
    errors: list[Any] = []
    with ScriptedBroker(logs=1) as broker:
        broker.offers[ApiKey.PRODUCE] = (3, 9)  # versions with topic names
        broker.reply(ApiKey.PRODUCE, answering(code))
        broker.always_reply(ApiKey.PRODUCE, answering())
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": False,
                "message.send.max.retries": 0,
                "log_level": 0,
            }
        )
        producer.produce("logs", b"once", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(GUARD_S) == 0
        sent = [values for _, _, values in batches(broker)]
    assert sent == [[b"once"]] * attempts
    assert [error.code() if error else 0 for error in errors] == ([0] if attempts > 1 else [code])
