"""Batches to their leaders and outcomes back, for a producer.

A batch stands in its partition's queue until it has its outcome. Only the first one is ever under
way, so order holds through retries. What is interrupted anywhere (by Ctrl-C, say) is done again or
to its end by the next round: a second request with the same numbers does no harm.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from sawlog.client.errors import UNANSWERED, ClientError, ConnectionLost, kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.connection import Connection, Pending
from sawlog.client.net.retries import Deadline, is_retriable
from sawlog.client.producer.delivery import NO_OFFSET, NO_SEQUENCE, ProducedBatch
from sawlog.client.producer.sequence_numbers import SequenceNumbers
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId, TopicName, TopicPartition
from sawlog.protocol.compression import Codec
from sawlog.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sawlog.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse

_LAST_VERSION_WITH_NAMES = 12
_GRACE_MS = 1_000  # a broker that gives up in time is heard before we do
_MAX_WAIT_MS = 1_000
_ONE_TRY_MS = 0
_SUSPICIOUS_BYTES = 16 * 1024 * 1024  # a broker closes connections that bring it too much


class _InFlight(NamedTuple):
    """One request; its batches by what the answer will call them: topic name or id, and index."""

    connection: Connection
    pending: Pending[ProduceResponse]
    batches: dict[tuple[str | bytes, int], ProducedBatch]


def now_ms() -> float:
    return time.monotonic() * 1_000


class Sender:
    """`ended` hears of every batch that has its outcome."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int,
        codec: Codec,
        linger_ms: float,
        max_request_bytes: int,
        sequences: SequenceNumbers | None,
        ended: Callable[[ProducedBatch], None],
    ) -> None:
        self._cluster = cluster
        self._acks = acks
        self._codec = codec
        self._linger_ms = linger_ms
        self._max_request_bytes = max_request_bytes
        self._sequences = sequences
        self._ended = ended
        self._queues: dict[TopicPartition, deque[ProducedBatch]] = {}  # none is empty
        self._requests: list[_InFlight] = []
        self._muted: set[TopicPartition] = set()  # with a batch under way
        self._stale_topics: set[TopicName] = (
            set()
        )  # whose metadata may be wrong, and serves till asked

    @property
    def is_idle(self) -> bool:
        return not self._queues

    def incomplete_batches(self) -> list[ProducedBatch]:
        """What has no outcome yet."""
        return [batch for queue in self._queues.values() for batch in queue]

    def open_batch(self, partition: TopicPartition) -> ProducedBatch | None:
        """The one that takes the partition's next records, if it has one."""
        queue = self._queues.get(partition)
        if queue is None or queue[-1].is_full or queue[-1].stamp is not None:
            return None
        return queue[-1]

    def add(self, batch: ProducedBatch) -> None:
        """Behind the partition's others; records may still be appended to it."""
        queue = self._queues.get(batch.partition)
        if queue is None:
            self._queues[batch.partition] = deque((batch,))
        else:
            queue.append(batch)

    def run_once(self, *, flushing: bool = False) -> None:
        """Takes in what was answered and sends what is ready; `flushing`: all that waits is."""
        self._take_responses()
        self._send_ready(flushing)

    def next_wait(self, *, flushing: bool = False) -> tuple[list[int], float]:
        """What the next round waits for: descriptors that answers come by, and for how many
        milliseconds at most (the time of a retry, of a time-out, or the end of lingering).
        """
        connections = {request.connection for request in self._requests}
        if not all(connection.is_open for connection in connections):
            return [], 0.0
        now = now_ms()
        wake_ms = [now + _MAX_WAIT_MS]
        wake_ms += [now + request.pending.deadline.remaining_ms for request in self._requests]
        wake_ms += [self._ready_at_ms(batch, flushing) for batch in self._sendable()]
        wait_ms = max(0.0, min(wake_ms) - now)
        return [connection.fileno() for connection in connections], wait_ms

    def _ready_at_ms(self, batch: ProducedBatch, flushing: bool) -> float:
        if flushing or batch.is_full or batch.stamp is not None:
            return batch.retry_at_ms
        return max(batch.retry_at_ms, batch.opened_ms + self._linger_ms)

    # Answers

    def _take_responses(self) -> None:
        for request in list(self._requests):
            answer: ProduceResponse | Exception | None
            try:
                answer = request.connection.poll(request.pending)
            except ClientError as error:
                answer = error
            if answer is None:
                continue
            self._take_response(request, answer)
            self._muted.difference_update(batch.partition for batch in request.batches.values())
            self._requests.remove(request)

    def _take_response(self, request: _InFlight, answer: ProduceResponse | Exception) -> None:
        if isinstance(answer, Exception):
            for batch in request.batches.values():
                self._retry_or_fail(batch, answer)
            return
        outcomes = {
            (topic.name or topic.topic_id, entry.index): entry
            for topic in answer.responses
            for entry in topic.partition_responses
        }
        for key, batch in request.batches.items():
            outcome = outcomes.get(key)
            if outcome is None:
                error = kafka_error(
                    ErrorCode.UNKNOWN_SERVER_ERROR, "the answer leaves this batch out"
                )
                self._fail(batch, error)
            else:
                self._take_outcome(batch, outcome)

    def _take_outcome(self, batch: ProducedBatch, outcome: PartitionProduceResponse) -> None:
        if outcome.error_code == ErrorCode.NONE:
            self._succeed(batch, outcome.base_offset, outcome.log_append_time_ms)
        elif outcome.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # Stored by an earlier try, too long ago for the broker to know where.
            self._succeed(batch)
        else:
            reasons = [entry.batch_index_error_message for entry in outcome.record_errors]
            text = next((reason for reason in reasons if reason), outcome.error_message)
            what = f"{batch.partition} refused a batch of {len(batch.encoded or b'')} bytes"
            self._retry_or_fail(
                batch, kafka_error(outcome.error_code, f"{what}: {text}" if text else what)
            )

    # Ends

    def _retry_or_fail(self, batch: ProducedBatch, error: Exception) -> None:
        """It stays where it is for another try, where that makes sense; else it has failed."""
        self._stale_topics.add(batch.partition.topic)
        if isinstance(error, ConnectionLost):
            batch.connection_lost_count += 1
        if not is_retriable(error):
            self._fail(batch, error)
        elif batch.connection_lost_count > 1 and len(batch.encoded or b"") > _SUSPICIOUS_BYTES:
            text = (
                f"{error}, again with a batch of {len(batch.encoded or b'')} bytes; the broker's"
                " socket.request.max.bytes says what it reads"
            )
            self._fail(batch, kafka_error(ErrorCode.RECORD_LIST_TOO_LARGE, text))
        elif not batch.schedule_retry(now_ms()):
            text = f"not delivered within {batch.deadline.timeout_ms:.0f} ms; at last: {error}"
            self._fail(batch, _reworded(error, text))

    def _succeed(
        self, batch: ProducedBatch, base_offset: int = NO_OFFSET, append_time_ms: int = -1
    ) -> None:
        if not batch.is_done:
            batch.succeed(base_offset, append_time_ms)
        self._complete(batch)

    def _fail(self, batch: ProducedBatch, error: Exception) -> None:
        if not batch.is_done:
            batch.fail(error)
        self._complete(batch)

    def _complete(self, batch: ProducedBatch) -> None:
        """Takes one that is done out of its queue, the last of what its end brings."""
        queue = self._queues.get(batch.partition)
        if queue is None or queue[0] is not batch:
            return  # the second answer to what was sent twice
        if batch.stamp is not None and self._sequences is not None:
            count, was_delivered = batch.builder.count, batch.error is None
            self._sequences.ended(batch.partition, batch.stamp, count, was_delivered=was_delivered)
        self._ended(batch)
        if len(queue) == 1:
            del self._queues[batch.partition]
        else:
            queue.popleft()

    # Requests

    def _send_ready(self, flushing: bool) -> None:
        groups: dict[NodeId, list[ProducedBatch]] = {}
        for batch in self._ready(flushing):
            if batch.is_done:
                self._complete(batch)
                continue
            try:
                leader = self._leader(batch.partition)
                self._encode(batch)
            except (KafkaError, ClientError) as error:
                self._retry_or_fail(batch, error)
                if isinstance(error, UNANSWERED):
                    break  # this one waits from now on; a round waits for no more than it
            else:
                groups.setdefault(leader, []).append(batch)
        for node, batches in sorted(groups.items()):
            for group in self._split_by_size(batches):
                self._send(node, group)

    def _leader(self, partition: TopicPartition) -> NodeId:
        """By fresh metadata where the one kept is in doubt. One try: the producer is locked."""
        if partition.topic in self._stale_topics:
            self._cluster.fetch_metadata([partition.topic])
            self._stale_topics.discard(partition.topic)
        return self._cluster.leader(partition, deadline=Deadline(_ONE_TRY_MS))

    def _ready(self, flushing: bool) -> list[ProducedBatch]:
        now = now_ms()
        return [batch for batch in self._sendable() if now >= self._ready_at_ms(batch, flushing)]

    def _sendable(self) -> list[ProducedBatch]:
        """What could go out next, were it time."""
        muted = self._muted
        return [queue[0] for partition, queue in self._queues.items() if partition not in muted]

    def _encode(self, batch: ProducedBatch) -> None:
        if batch.encoded is not None:
            return
        if batch.stamp is None:
            sequences = self._sequences
            batch.stamp = NO_SEQUENCE if sequences is None else sequences.next(batch.partition)
        batch.encoded = batch.builder.finish(
            codec=self._codec,
            producer_id=batch.stamp.producer_id,
            producer_epoch=batch.stamp.producer_epoch,
            base_sequence=batch.stamp.base_sequence,
        )

    def _split_by_size(self, batches: list[ProducedBatch]) -> list[list[ProducedBatch]]:
        """Into requests of a bounded size; a single batch may be larger."""
        groups: list[list[ProducedBatch]] = []
        size = 0
        for batch in batches:
            encoded_size = len(batch.encoded or b"")
            if not groups or size + encoded_size > self._max_request_bytes:
                groups.append([])
                size = 0
            groups[-1].append(batch)
            size += encoded_size
        return groups

    def _send(self, node: NodeId, batches: list[ProducedBatch]) -> None:
        topics: dict[str, TopicProduceData] = {}
        has_ids = True
        try:
            for batch in batches:
                topic = self._cluster.topic(batch.partition.topic, deadline=Deadline(_ONE_TRY_MS))
                has_ids = has_ids and topic.has_id
                data = topics.setdefault(
                    topic.name, TopicProduceData(name=topic.name, topic_id=topic.id)
                )
                data.partition_data.append(
                    PartitionProduceData(index=batch.partition.partition, records=batch.encoded)
                )
            request = ProduceRequest(
                acks=self._acks,
                timeout_ms=int(self._cluster.request_timeout_ms),
                topic_data=list(topics.values()),
            )
            highest = None if has_ids else _LAST_VERSION_WITH_NAMES
            self._write(self._cluster.connection(node), request, batches, highest)
        except (KafkaError, ClientError) as error:
            for batch in batches:
                self._retry_or_fail(batch, error)

    def _write(
        self,
        connection: Connection,
        request: ProduceRequest,
        batches: list[ProducedBatch],
        highest_version: int | None,
    ) -> None:
        if self._acks == 0:
            connection.send_without_response(request, highest_version=highest_version)
            for batch in batches:
                self._succeed(batch)
            return
        timeout_ms = self._cluster.request_timeout_ms + _GRACE_MS
        pending = connection.send(
            request, ProduceResponse, highest_version=highest_version, timeout_ms=timeout_ms
        )
        by_id = pending.version > _LAST_VERSION_WITH_NAMES
        ids = {topic.name: topic.topic_id for topic in request.topic_data}
        named: dict[tuple[str | bytes, int], ProducedBatch] = {
            (ids[name] if by_id else name, index): batch
            for batch in batches
            for name, index in (batch.partition,)
        }
        self._requests.append(_InFlight(connection, pending, named))
        self._muted.update(batch.partition for batch in batches)


def _reworded(error: Exception, text: str) -> Exception:
    """The same kind of error: whether a broker refused or nobody answered must stay known."""
    return KafkaError(error.code, text) if isinstance(error, KafkaError) else type(error)(text)
