"""The client while its broker is killed and restarted: no loss, no duplicates, in order."""

from pathlib import Path

from sawlog.client.admin.admin import Admin, NewTopic
from sawlog.client.consumer.consumer import AT_EARLIEST, Consumer
from sawlog.client.consumer.fetched_records import ConsumedRecord
from sawlog.client.net.cluster import Cluster
from sawlog.client.producer.producer import Producer
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from support.server.broker_process import SawlogServer

ROUNDS = 3
A_ROUND = 2_000
POLL_MS = 20_000


def test_an_idempotent_producer_survives_a_killed_broker(tmp_path: Path) -> None:
    server = SawlogServer(tmp_path)
    try:
        with Cluster(server.bootstrap) as cluster:
            Admin(cluster).create_topics([NewTopic("logs", partitions=2)])
            with Producer(cluster, batch_bytes=2_000) as producer:
                for number in range(ROUNDS * A_ROUND):
                    producer.send("logs", b"%d" % number, partition=number % 2)
                    if number % A_ROUND == A_ROUND // 2:
                        server.kill()
                        server.start()
            for index in range(2):
                values = [int(record.value or b"") for record in read(cluster, index)]
                assert values == list(range(index, ROUNDS * A_ROUND, 2))
    finally:
        server.kill()


def test_a_consumer_survives_a_broker_restart(tmp_path: Path) -> None:
    server = SawlogServer(tmp_path)
    try:
        with Cluster(server.bootstrap) as cluster:
            Admin(cluster).create_topics([NewTopic("logs", partitions=1)])
            consumer = Consumer(cluster)
            consumer.assign_topic("logs", AT_EARLIEST)
            for round_number in range(ROUNDS):
                with Producer(cluster) as producer:
                    producer.send("logs", b"%d" % round_number)
                assert [r.value for r in consumer.poll(POLL_MS)] == [b"%d" % round_number]
                server.restart()
    finally:
        server.kill()


def read(cluster: Cluster, index: int) -> list[ConsumedRecord]:
    consumer = Consumer(cluster)
    consumer.assign({TopicPartition(TopicName("logs"), PartitionIndex(index)): AT_EARLIEST})
    records: list[ConsumedRecord] = []
    while len(records) < ROUNDS * A_ROUND // 2:
        polled = consumer.poll(POLL_MS)
        assert polled, f"no more after {len(records)} records"
        records += polled
    return records
