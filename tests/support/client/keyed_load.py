"""A keyed load on a compacted topic: an idempotent producer, a reader, and the expected state."""

from random import Random
from typing import Any

from confluent_kafka import KafkaError, Producer

from support.client_libraries.client_library import GUARD_S
from support.client_libraries.confluent_library import Confluent
from support.kafka.compaction import Kept, read_all

IN_FLIGHT = 300
KEYS = 40
COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "8192",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "300",
    "file.delete.delay.ms": "0",
}
CLEANER = {"log.cleaner.backoff.ms": "50"}


class KeyedLoad:
    """librdkafka's idempotent producer on one partition: record n has the offset n.

    Every record that was read is compared with the one that was sent as its offset.
    """

    def __init__(self, bootstrap: str, topic: str, seed: int, *, keys: int = KEYS) -> None:
        self.topic = topic
        self.failures: list[str] = []
        self.acknowledged = 0
        self._keys = keys
        self._random = Random(seed)
        self._sent: list[tuple[bytes, bytes | None]] = []
        self._library = Confluent(bootstrap)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "compression.type": self._random.choice(["none", "gzip", "lz4", "zstd"]),
                "linger.ms": 1,
                "batch.num.messages": 25,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                "error_cb": self._error,
                "log_level": 0,
            }
        )

    def run_until(self, acknowledged: int) -> None:
        """Send until `acknowledged` records in total are acknowledged."""
        while self.acknowledged < acknowledged and not self.failures:
            while len(self._producer) < IN_FLIGHT:
                self._send_one()
            self._producer.poll(0.05)
        assert self.failures == []

    def finish(self) -> None:
        """Wait until all records sent are acknowledged."""
        left = self._producer.flush(GUARD_S)
        assert left == 0, f"{left} records were not acknowledged in time"
        assert self.failures == []

    def check(self) -> list[Kept]:
        """Read the topic: every record is the one that was sent, and the last acknowledged record
        of each key, or a later one of it, is there. Returns the records."""
        acknowledged = self.acknowledged
        found = read_all(self._library, self.topic)
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets)), "offsets do not ascend"
        for record in found:
            assert self._sent[record.offset] == (record.key, record.value), record
        last = {record.key: record.offset for record in found}
        known: dict[bytes, int] = {}
        for offset, (key, _) in enumerate(self._sent[:acknowledged]):
            known[key] = offset
        deleted = {key: at for at, (key, value) in enumerate(self._sent) if value is None}
        for key, offset in known.items():
            is_deleted = deleted.get(key, -1) >= offset
            assert last.get(key, offset if is_deleted else -1) >= offset, f"{key!r} at {offset}"
        return found

    def state(self) -> dict[bytes, bytes | None]:
        """The last value of each key that was sent; None where it was deleted."""
        return dict(self._sent)

    def _send_one(self) -> None:
        number = len(self._sent)
        key = b"key-%d" % self._random.randrange(self._keys)
        is_deleted = self._random.random() < 0.1
        value = None if is_deleted else b"%d " % number + b"." * self._random.randrange(200)
        self._sent.append((key, value))

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self.failures.append(f"{number}: {error}")
            elif message.offset() != number:
                self.failures.append(f"{number} is at offset {message.offset()}")
            self.acknowledged += 1

        self._producer.produce(self.topic, value, key, partition=0, on_delivery=delivered)

    def _error(self, error: KafkaError) -> None:
        if error.fatal():
            self.failures.append(f"fatal: {error}")
