"""A producer and a broker that refuses batches, does not respond or moves leaders."""

from typing import Any

import pytest

from sawlog.client.errors import ClientError, ConnectionLost
from sawlog.client.net.cluster import Cluster, NoSuchTopic
from sawlog.client.producer.delivery import DeliveryFailed
from sawlog.client.producer.partitioner import partition_for_key
from sawlog.client.producer.producer import Producer
from sawlog.client.producer.sequence_numbers import SequenceNumbers, init_producer_id
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
)
from support.client.producing_broker import answering, batches, broker_with
from support.client.scripted_broker import Act, ScriptedBroker

PARTITION = TopicPartition(TopicName("logs"), PartitionIndex(0))


def sequences(broker: ScriptedBroker) -> list[tuple[int, int]]:
    return [(header.producer_id, header.base_sequence) for _, header, _ in batches(broker)]


def test_records_of_a_batch_get_their_offsets() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        producer = Producer(cluster, linger_ms=10_000)
        deliveries = [producer.send("logs", value) for value in (b"a", b"b", None)]
        producer.flush()
        assert [values for _, _, values in batches(broker)] == [[b"a", b"b", None]]
        assert [delivery.result().offset for delivery in deliveries] == [100, 101, 102]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"key": "anna"}, "a key must be bytes, not str"),
        ({"headers": {"a": b"b"}}, "headers must be pairs .* not a dict"),
        ({"headers": [("a",)]}, "a header must be a pair"),
        ({"headers": [("a", "b")]}, "a header's value must be bytes, not str"),
        ({"headers": [(b"a", b"b")]}, "a header's name must be a string, not bytes"),
        ({"headers": [("\ud800", b"b")]}, "surrogates not allowed"),
        ({"timestamp_ms": "1"}, "timestamp_ms must be an integer, not str"),
        ({"timestamp_ms": 1 << 63}, "must be milliseconds since 1970, not 9223372036854775808"),
        ({"timestamp_ms": -2}, "must be milliseconds since 1970, not -2"),
    ],
)
def test_an_invalid_record_is_refused_and_others_are_sent(wrong: dict[str, Any], text: str) -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        with Producer(cluster, linger_ms=10_000) as producer:
            for _ in range(2):  # as the first record of a batch, and within one
                with pytest.raises((TypeError, ValueError), match=text):
                    producer.send("logs", b"x", partition=0, **wrong)
                producer.send("logs", b"y", partition=0)
        assert [values for _, _, values in batches(broker)] == [[b"y", b"y"]]


def test_a_full_batch_is_sent_without_a_flush() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        producer = Producer(cluster, linger_ms=10_000, batch_bytes=1_000)
        deliveries = [producer.send("logs", bytes(300)) for _ in range(5)]
        assert deliveries[0].result().offset == 100
        producer.flush()
        assert sum(len(values) for _, _, values in batches(broker)) == 5
        assert all(header.size <= 1_000 for _, header, _ in batches(broker))


def test_a_record_larger_than_a_batch_is_sent_alone() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        with Producer(cluster, batch_bytes=100) as producer:
            producer.send("logs", bytes(1_000))
            producer.send("logs", b"x")
        assert [len(values) for _, _, values in batches(broker)] == [1, 1]


def test_waiting_for_one_record_sends_it() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        producer = Producer(cluster, linger_ms=10_000)
        delivery = producer.send("logs", b"a")
        assert delivery.result().offset == 100
        assert delivery.is_done


def test_keys_choose_partitions_as_the_java_client() -> None:
    with broker_with(logs=5) as broker, Cluster(broker.bootstrap) as cluster:
        with Producer(cluster) as producer:
            delivered = {key: producer.send("logs", b"", key) for key in (b"a", b"b", b"")}
        for key, delivery in delivered.items():
            assert delivery.result().partition.partition == partition_for_key(key, 5)


def test_a_chosen_partition_must_exist() -> None:
    with broker_with(logs=2) as broker, Cluster(broker.bootstrap) as cluster:
        producer = Producer(cluster)
        assert producer.send("logs", b"", b"key", partition=1).result().partition.partition == 1
        with pytest.raises(NoSuchTopic, match="0 to 1, not 2"):
            producer.send("logs", b"", partition=2)


def test_a_batch_is_retried_at_the_new_leader() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        broker.reply(ApiKey.PRODUCE, answering(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        with Producer(cluster) as producer:
            producer.send("logs", b"a")
        assert sequences(broker) == [(1_000, 0), (1_000, 0)]
        assert len(broker.requests_for(ApiKey.METADATA)) == 2


@pytest.mark.parametrize("failure", [Act.CLOSE, Act.SILENCE])
def test_a_batch_without_a_response_keeps_its_sequence(failure: Act) -> None:
    with (
        broker_with(logs=1) as broker,
        Cluster(broker.bootstrap, request_timeout_ms=20) as cluster,
    ):
        broker.reply(ApiKey.PRODUCE, failure)
        with Producer(cluster) as producer:
            producer.send("logs", b"a").result()
            producer.send("logs", b"b")
        assert sequences(broker) == [(1_000, 0), (1_000, 0), (1_000, 1)]


def test_order_within_a_partition_holds_through_a_retry() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        broker.reply(ApiKey.PRODUCE, answering(ErrorCode.NOT_ENOUGH_REPLICAS))
        with Producer(cluster, batch_bytes=120, linger_ms=0) as producer:
            for number in range(6):
                producer.send("logs", b"%d" % number * 30)
        sent = [values[0] for _, _, values in batches(broker)]
        assert sent == [b"0" * 30, *(b"%d" % number * 30 for number in range(6))]


def test_a_fatal_error_fails_the_records_of_its_batch_only() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        producer = Producer(cluster)
        broker.reply(ApiKey.PRODUCE, answering(ErrorCode.MESSAGE_TOO_LARGE))
        lost = producer.send("logs", b"a")
        with pytest.raises(DeliveryFailed, match="1 records were not delivered"):
            producer.flush()
        with pytest.raises(KafkaError) as raised:
            lost.result()
        assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert producer.send("logs", b"b").result().offset == 100
        producer.flush()


def test_the_error_of_a_single_record_is_reported() -> None:
    reasons = [BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message="no key")]
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        refused = answering(ErrorCode.INVALID_RECORD, record_errors=reasons)
        broker.reply(ApiKey.PRODUCE, refused)
        with pytest.raises(KafkaError, match="no key"):
            Producer(cluster).send("logs", b"a").result()


def test_a_failed_batch_is_followed_by_a_new_producer_id() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        producer = Producer(cluster)
        broker.reply(ApiKey.PRODUCE, answering(), answering(ErrorCode.INVALID_RECORD))
        producer.send("logs", b"a").result()
        with pytest.raises(KafkaError):
            producer.send("logs", b"b").result()
        producer.send("logs", b"c").result()
        assert sequences(broker) == [(1_000, 0), (1_000, 1), (1_001, 0)]


def test_a_duplicate_sequence_is_a_delivery() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        broker.reply(ApiKey.PRODUCE, answering(ErrorCode.DUPLICATE_SEQUENCE_NUMBER))
        assert Producer(cluster).send("logs", b"a").result().offset == -1


def test_a_record_fails_after_the_delivery_timeout() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        broker.always_reply(ApiKey.PRODUCE, answering(ErrorCode.NOT_ENOUGH_REPLICAS))
        producer = Producer(cluster, delivery_timeout_ms=150)
        with pytest.raises(KafkaError, match="not delivered within 150 ms") as raised:
            producer.send("logs", b"a").result()
        assert raised.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_records_sent_without_a_broker_fail_after_their_delivery_timeout() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap, timeout_ms=200) as cluster:
        producer = Producer(cluster, delivery_timeout_ms=150)
        producer.send("logs", b"a").result()
        broker.stop_listening()
        broker.close_connections()
        for value in (b"b", b"c"):
            with pytest.raises(ClientError, match="not delivered within 150 ms"):
                producer.send("logs", value).result()


def test_a_producer_id_is_requested_again_with_the_retry_of_its_batch() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        broker.reply(ApiKey.INIT_PRODUCER_ID, Act.CLOSE)
        sequences = SequenceNumbers(lambda: init_producer_id(cluster))
        with pytest.raises(ConnectionLost):
            sequences.next(PARTITION)
        assert sequences.next(PARTITION) == (1_000, 0, 0)
        broker.reply(ApiKey.INIT_PRODUCER_ID, Act.CLOSE)
        assert Producer(cluster).send("logs", b"a").result().offset == 100


def test_a_topic_deleted_meanwhile_fails_its_records() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        producer = Producer(cluster, linger_ms=10_000)
        delivery = producer.send("logs", b"a")
        del broker.partition_counts["logs"]
        broker.reply(ApiKey.PRODUCE, answering(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        with pytest.raises(NoSuchTopic):
            delivery.result()


def test_acks_0_waits_for_nothing_and_uses_no_sequences() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        broker.always_reply(ApiKey.PRODUCE, Act.SILENCE)
        with Producer(cluster, acks=0) as producer:
            delivery = producer.send("logs", b"a")
        assert delivery.result().offset == -1
        assert not broker.requests_for(ApiKey.INIT_PRODUCER_ID)


@pytest.mark.parametrize("arguments", [{"acks": 2}, {"acks": 1, "idempotent": True}])
def test_contradictory_settings_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="acks"):
        Producer(Cluster("127.0.0.1:1"), **arguments)


def test_an_old_broker_gets_topic_names_instead_of_ids() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        broker.offers[ApiKey.METADATA] = (0, 9)
        assert Producer(cluster).send("logs", b"a").result().offset == 100
        api, version, request = broker.requests[-1]
        assert (api, version) == (ApiKey.PRODUCE, 12)
        assert request.topic_data[0].name == "logs"


def test_send_blocks_while_the_buffer_is_full() -> None:
    with broker_with(logs=3) as broker, Cluster(broker.bootstrap) as cluster:
        with Producer(cluster, buffer_bytes=2_000, linger_ms=10_000) as producer:
            for _ in range(50):
                producer.send("logs", bytes(500))
        assert len(broker.requests_for(ApiKey.PRODUCE)) > 5


def test_an_exception_in_the_with_block_closes_without_a_flush() -> None:
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:
        producer = Producer(cluster, linger_ms=10_000)
        producer.send("logs", b"a")
        producer.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
        assert not broker.requests_for(ApiKey.PRODUCE)


def test_added_partitions_are_used() -> None:
    now_s = 1_000.0
    with (
        broker_with(logs=1) as broker,
        Cluster(broker.bootstrap, monotonic_s=lambda: now_s) as cluster,
        Producer(cluster, linger_ms=0) as producer,
    ):
        producer.send("logs", b"before", key=b"k").result()
        broker.partition_counts["logs"] = 6
        assert producer.send("logs", b"by number", partition=4).result().partition.partition == 4
        broker.partition_counts["logs"] = 7
        now_s += 301
        keys = [b"%d" % number for number in range(20)]
        sent = [producer.send("logs", b"by key", key=key).result().partition for key in keys]
        assert [where.partition for where in sent] == [partition_for_key(key, 7) for key in keys]
