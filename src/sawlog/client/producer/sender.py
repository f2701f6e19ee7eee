"""Sends a producer's batches to their leaders and takes the outcomes.

An interrupted call (by Ctrl-C, say) is repeated or finished by the next round: a second request
with the same sequence numbers does no harm.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from sawlog.client.errors import UNANSWERED, ClientError, ConnectionLost, kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.connection import Connection, Pending
from sawlog.client.net.retries import Deadline, is_retriable
from sawlog.client.producer.delivery import NO_OFFSET, NO_SEQUENCE, ProducedBatch
from sawlog.client.producer.record_accumulator import RecordAccumulator, split_by_size
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

if TYPE_CHECKING:  # needed by transactional producers only
    from sawlog.client.producer.transaction_manager import TransactionManager

_LAST_VERSION_WITH_NAMES = 12
_GRACE_MS = 1_000  # so that the broker's own timeout is reported before ours
_MAX_WAIT_MS = 1_000
_ONE_TRY_MS = 0
_SUSPICIOUS_BYTES = 16 * 1024 * 1024  # brokers close connections whose requests are too large


class _InFlight(NamedTuple):
    """One request; its batches by topic name or id, as the response will have it, and index."""

    connection: Connection
    pending: Pending[ProduceResponse]
    batches: dict[tuple[str | bytes, int], ProducedBatch]


def now_ms() -> float:
    return time.monotonic() * 1_000


class Sender:
    """Sends the batches of `accumulator`; calls `on_complete` with each batch that is done.

    The batches of a transactional producer are those of the open transaction of `transactions`.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int,
        codec: Codec,
        linger_ms: float,
        max_request_bytes: int,
        sequences: SequenceNumbers | None,
        on_complete: Callable[[ProducedBatch], None],
        transactions: "TransactionManager | None" = None,
    ) -> None:
        self.accumulator = RecordAccumulator(linger_ms)
        self._cluster = cluster
        self._acks = acks
        self._codec = codec
        self._max_request_bytes = max_request_bytes
        self._sequences = sequences
        self._on_complete = on_complete
        self._transactions = transactions
        self._requests: list[_InFlight] = []
        self._stale_topics: set[TopicName] = set()  # metadata is fetched before the next send

    def run_once(self, *, flushing: bool = False) -> None:
        """Take the responses that have arrived and send the batches that are ready.

        `flushing` sends batches that have not lingered yet, too.
        """
        self._take_responses()
        drop_error = None if self._transactions is None else self._transactions.drop_error
        if drop_error is None:
            self._send_ready(flushing)
        else:
            self._drop_batches(drop_error)

    def next_wait(self, *, flushing: bool = False) -> tuple[list[int], float]:
        """Return the descriptors that responses come by, and for how many milliseconds to wait.

        The time ends with the next retry, request timeout or linger time.
        """
        connections = {request.connection for request in self._requests}
        if not all(connection.is_open for connection in connections):
            return [], 0.0
        now = self._cluster.now_ms()
        waits_ms = [_MAX_WAIT_MS, self.accumulator.next_ready_ms(flushing=flushing) - now]
        waits_ms += [request.pending.deadline.remaining_ms for request in self._requests]
        return [connection.fileno() for connection in connections], max(0.0, min(waits_ms))

    # Responses

    def _take_responses(self) -> None:
        for request in list(self._requests):
            response: ProduceResponse | Exception | None
            try:
                response = request.connection.poll(request.pending)
            except ClientError as error:
                response = error
            if response is None:
                continue
            self._take_response(request, response)
            self.accumulator.unmute(batch.partition for batch in request.batches.values())
            self._requests.remove(request)

    def _take_response(self, request: _InFlight, response: ProduceResponse | Exception) -> None:
        if isinstance(response, Exception):
            for batch in request.batches.values():
                self._retry_or_fail(batch, response)
            return
        outcomes = {
            (topic.name or topic.topic_id, entry.index): entry
            for topic in response.responses
            for entry in topic.partition_responses
        }
        for key, batch in request.batches.items():
            outcome = outcomes.get(key)
            if outcome is None:
                text = f"the response leaves out the batch of {batch.partition}"
                self._fail(batch, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text))
            else:
                self._take_outcome(batch, outcome)

    def _take_outcome(self, batch: ProducedBatch, outcome: PartitionProduceResponse) -> None:
        if outcome.error_code == ErrorCode.NONE:
            self._succeed(batch, outcome.base_offset, outcome.log_append_time_ms)
        elif outcome.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # Stored by an earlier try, too long ago for the broker to know its offset.
            self._succeed(batch)
        else:
            reasons = [entry.batch_index_error_message for entry in outcome.record_errors]
            reason = next((text for text in reasons if text), outcome.error_message)
            what = f"{batch.partition} refused a batch of {batch.encoded_size} bytes"
            text = f"{what}: {reason}" if reason else what
            self._retry_or_fail(batch, kafka_error(outcome.error_code, text))

    # Outcomes

    def _retry_or_fail(self, batch: ProducedBatch, error: Exception) -> None:
        """Leave the batch in its queue for a retry, or fail it."""
        self._stale_topics.add(batch.partition.topic)
        if isinstance(error, ConnectionLost):
            batch.count_lost_connection()
        if not is_retriable(error):
            self._fail(batch, error)
        elif batch.connection_lost_count > 1 and batch.encoded_size > _SUSPICIOUS_BYTES:
            text = (
                f"{error}, again with a batch of {batch.encoded_size} bytes; compare it with the"
                " broker's socket.request.max.bytes"
            )
            self._fail(batch, KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, text))
        elif not batch.schedule_retry(self._cluster.now_ms()):
            text = f"not delivered within {batch.deadline.timeout_ms:.0f} ms; last error: {error}"
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
        """Report a batch that is done; its removal from the queue is the last step."""
        if not self.accumulator.is_first(batch):
            return  # the second response to a batch that was sent twice
        if batch.sequence is not None and self._sequences is not None:
            count, is_delivered = batch.builder.count, batch.error is None
            self._sequences.on_complete(
                batch.partition, batch.sequence, count, is_delivered=is_delivered
            )
        if batch.error is not None and self._transactions is not None:
            self._transactions.batch_failed(batch.error, had_sequence=batch.sequence is not None)
        self._on_complete(batch)
        self.accumulator.remove_first(batch)

    def _drop_batches(self, error: Exception) -> None:
        """Fail all batches of an aborted transaction that are not in flight."""
        while batches := self.accumulator.unmuted_batches():
            for batch in batches:
                self._fail(batch, error)

    # Requests

    def _send_ready(self, flushing: bool) -> None:
        by_leader: dict[NodeId, list[ProducedBatch]] = {}
        ready = self.accumulator.ready(self._cluster.now_ms(), flushing=flushing)
        for batch in self._added_to_transaction(ready):
            if batch.is_done:
                self._complete(batch)
                continue
            try:
                leader = self._leader(batch.partition)
                self._encode(batch)
            except (KafkaError, ClientError) as error:
                self._retry_or_fail(batch, error)
                if isinstance(error, UNANSWERED):
                    break  # a round waits for one unreachable broker at most
            else:
                by_leader.setdefault(leader, []).append(batch)
        for node, batches in sorted(by_leader.items()):
            for request in split_by_size(batches, self._max_request_bytes):
                self._send(node, request)

    def _added_to_transaction(self, ready: list[ProducedBatch]) -> list[ProducedBatch]:
        """Return the batches that may be sent: all, once their partitions are added."""
        if self._transactions is None or not ready:
            return ready
        try:
            self._transactions.before_send(batch.partition for batch in ready)
        except (KafkaError, ClientError) as error:
            for batch in ready:
                self._retry_or_fail(batch, error)
            return []
        return ready

    def _leader(self, partition: TopicPartition) -> NodeId:
        """Return the leader, with one try since the caller holds the producer's lock."""
        if partition.topic in self._stale_topics:
            self._cluster.fetch_metadata([partition.topic])
            self._stale_topics.discard(partition.topic)
        return self._cluster.leader(partition, deadline=Deadline(_ONE_TRY_MS))

    def _encode(self, batch: ProducedBatch) -> None:
        if batch.encoded is not None:
            return
        if batch.sequence is None:
            sequences = self._sequences
            batch.assign(NO_SEQUENCE if sequences is None else sequences.next(batch.partition))
        batch.encode(self._codec, is_transactional=self._transactions is not None)

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
            transactions = self._transactions
            request = ProduceRequest(
                transactional_id=None if transactions is None else transactions.transactional_id,
                acks=self._acks,
                timeout_ms=int(self._cluster.request_timeout_ms),
                topic_data=list(topics.values()),
            )
            highest = None if has_ids else _LAST_VERSION_WITH_NAMES
            if transactions is not None and transactions.highest_produce_version is not None:
                highest = transactions.highest_produce_version
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
        self.accumulator.mute(batch.partition for batch in batches)


def _reworded(error: Exception, text: str) -> Exception:
    """Return the same kind of error, so that callers can tell a refusal from no response."""
    return KafkaError(error.code, text) if isinstance(error, KafkaError) else type(error)(text)
