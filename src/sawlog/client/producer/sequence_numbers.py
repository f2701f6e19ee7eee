"""The producer id of an idempotent producer, and its next sequence number in each partition."""

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from sawlog.client.errors import kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.client.producer.delivery import BatchSequence
from sawlog.core.ids import TopicPartition
from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
from sawlog.protocol.messages.init_producer_id_response import InitProducerIdResponse

_SEQUENCES = 1 << 31
_NOT_TRANSACTIONAL_TIMEOUT_MS = 60_000  # without meaning, but Kafka wants it positive


class ProducerIdentity(NamedTuple):
    producer_id: int
    epoch: int


class SequenceNumbers:
    """Assigns sequences to batches; pure but for `init`, which returns a new identity.

    A batch keeps its sequence through all retries, and a partition has one batch with a sequence at
    a time: the next one continues after it is delivered. A batch that fails for good leaves a gap
    that the broker would not accept, so batches after it get a new identity and start at 0.
    """

    def __init__(self, init: Callable[[], ProducerIdentity]) -> None:
        self._init = init
        self._identity: ProducerIdentity | None = None
        self._next: dict[TopicPartition, int] = defaultdict(int)

    def next(self, partition: TopicPartition) -> BatchSequence:
        """Return the sequence of the partition's next batch; the same until `on_complete`."""
        if self._identity is None:
            self._identity = self._init()
        return BatchSequence(*self._identity, self._next[partition])

    def start_over(self) -> None:
        """Use a new identity from the next batch on, with sequences from 0."""
        self._next.clear()
        self._identity = None

    def on_complete(
        self, partition: TopicPartition, sequence: BatchSequence, count: int, *, is_delivered: bool
    ) -> None:
        """Note the outcome of the batch of `count` records with this sequence."""
        if sequence[:2] != self._identity:
            return  # of the identity before a failed batch
        if is_delivered:
            self._next[partition] = (sequence.base_sequence + count) % _SEQUENCES
        else:
            self.start_over()


def init_producer_id(cluster: Cluster) -> ProducerIdentity:
    """Request a producer id from any broker, with one try."""
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=_NOT_TRANSACTIONAL_TIMEOUT_MS
    )
    response = cluster.any_connection().request(request, InitProducerIdResponse)
    if response.error_code:
        raise kafka_error(response.error_code, "the broker gave no producer id")
    return ProducerIdentity(response.producer_id, response.producer_epoch)
