"""Producers that run while brokers die, and record exactly what was acknowledged."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, Producer

from sawlog.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sawlog.protocol.records import Record, build_batch
from support.protocol.wire import Wire

IN_FLIGHT = 400
PRODUCE_VERSION = 9
TIMEOUT_MS = 30_000


class IdempotentLoad:
    """librdkafka's idempotent producer: its records are stored once and in order.

    Record n of a partition has the value `n`; its acknowledged offset must be n as well.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.topic = topic
        self.sent = [0] * partitions
        self.acknowledged = 0
        self.failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 50,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                "error_cb": self._error,
                "log_level": 0,
            }
        )

    def run_until(self, acknowledged: int, is_over: Callable[[], bool] = lambda: False) -> None:
        """Send until `acknowledged` records in total are acknowledged, or `is_over`."""
        while self.acknowledged < acknowledged and not self.failures and not is_over():
            while len(self._producer) < IN_FLIGHT:
                self._send_one()
            self._producer.poll(0.05)

    def finish(self) -> None:
        """Wait until all records sent are acknowledged."""
        left = self._producer.flush(TIMEOUT_MS / 1_000)
        assert left == 0, f"{left} records were not acknowledged in time"
        assert self.failures == []

    def drop(self) -> None:
        """Drop the records that are not acknowledged: the broker is gone for good."""
        self._producer.purge()
        self._producer.flush(TIMEOUT_MS / 1_000)

    def _send_one(self) -> None:
        partition = min(range(len(self.sent)), key=self.sent.__getitem__)
        number = self.sent[partition]
        self.sent[partition] += 1

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self.failures.append(f"{partition}/{number}: {error}")
            elif message.offset() != number:
                self.failures.append(f"{partition}/{number} is at offset {message.offset()}")
            self.acknowledged += 1

        value = b"%d" % number
        self._producer.produce(self.topic, value, partition=partition, on_delivery=delivered)

    def _error(self, error: KafkaError) -> None:
        if error.fatal():
            self.failures.append(f"fatal: {error}")


class RawLoad:
    """A producer without a producer id on a raw connection, in a thread; it never retries.

    Acknowledged records must be stored; those without a response may be.
    """

    def __init__(self, address: tuple[str, int], topic: str, acks: int) -> None:
        self.topic = topic
        self.acknowledged: list[tuple[int, bytes]] = []  # offset and value
        self.errors: list[int] = []
        self._address = address
        self._acks = acks
        self._number = 0
        self._is_up = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._is_up.set()
        self._thread.start()

    def broker_went(self) -> None:
        self._is_up.clear()

    def broker_came(self) -> None:
        self._is_up.set()

    def finish(self) -> None:
        self._is_over.set()
        self._is_up.set()
        self._thread.join(TIMEOUT_MS / 1_000)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._is_over.is_set():
            self._is_up.wait(TIMEOUT_MS / 1_000)
            try:
                with Wire(*self._address) as wire:
                    while not self._is_over.is_set() and self._send(wire):
                        pass
            except OSError:
                self._is_up.wait(0.01)

    def _send(self, wire: Wire) -> bool:
        values = [b"%d-%d" % (self._number, index) for index in range(1 + self._number % 7)]
        self._number += 1
        answer = wire.ask(produce_request(self.topic, 0, values, self._acks), PRODUCE_VERSION)
        if answer is None:
            return False
        result = answer.responses[0].partition_responses[0]
        if result.error_code:
            self.errors.append(result.error_code)
        else:
            self.acknowledged += enumerate(values, result.base_offset)
        return True


def produce_request(
    topic: str,
    partition: int,
    values: Sequence[bytes],
    acks: int,
    timestamp_ms: int = 1_700_000_000_000,
    **more: Any,
) -> ProduceRequest:
    """Make a request with one batch of one partition; `more` goes to the batch."""
    batch = build_batch([Record(0, timestamp_ms, None, value) for value in values], **more)
    data = PartitionProduceData(partition, bytes(batch))
    return ProduceRequest(None, acks, TIMEOUT_MS, [TopicProduceData(topic, partition_data=[data])])
