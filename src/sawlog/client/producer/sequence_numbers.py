"""Who an idempotent producer is, and the number of its next record in each partition.

A batch keeps its stamp through all its tries, and a partition has one batch with a stamp at a time:
the next one goes on behind it once it was delivered. Where one fails for good there is a hole that
the broker would not accept: whatever is stamped after that has a new identity and starts from 0.
"""

from collections import defaultdict

from sawlog.client.errors import kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.client.producer.delivery import BatchSequence
from sawlog.core.ids import TopicPartition
from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
from sawlog.protocol.messages.init_producer_id_response import InitProducerIdResponse

_SEQUENCES = 1 << 31
_NOT_TRANSACTIONAL_TIMEOUT_MS = 60_000  # without meaning, but Kafka wants it positive


class SequenceNumbers:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._identity: tuple[int, int] | None = None
        self._next: dict[TopicPartition, int] = defaultdict(int)

    def next(self, partition: TopicPartition) -> BatchSequence:
        """For the partition's next batch: the same one again until `ended` hears of that batch.
        Asks for an identity where there is none, with one try.
        """
        if self._identity is None:
            self._identity = self._ask_for_identity()
        return BatchSequence(*self._identity, self._next[partition])

    def ended(
        self, partition: TopicPartition, stamp: BatchSequence, count: int, *, was_delivered: bool
    ) -> None:
        """The batch of `count` records with this stamp has its outcome."""
        if (stamp.producer_id, stamp.producer_epoch) != self._identity:
            return  # it was stamped before another one left a hole
        if was_delivered:
            self._next[partition] = (stamp.base_sequence + count) % _SEQUENCES
        else:
            self._next.clear()
            self._identity = None

    def _ask_for_identity(self) -> tuple[int, int]:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_NOT_TRANSACTIONAL_TIMEOUT_MS
        )
        answer = self._cluster.any_connection().request(request, InitProducerIdResponse)
        if answer.error_code:
            raise kafka_error(answer.error_code, "the broker gave no producer id")
        return answer.producer_id, answer.producer_epoch
