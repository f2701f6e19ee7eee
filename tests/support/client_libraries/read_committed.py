"""Reading committed records with librdkafka."""

from confluent_kafka import Consumer, TopicPartition

from support.client_libraries.client_library import GUARD_S


def read_committed(bootstrap: str, topic: str) -> list[bytes]:
    """The values of partition 0 up to the last stable offset."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "isolation.level": "read_committed"}
    )
    try:
        partition = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=GUARD_S)
        consumer.assign([partition])
        values = []
        while consumer.position([partition])[0].offset < end:
            message = consumer.poll(1.0)
            if message is not None:
                assert message.error() is None, message.error()
                values.append(message.value())
        return values
    finally:
        consumer.close()
