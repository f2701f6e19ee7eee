"""A producer's background thread, its use by several threads, and callbacks."""

import gc
import logging
import threading
import weakref
from itertools import chain
from typing import Any

import pytest

from sawlog.client.errors import ClientError
from sawlog.client.net.cluster import Cluster
from sawlog.client.producer.delivery import Delivery, DeliveryFailed
from sawlog.client.producer.producer import Producer
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from sawlog.protocol.messages.produce_request import ProduceRequest
from sawlog.protocol.messages.produce_response import ProduceResponse
from support.client.producing_broker import answering, batches, broker_with
from support.client.scripted_broker import Act

GUARD_S = 30


def test_a_record_is_sent_without_another_call() -> None:
    with broker_with(logs=1) as broker, Producer(broker.bootstrap, linger_ms=20) as producer:
        delivered = threading.Event()
        delivery = producer.send("logs", b"a")
        delivery.add_done_callback(lambda _: delivered.set())
        assert delivered.wait(GUARD_S)
        assert delivery.is_done
        assert [values for _, _, values in batches(broker)] == [[b"a"]]


def test_the_background_thread_wakes_after_sleeping() -> None:
    """The thread sleeps after it had nothing to do for a while."""
    with broker_with(logs=1) as broker, Producer(broker.bootstrap, linger_ms=0) as producer:
        for number in range(3):
            delivered = threading.Event()
            producer.send("logs", b"%d" % number).add_done_callback(lambda _, e=delivered: e.set())
            assert delivered.wait(GUARD_S)
            with producer._lock:  # as if that time had passed
                producer._io_driver._last_busy_ms = 0.0


def test_a_batch_is_retried_without_another_call() -> None:
    with broker_with(logs=1) as broker, Producer(broker.bootstrap) as producer:
        broker.reply(ApiKey.PRODUCE, answering(ErrorCode.NOT_LEADER_OR_FOLLOWER), Act.CLOSE)
        delivered = threading.Event()
        producer.send("logs", b"a").add_done_callback(lambda _: delivered.set())
        assert delivered.wait(GUARD_S)
        assert len(broker.requests_for(ApiKey.PRODUCE)) == 3


def test_a_collected_producer_sends_its_records_and_ends() -> None:
    with broker_with(logs=1) as broker:
        producer = Producer(broker.bootstrap, linger_ms=50)
        delivered = threading.Event()
        producer.send("logs", b"a").add_done_callback(lambda _: delivered.set())
        thread, ended = producer._io_driver._thread, weakref.ref(producer)
        assert thread is not None
        del producer
        assert delivered.wait(GUARD_S)
        for _ in range(100):
            gc.collect()
            thread.join(0.1)
            if not thread.is_alive():
                break
        assert not thread.is_alive()
        assert ended() is None


def test_threads_share_one_producer() -> None:
    """Every record gets its own offset, in the order in which its thread sent it."""
    offsets = iter(range(1_000_000))
    with broker_with(logs=1) as broker, Cluster(broker.bootstrap) as cluster:

        def answer(request: object) -> object:
            response = answering()(request)  # type: ignore[arg-type]
            count = batches(broker)[-1][1].count
            response.responses[0].partition_responses[0].base_offset = next(offsets)
            for _ in range(count - 1):
                next(offsets)
            return response

        broker.always_reply(ApiKey.PRODUCE, answer)  # type: ignore[arg-type]
        found: dict[int, list[int]] = {}
        with Producer(cluster, batch_bytes=500, linger_ms=1) as producer:

            def send(thread: int) -> None:
                sent = [producer.send("logs", b"%d %d" % (thread, n)) for n in range(300)]
                if thread % 2:
                    producer.flush()
                found[thread] = [each.result().offset for each in sent]

            threads = [threading.Thread(target=send, args=(n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(GUARD_S)
        assert sorted(found) == [0, 1, 2, 3]
        assert all(each == sorted(each) for each in found.values())
        assert sorted(chain.from_iterable(found.values())) == list(range(1_200))


def test_waiting_for_a_new_topic_does_not_block_other_threads() -> None:
    with broker_with(logs=1) as broker, Producer(broker.bootstrap) as producer:
        asked, is_made = threading.Event(), threading.Event()

        def metadata(request: Any) -> MetadataResponse:
            if request.topics[0].name == "new" and not is_made.is_set():
                asked.set()
                topic = MetadataResponseTopic(error_code=ErrorCode.LEADER_NOT_AVAILABLE, name="new")
                return MetadataResponse(topics=[topic])
            return broker.metadata(request)

        broker.partition_counts["new"] = 1
        broker.always_reply(ApiKey.METADATA, metadata)
        offsets: list[int] = []
        waiter = threading.Thread(
            target=lambda: offsets.append(producer.send("new", b"a").result().offset)
        )
        waiter.start()
        assert asked.wait(GUARD_S)
        assert producer.send("logs", b"b").result().offset == 100
        is_made.set()
        waiter.join(GUARD_S)
        assert offsets == [100]


def test_a_flush_does_not_wait_for_records_sent_after_it() -> None:
    with broker_with(logs=1) as broker:
        producer = Producer(broker.bootstrap, linger_ms=10_000)
        later: list[Delivery] = []

        def answer(request: ProduceRequest) -> ProduceResponse:
            later.append(producer.send("logs", b"b"))
            return answering()(request)

        broker.reply(ApiKey.PRODUCE, answer)
        broker.always_reply(ApiKey.PRODUCE, Act.SILENCE)
        delivery = producer.send("logs", b"a")
        producer.flush(10_000)
        assert delivery.is_done
        assert not later[0].is_done
        producer.abandon()


def test_callbacks_run_in_order_and_before_flush_returns() -> None:
    with broker_with(logs=1) as broker, Producer(broker.bootstrap, batch_bytes=200) as producer:
        called: list[int] = []
        for number in range(100):
            delivery = producer.send("logs", b"x" * 20)
            delivery.add_done_callback(lambda _, n=number: called.append(n))
        producer.flush()
        assert called == list(range(100))


def test_a_callback_may_send_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    with broker_with(logs=1) as broker, Producer(broker.bootstrap, linger_ms=0) as producer:
        more: list[Delivery] = []

        def send_more(_: Delivery) -> None:
            more.append(producer.send("logs", b"b"))
            raise RuntimeError("of the caller")

        with caplog.at_level(logging.ERROR):
            producer.send("logs", b"a").add_done_callback(send_more)
            producer.flush()
        assert more[0].result().offset == 100
        assert "a callback of a delivery failed" in caplog.text


def test_a_callback_added_late_is_called_at_once() -> None:
    with broker_with(logs=1) as broker, Producer(broker.bootstrap) as producer:
        broker.reply(ApiKey.PRODUCE, answering(ErrorCode.MESSAGE_TOO_LARGE))
        delivery = producer.send("logs", b"a")
        with pytest.raises(KafkaError):
            delivery.result()
        errors: list[Exception | None] = []
        delivery.add_done_callback(lambda done: errors.append(done.error))
        assert [type(error) for error in errors] == [KafkaError]
        with pytest.raises(DeliveryFailed):
            producer.flush()


def test_result_times_out_and_the_record_is_still_delivered() -> None:
    with broker_with(logs=1) as broker, Producer(broker.bootstrap) as producer:
        broker.reply(ApiKey.PRODUCE, Act.SILENCE)
        delivery = producer.send("logs", b"a")
        with pytest.raises(TimeoutError):
            producer.flush(50)
        with pytest.raises(TimeoutError):
            delivery.result(50)
        assert not delivery.is_done
        broker.close_connections()
        assert delivery.result().offset == 100


def test_a_closed_producer_refuses_records() -> None:
    with broker_with(logs=1) as broker:
        producer = Producer(broker.bootstrap, linger_ms=10_000)
        delivery = producer.send("logs", b"a")
        producer.close()
        assert delivery.result().offset == 100
        with pytest.raises(ValueError, match="closed"):
            producer.send("logs", b"b")
        producer.close()


def test_an_exception_in_the_with_block_sends_nothing_more() -> None:
    with broker_with(logs=1) as broker:
        producer = Producer(broker.bootstrap, linger_ms=10_000)
        delivery = producer.send("logs", b"a")
        with pytest.raises(ZeroDivisionError), producer:
            _ = 1 / 0
        with pytest.raises(ClientError, match="closed"):
            delivery.result()
        assert batches(broker) == []


def test_send_takes_a_set_of_messages() -> None:
    with broker_with(logs=1) as broker, Producer(broker.bootstrap, linger_ms=10_000) as producer:
        deliveries = producer.send("logs", [b"a", b"b", b"c"])
        assert [each.result().offset for each in deliveries] == [100, 101, 102]
        for wrong in ("text", 5):
            with pytest.raises(TypeError, match="bytes"):
                producer.send("logs", wrong)  # type: ignore[call-overload]
