"""A producer: records wait in one batch per partition until it is full or `linger_ms` are over.

The sender brings the batches to their leaders; the IO driver decides in which thread. With
acks=all producing is idempotent: a record whose acknowledgement was lost is sent again and stored
once. With a transactional id the records between `begin` and `commit` are visible to read_committed
consumers all together or not at all.
"""

import contextlib
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self, overload

from sawlog.client.errors import ClientError, NoBrokerReachable
from sawlog.client.fork_guard import ForkGuard
from sawlog.client.net.cluster import Cluster, NoSuchTopic
from sawlog.client.net.metadata import Topic
from sawlog.client.net.retries import Backoff, Deadline, is_retriable
from sawlog.client.producer.delivery import Delivery, DeliveryFailed, ProducedBatch
from sawlog.client.producer.io_driver import IoDriver
from sawlog.client.producer.partitioner import StickyChoice, partition_for_key
from sawlog.client.producer.sender import Sender, now_ms
from sawlog.client.producer.sequence_numbers import SequenceNumbers, init_producer_id
from sawlog.core.errors import KafkaError
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.protocol.compression import Codec
from sawlog.protocol.record_batch import HEADER_SIZE
from sawlog.protocol.records import Headers

if TYPE_CHECKING:  # needed by transactional producers only
    from sawlog.client.admin.group_offsets import Committed, GroupMetadata
    from sawlog.client.producer.transaction_manager import TransactionManager

ALL_REPLICAS = -1
_RECORD_OVERHEAD_BYTES = 40  # upper bound of a record's varints
_HEADER_OVERHEAD_BYTES = 10
_LAST_TIMESTAMP_MS = (1 << 63) - 1
_TOPIC_MAX_AGE_MS = 300_000  # then new partitions are looked for (metadata.max.age.ms)
_ONE_TRY = Deadline(0)
_CLOSED = "the producer is closed"

Value = bytes | None


class Producer:
    """Sends records; safe to use from any number of threads.

    A record is sent after `linger_ms` at the latest; `flush`, `close` and its Delivery report its
    outcome. As a context manager it is closed at the end; after an exception without a flush.

    `cluster` is a Cluster, whose settings are taken over, or addresses of brokers.

    With a `transactional_id` every record belongs to a transaction: between `begin` and `commit` or
    `abort`, or within `transaction()`. These methods are for one thread at a time. A new producer
    with the same id fences this one. A transaction that is open for longer than
    `transaction_timeout_ms` is aborted by its coordinator.
    """

    def __init__(
        self,
        cluster: Cluster | str | Sequence[str],
        *,
        acks: int = ALL_REPLICAS,
        codec: Codec = Codec.NONE,
        idempotent: bool | None = None,
        batch_bytes: int = 128 * 1024,
        linger_ms: float = 5,
        buffer_bytes: int = 32 * 1024 * 1024,
        max_request_bytes: int = 1024 * 1024,
        delivery_timeout_ms: float = 120_000,
        create_topics: bool = False,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
    ) -> None:
        if acks not in (0, 1, ALL_REPLICAS):
            raise ValueError(f"acks is 0, 1 or -1 (all), not {acks}")
        if idempotent and acks != ALL_REPLICAS:
            raise ValueError(f"an idempotent producer needs acks=all (-1), not {acks}")
        is_idempotent = acks == ALL_REPLICAS if idempotent is None else idempotent
        if transactional_id is not None and not is_idempotent:
            raise ValueError("a transactional producer is idempotent and needs acks=all (-1)")
        # Its own connections: a cluster is for one thread, and the background thread is another.
        self._cluster = cluster.sibling() if isinstance(cluster, Cluster) else Cluster(cluster)
        if isinstance(cluster, Cluster):
            cluster.close_with(self)
        self._fork_guard = ForkGuard()
        self._batch_bytes = batch_bytes
        self._linger_ms = linger_ms
        self._buffer_bytes = buffer_bytes
        self._delivery_timeout_ms = delivery_timeout_ms
        self._create_topics = create_topics
        self._transactions = self._new_transactions(transactional_id, transaction_timeout_ms)
        self._sender = Sender(
            self._cluster,
            acks=acks,
            codec=codec,
            linger_ms=linger_ms,
            max_request_bytes=max_request_bytes,
            sequences=self._new_sequences() if is_idempotent else None,
            on_complete=self._on_complete,
            transactions=self._transactions,
        )
        self._accumulator = self._sender.accumulator
        self._io_driver = IoDriver(self._sender, linger_ms)
        self._lock = self._io_driver.lock
        self._sticky: dict[str, StickyChoice] = {}
        self._buffered_bytes = 0
        self._next_round_ms = 0.0
        self._sent_count = 0
        self._failed_count = 0
        self._first_failed: tuple[int, Exception] | None = None
        self.delivered_count = 0
        weakref.finalize(self, self._cluster.close)

    def _new_transactions(
        self, transactional_id: str | None, timeout_ms: int
    ) -> "TransactionManager | None":
        if transactional_id is None:
            return None
        from sawlog.client.producer.transaction_manager import TransactionManager

        return TransactionManager(
            self._cluster, transactional_id, timeout_ms, sleep_s=self._sleep_between_tries
        )

    def _new_sequences(self) -> SequenceNumbers:
        if self._transactions is not None:
            return self._transactions.sequences
        cluster = self._cluster
        return SequenceNumbers(lambda: init_producer_id(cluster))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        if error_type is None:
            self.close()
        else:
            self.abandon()

    @overload
    def send(
        self,
        topic: str,
        value: Value,
        key: bytes | None = None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery: ...

    @overload
    def send(self, topic: str, value: Iterable[bytes]) -> list[Delivery]: ...

    def send(
        self,
        topic: str,
        value: Value | Iterable[bytes],
        key: bytes | None = None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery | list[Delivery]:
        """Add a record to its partition's batch; an iterable of values adds one record for each.

        Blocks only while `buffer_bytes` are full, and for the metadata of a topic that is new or
        was last fetched five minutes ago.
        """
        if value is not None and not isinstance(value, bytes):
            if not isinstance(value, bytearray | memoryview):
                return [self.send(topic, message) for message in _messages(value)]
            value = bytes(value)
        self._fork_guard.check("producer")
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        else:
            _check_time(timestamp_ms)
        if key is not None:
            key = _as_bytes("a key", key)
        headers = _as_headers(headers) if headers else ()
        with self._lock:
            if self._io_driver.is_stopped:
                raise ValueError(_CLOSED)
            if self._transactions is not None:
                self._transactions.check_open()
            where = self._choose_partition(topic, key, partition)
            batch = self._batch_for(where, _largest_size(key, value, headers))
            builder = batch.builder
            delivery = Delivery(batch, builder.count, self)
            size_before = builder.size
            builder.append(timestamp_ms, key, value, headers)
            if size_before == HEADER_SIZE:
                self._opened(batch)
            self._sent_count += 1
            self._buffered_bytes += builder.size - size_before
            if builder.size >= self._batch_bytes:
                self._close_batch(batch)
            self._run_round_if_due()
            has_room = self._has_room()
        if not has_room:
            self._io_driver.run_until(self._has_room)
        self._io_driver.run_callbacks()
        return delivery

    def flush(self, timeout_ms: float | None = None) -> None:
        """Wait until all records sent before are done and their callbacks have run.

        DeliveryFailed if a record since the last flush was not delivered. TimeoutError after
        `timeout_ms`; the producer goes on delivering.
        """
        self._fork_guard.check("producer")
        with self._lock:
            incomplete = self._accumulator.incomplete_batches()

        def are_done() -> bool:
            while incomplete and incomplete[-1].is_done:
                incomplete.pop()
            return not incomplete

        self._flush(are_done, timeout_ms)

    def _flush(self, is_done: Callable[[], bool], timeout_ms: float | None) -> None:
        if not self._io_driver.run_until(is_done, timeout_ms):
            raise TimeoutError(f"not all records were delivered or failed after {timeout_ms} ms")
        self._io_driver.run_callbacks(wait=True)
        with self._lock:
            count, first = self._failed_count, self._first_failed
            self._failed_count, self._first_failed = 0, None
        if first is not None:
            number, error = first
            raise DeliveryFailed(count, error, number)

    # Transactions

    def init_transactions(self) -> None:
        """Fence earlier producers with this transactional id, and abort their open transaction.

        The first `begin` does this too. Raises TransactionRetriable or TransactionFatal.
        """
        transactions = self._require_transactions()
        with self._lock:
            transactions.init()

    def begin(self) -> None:
        """Begin a transaction; all records sent until `commit` or `abort` belong to it."""
        transactions = self._require_transactions()
        with self._lock:
            transactions.begin()

    def commit(self) -> None:
        """Send all records and commit the transaction with them.

        Raises TransactionAbortable if it cannot be committed and has to be aborted,
        TransactionRetriable if the outcome is unknown and `commit` is to be called again, and
        TransactionFatal if the producer cannot be used any more.
        """
        transactions = self._require_transactions()
        with self._lock:
            transactions.start_commit()
        self._end_transaction(transactions)

    def abort(self) -> None:
        """Drop the records that are not sent, and abort the transaction.

        Raises TransactionRetriable if `abort` is to be called again, and TransactionFatal if the
        producer cannot be used any more; its transaction is aborted by the coordinator then.
        """
        transactions = self._require_transactions()
        with self._lock:
            transactions.start_abort()
        self._end_transaction(transactions)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction; commit it at the end, or abort it after an exception.

        After TransactionRetriable the outcome of the commit is unknown: call `commit` until it
        returns, before the next `begin`. If the abort after an exception got no answer, the next
        `begin` raises IllegalTransactionEvent: call `abort` until it returns.
        """
        self.begin()
        try:
            yield
        except BaseException:
            self._abort_quietly()
            raise
        try:
            self.commit()
        except Exception:
            self._abort_quietly()
            raise

    def send_offsets(
        self,
        offsets: "Mapping[TopicPartition, int | Committed]",
        group: "str | GroupMetadata",
    ) -> None:
        """Commit offsets of a group (of the next records to read) with the transaction.

        `group` is a name, or `consumer.group_metadata`: then a consumer that is no longer a member
        cannot commit. Raises the errors that `commit` raises.
        """
        from sawlog.client.admin.group_offsets import GroupMetadata

        transactions = self._require_transactions()
        named = GroupMetadata(group) if isinstance(group, str) else group
        if offsets:
            with self._lock:
                transactions.send_offsets(offsets, named)

    def _require_transactions(self) -> "TransactionManager":
        self._fork_guard.check("producer")
        if self._transactions is None:
            raise ValueError(
                "the producer has no transactional id; set one: Producer(..., transactional_id=ID)"
            )
        if self._io_driver.is_stopped:
            raise ValueError(_CLOSED)
        return self._transactions

    def _end_transaction(self, transactions: "TransactionManager") -> None:
        """Wait until all records are done, then commit or abort."""
        self._io_driver.run_until(lambda: self._accumulator.is_empty)
        self._io_driver.run_callbacks(wait=True)
        with self._lock:
            self._failed_count, self._first_failed = 0, None
            transactions.finish()

    def _abort_quietly(self) -> None:
        """Abort what is open, for a caller that raises another error."""
        from sawlog.client.producer.transaction_errors import TransactionError
        from sawlog.client.producer.transaction_state import IllegalTransactionEvent

        with contextlib.suppress(TransactionError, IllegalTransactionEvent):
            self.abort()

    def _sleep_between_tries(self, seconds: float) -> None:
        """Sleep with the lock released; ValueError if the producer is closed meanwhile."""
        self._io_driver.sleep_unlocked(seconds * 1_000)
        if self._io_driver.is_stopped:
            raise ValueError(_CLOSED)

    def close(self, timeout_ms: float | None = None) -> None:
        """Flush, records sent by callbacks included, and close; also if the flush fails.

        Records that are not delivered by then are lost. An open transaction is aborted.
        """
        try:
            if self._has_open_transaction:
                self._abort_quietly()
            if self._fork_guard.is_same_process and not self._io_driver.is_stopped:
                self._flush(lambda: self._accumulator.is_empty, timeout_ms)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close at once; undelivered records may or may not arrive."""
        if not self._fork_guard.is_same_process:
            return  # the parent process goes on with it
        self._io_driver.stop()
        with self._lock:
            self._cluster.close()
        self._io_driver.close()

    @property
    def _has_open_transaction(self) -> bool:
        return (
            self._transactions is not None
            and self._fork_guard.is_same_process
            and not self._io_driver.is_stopped
            and not self._transactions.has_ended
        )

    @property
    def has_failed(self) -> bool:
        """Whether the next flush will raise DeliveryFailed."""
        return self._first_failed is not None

    def wait_for(self, batch: ProducedBatch, timeout_ms: float | None) -> None:
        """Implement BatchWaiter for Delivery."""
        self._fork_guard.check("producer")
        if not self._io_driver.run_until(lambda: batch.is_done, timeout_ms):
            raise TimeoutError(f"{batch.partition}: not delivered or failed after {timeout_ms} ms")
        self._io_driver.run_callbacks()

    def call_when_done(self, batch: ProducedBatch, callback: Callable[[], None]) -> None:
        """Implement BatchWaiter for Delivery."""
        with self._lock:
            if not batch.is_done:
                batch.add_callback(callback)
                return
            self._io_driver.queue_callbacks([callback])
        self._io_driver.run_callbacks()

    # Called with the lock held

    def _on_complete(self, batch: ProducedBatch) -> None:
        if batch.callbacks:
            # Queued before they are cleared: an interrupt between the two must not lose them.
            self._io_driver.queue_callbacks(batch.callbacks)
            batch.clear_callbacks()
        self._buffered_bytes -= batch.builder.size
        if batch.error is None:
            self.delivered_count += batch.builder.count
        else:
            self._failed_count += batch.builder.count
            if self._first_failed is None or batch.first_number < self._first_failed[0]:
                self._first_failed = (batch.first_number, batch.error)

    def _has_room(self) -> bool:
        return self._buffered_bytes <= self._buffer_bytes

    def _choose_partition(
        self, name: str, key: bytes | None, partition: int | None
    ) -> TopicPartition:
        try:
            topic = self._topic(name, partition)
        except (KafkaError, ClientError) as error:
            topic = self._retry_topic(name, partition, error)
        if partition is not None:
            if partition not in topic.partitions:
                raise NoSuchTopic(
                    f"the topic {name!r} has the partitions 0 to {len(topic.partitions) - 1},"
                    f" not {partition!r}"
                )
            index = partition
        elif key is not None:
            index = partition_for_key(key, len(topic.partitions))
        else:
            sticky = self._sticky.get(name)
            if sticky is None:
                sticky = self._sticky[name] = StickyChoice()
            index = sticky.partition(list(topic.partitions))
        return TopicPartition(TopicName(name), PartitionIndex(index))

    def _topic(self, name: str, partition: int | None) -> Topic:
        return self._cluster.topic(
            name,
            create_missing=self._create_topics,
            deadline=_ONE_TRY,
            with_partition=partition,
            max_age_ms=_TOPIC_MAX_AGE_MS,
        )

    def _retry_topic(self, name: str, partition: int | None, error: Exception) -> Topic:
        """Retry until the cluster's timeout; the lock is released between two tries."""
        deadline, backoff = self._cluster.deadline(), Backoff()
        may_exist = self._cluster.was_reached or not isinstance(error, NoBrokerReachable)
        while may_exist and is_retriable(error):
            wait_ms = backoff.next_ms()
            if wait_ms >= deadline.remaining_ms:
                break
            self._io_driver.sleep_unlocked(wait_ms)
            if self._io_driver.is_stopped:
                raise ValueError(_CLOSED)
            try:
                return self._topic(name, partition)
            except (KafkaError, ClientError) as again:
                error = again
        raise error

    def _batch_for(self, where: TopicPartition, size: int) -> ProducedBatch:
        """Return the partition's open batch, or a new one if the record does not fit."""
        batch = self._accumulator.open_batch(where)
        if batch is not None:
            if batch.builder.size + size <= self._batch_bytes:
                return batch
            self._close_batch(batch)
        deadline = Deadline(self._delivery_timeout_ms)
        return ProducedBatch(where, self._sent_count + 1, now_ms(), deadline)

    def _opened(self, batch: ProducedBatch) -> None:
        """Queue a batch that has its first record; an empty batch is never queued."""
        self._next_round_ms = min(self._next_round_ms, batch.opened_ms + self._linger_ms)
        self._accumulator.add(batch)
        self._buffered_bytes += HEADER_SIZE
        self._io_driver.wake()

    def _close_batch(self, batch: ProducedBatch) -> None:
        batch.close()
        self._next_round_ms = 0.0
        sticky = self._sticky.get(batch.partition.topic)
        if sticky is not None:
            sticky.batch_is_full(batch.partition.partition)

    def _run_round_if_due(self) -> None:
        """Run a round in the caller's thread when a batch is full or has lingered."""
        now = now_ms()
        if now >= self._next_round_ms:
            self._io_driver.run_round(now)
            self._next_round_ms = now + self._linger_ms


def _largest_size(key: bytes | None, value: Value, headers: Headers) -> int:
    size = _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += len(name) * 4 + len(content or b"") + _HEADER_OVERHEAD_BYTES
    return size


# Invalid records are refused before they reach a batch, where they would fail its other records.


def _as_bytes(what: str, content: object) -> bytes:
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    raise TypeError(f"{what} must be bytes, not {type(content).__name__}: encode it first")


def _as_headers(headers: object) -> Headers:
    if isinstance(headers, Mapping) or not isinstance(headers, Iterable):
        raise TypeError(
            f'headers must be pairs such as [("trace", b"17")], not a {type(headers).__name__}'
        )
    pairs: list[tuple[str, bytes | None]] = []
    for header in headers:
        if not isinstance(header, tuple | list) or len(header) != 2:
            raise TypeError(f'a header must be a pair such as ("trace", b"17"), not {header!r:.80}')
        name, content = header
        if not isinstance(name, str):
            raise TypeError(f"a header's name must be a string, not {type(name).__name__}")
        name.encode()  # raises for a lone surrogate
        pairs.append((name, None if content is None else _as_bytes("a header's value", content)))
    return tuple(pairs)


def _check_time(timestamp_ms: object) -> None:
    if not isinstance(timestamp_ms, int):
        raise TypeError(f"timestamp_ms must be an integer, not {type(timestamp_ms).__name__}")
    if not 0 <= timestamp_ms <= _LAST_TIMESTAMP_MS:
        raise ValueError(f"timestamp_ms must be milliseconds since 1970, not {timestamp_ms}")


def _messages(values: object) -> Iterable[bytes]:
    """Return the values of several records; a string is refused, it was meant as one value."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"a value must be bytes, not {type(values).__name__}: encode it first")
    return values
