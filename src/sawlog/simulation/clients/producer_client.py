"""A simulated producer: plain with acks=1 or acks=all, or idempotent with retries.

A plain producer does not retry, so that none of its values is in the log twice. An idempotent one
repeats a batch with its sequence number, at whichever broker leads by then, until it is
acknowledged or refused for good.
"""

from typing import TYPE_CHECKING, Any

from sawlog.core.errors import ErrorCode
from sawlog.protocol.compression import Codec
from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
from sawlog.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sawlog.protocol.records import Record, build_batch
from sawlog.simulation.clients.cluster_client import RETRY_MS, ClusterClient
from sawlog.simulation.history.history import UNKNOWN_OFFSET, History, Outcome, Write

if TYPE_CHECKING:
    from sawlog.simulation.world.simulated_cluster import SimulatedCluster

PRODUCE_TIMEOUT_MS = 2_000
NO_PRODUCER_ID = -1
REFUSED = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""Errors before the append: the batch is not in the log."""
BROKEN_SEQUENCE = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
"""Errors after which an idempotent producer needs a new id."""


class ProducerClient(ClusterClient):
    """One batch in flight; the next one follows after a pause drawn from the seed."""

    def __init__(
        self,
        cluster: "SimulatedCluster",
        name: str,
        topic: str,
        seed: int,
        history: History,
        *,
        acks: int,
        is_idempotent: bool,
        keys: int = 0,
    ) -> None:
        """With `keys` the records have that many different keys, else all the same."""
        super().__init__(cluster, name, topic, seed)
        self._history = history
        self._acks = acks
        self._is_idempotent = is_idempotent
        self._keys = keys
        self._producer_id = NO_PRODUCER_ID
        self._sequences: dict[int, int] = {}
        self._batch: list[Write] = []
        self._is_retry = False
        self._count = 0

    def start(self) -> None:
        self.refresh(self._begin)

    def _begin(self) -> None:
        if self.is_stopped:
            return
        if self._is_idempotent and self._producer_id == NO_PRODUCER_ID:
            self._ask_producer_id()
            return
        if not self.leaders:
            self.refresh(self._begin)
            return
        partition = self.generator.choice(sorted(self.leaders))
        count = self.generator.randrange(1, 4)
        self._batch = [self._new_write(partition) for _ in range(count)]
        self._history.writes += self._batch
        self._is_retry = False
        self._attempt()

    def _new_write(self, partition: int) -> Write:
        self._count += 1
        value = f"{self.name}:{self._count}".encode()
        now_ms = self.schedule.monotonic_ms()
        key = b"key-%d" % self.generator.randrange(self._keys) if self._keys else b"k"
        return Write(self.name, partition, value, self._acks, self._is_idempotent, now_ms, key=key)

    def _ask_producer_id(self) -> None:
        def answered(response: Any) -> None:
            if response is not None and response.error_code == ErrorCode.NONE:
                self._producer_id = response.producer_id
                self._history.producer_ids.append(response.producer_id)
                self._sequences = {}
            self.schedule.after(RETRY_MS, self._begin)

        self.send(self.any_node(), InitProducerIdRequest(None, 60_000), answered)

    def _attempt(self) -> None:
        partition = self._batch[0].partition
        leader = self.leader_of(partition)
        if leader is None:
            if self._is_idempotent and not self.is_stopped:
                self.refresh(self._attempt)
            else:
                self._finish(Outcome.UNKNOWN if self._is_retry else Outcome.FAILED)
            return
        data = PartitionProduceData(partition, self._encode(partition))
        topic = TopicProduceData(topic_id=self.topic_id, partition_data=[data])
        request = ProduceRequest(None, self._acks, PRODUCE_TIMEOUT_MS, [topic])
        self.send(leader, request, self._answered)

    def _encode(self, partition: int) -> bytes:
        now_ms = self.schedule.now_ms()
        records = [
            Record(place, now_ms, write.key, write.value, ())
            for place, write in enumerate(self._batch)
        ]
        sequence = self._sequences.get(partition, 0)
        return bytes(
            build_batch(
                records,
                codec=Codec.NONE,
                producer_id=self._producer_id,
                producer_epoch=0 if self._is_idempotent else -1,
                base_sequence=sequence if self._is_idempotent else -1,
            )
        )

    def _answered(self, response: Any) -> None:
        code, offset = None, UNKNOWN_OFFSET
        if response is not None:
            answer = response.responses[0].partition_responses[0]
            code, offset = answer.error_code, answer.base_offset
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._finish(Outcome.ACKNOWLEDGED, offset)
        elif self._is_idempotent and code not in BROKEN_SEQUENCE and not self.is_stopped:
            self._is_retry = True
            self.refresh(self._attempt)
        else:
            if code in BROKEN_SEQUENCE:
                self._producer_id = NO_PRODUCER_ID
            is_refused = code in REFUSED and not self._is_retry
            self._finish(Outcome.FAILED if is_refused else Outcome.UNKNOWN)

    def _finish(self, outcome: Outcome, offset: int = UNKNOWN_OFFSET) -> None:
        now_ms = self.schedule.monotonic_ms()
        for place, write in enumerate(self._batch):
            write.outcome = outcome
            write.ended_ms = now_ms
            if offset >= 0:
                write.offset = offset + place
            if outcome is Outcome.ACKNOWLEDGED and self._history.on_acknowledged is not None:
                self._history.on_acknowledged(write)
        if outcome is Outcome.ACKNOWLEDGED:
            partition = self._batch[0].partition
            self._sequences[partition] = self._sequences.get(partition, 0) + len(self._batch)
        elif self._is_idempotent:
            self._producer_id = NO_PRODUCER_ID  # its next sequence number is not known
        self._cluster.trace.count(f"{self._batch[0].value!r} {outcome.value} {offset}")
        self._batch = []
        pause_ms = self.generator.choice((0, 5, 20, 100))
        if outcome is Outcome.ACKNOWLEDGED:
            self.schedule.after(pause_ms, self._begin)
        else:
            self.refresh(self._begin)
