"""aiokafka: its admin client, which uses old versions of many requests."""

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import OffsetOutOfRangeError

from support.client_libraries.aiokafka_library import AioKafka, run
from support.client_libraries.client_library import BrokerError, Row

UNKNOWN_TOPIC_OR_PARTITION = 3
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37


def test_topics_are_created_described_and_deleted(aiokafka: AioKafka, topic) -> None:
    async def create_and_delete() -> None:
        async with aiokafka.admin() as admin:
            created = await admin.create_topics([NewTopic(topic, 3, 1)])
            assert [(each[0], each[1]) for each in created.topic_errors] == [(topic, 0)]
            again = await admin.create_topics([NewTopic(topic, 3, 1)])
            assert [(each[0], each[1]) for each in again.topic_errors] == [
                (topic, TOPIC_ALREADY_EXISTS)
            ]
            assert topic in await admin.list_topics()
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 3
            deleted = await admin.delete_topics([topic])
            assert deleted.topic_error_codes == [(topic, 0)]
            gone = await admin.delete_topics([topic])
            assert gone.topic_error_codes == [(topic, UNKNOWN_TOPIC_OR_PARTITION)]

    run(create_and_delete())


def test_partitions_are_added(aiokafka: AioKafka, create_topic, topic) -> None:
    create_topic(topic)

    async def add(count: int) -> None:
        async with aiokafka.admin() as admin:
            await admin.create_partitions({topic: NewPartitions(count)})

    run(add(3))
    with pytest.raises(BrokerError) as error:
        run(add(2))
    assert error.value.code == INVALID_PARTITIONS


def test_topic_configs_are_altered_as_a_whole(aiokafka: AioKafka, create_topic, topic) -> None:
    create_topic(topic, retention_ms="1000")

    async def alter() -> dict[str, str]:
        async with aiokafka.admin() as admin:
            change = ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.ms": "7000"})
            await admin.alter_configs([change])
            wanted = ConfigResource(ConfigResourceType.TOPIC, topic)
            (response,) = await admin.describe_configs([wanted])
            return {entry[0]: entry[1] for entry in response.resources[0][4]}

    configs = run(alter())
    assert configs["segment.ms"] == "7000"
    assert configs["retention.ms"] == "604800000"  # AlterConfigs resets the other configs


def test_records_are_deleted_up_to_an_offset(aiokafka: AioKafka, create_topic, topic) -> None:
    create_topic(topic)
    rows = [Row(b"%d" % number) for number in range(10)]
    aiokafka.produce(topic, rows)
    tp = TopicPartition(topic, 0)

    async def delete() -> dict[TopicPartition, int]:
        async with aiokafka.admin() as admin:
            return await admin.delete_records({tp: RecordsToDelete(3)})

    assert run(delete()) == {tp: 3}
    assert aiokafka.bounds(topic) == (3, 10)
    assert aiokafka.consume(topic, 7, offset=3) == rows[3:]


def test_an_offset_out_of_range_is_reported(aiokafka: AioKafka, create_topic, topic) -> None:
    create_topic(topic)
    tp = TopicPartition(topic, 0)

    async def read_beyond() -> None:
        async with aiokafka.consumer() as consumer:
            consumer.assign([tp])
            consumer.seek(tp, 1_000)
            with pytest.raises(OffsetOutOfRangeError):
                await consumer.getone(tp)

    run(read_beyond())


def test_the_cluster_is_described(aiokafka: AioKafka, broker) -> None:
    async def describe() -> dict:
        async with aiokafka.admin() as admin:
            return await admin.describe_cluster()

    cluster = run(describe())
    (node,) = cluster["brokers"]
    assert (node["host"], node["port"]) == (broker.host, broker.port)
    assert cluster["controller_id"] == node["node_id"]
