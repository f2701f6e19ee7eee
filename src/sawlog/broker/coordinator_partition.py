"""A replica as a coordinator sees it: the adapter between `replication/` and `coordinator/`."""

from typing import TYPE_CHECKING

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ports import DiskError
from sawlog.protocol.record_batch import read_header
from sawlog.storage.append_origin import AppendOrigin

if TYPE_CHECKING:
    from sawlog.coordinator.partition_access import OnCommitted
    from sawlog.core.ids import ProducerId, TopicPartition
    from sawlog.replication.replica import Replica
    from sawlog.storage.transaction_verification import VerificationGuard

NO_SEQUENCE = -1
"""A coordinator's transactional batches have no sequence numbers."""


class CoordinatorPartition:
    """The PartitionWriter and PartitionReader of one replica in one leader epoch of this broker.

    Later epochs need another: the records in between may be of another coordinator (KAFKA-20634).
    """

    __slots__ = ("_leader_epoch", "_partition")

    def __init__(self, partition: "Replica") -> None:
        self._partition = partition
        self._leader_epoch = partition.leader_epoch

    def _check_epoch(self) -> None:
        if self._partition.leader_epoch != self._leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    @property
    def name(self) -> "TopicPartition":
        return self._partition.name

    # PartitionWriter

    @property
    def max_batch_bytes(self) -> int:
        return self._partition.log.config.max_message_bytes

    def append(
        self,
        batch: memoryview,
        *,
        is_awaited: bool,
        guard: "VerificationGuard | None" = None,
        transaction_version: int = 0,
    ) -> int:
        self._check_epoch()
        if self._partition.is_under_min_isr:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        header = read_header(batch)
        appended = self._partition.append(
            batch,
            header,
            origin=AppendOrigin.COORDINATOR,
            is_awaited=is_awaited,
            guard=guard,
            transaction_version=transaction_version,
        )
        return appended.base_offset + header.last_offset_delta + 1

    def begin_verification(
        self, producer_id: "ProducerId", producer_epoch: int, *, supports_epoch_bump: bool
    ) -> "VerificationGuard | None":
        self._check_epoch()
        return self._partition.log.begin_verification(
            producer_id, NO_SEQUENCE, producer_epoch, supports_epoch_bump=supports_epoch_bump
        )

    def when_committed(self, offset: int, action: "OnCommitted") -> None:
        try:
            self._check_epoch()
        except KafkaError as error:
            action(error)
            return
        self._partition.when_committed(offset, action)

    # PartitionReader

    @property
    def start_offset(self) -> int:
        return self._partition.log.start_offset

    @property
    def end_offset(self) -> int:
        return self._partition.log.end_offset

    def read(self, offset: int, max_bytes: int, *, limit_offset: int) -> bytes | None:
        self._check_epoch()
        try:
            found = self._partition.log.read(
                offset, max_bytes, limit_offset=limit_offset, whole_first_batch=True
            )
            return None if found is None else found.read()
        except DiskError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
