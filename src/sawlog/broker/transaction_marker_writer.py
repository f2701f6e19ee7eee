"""Writes transaction markers to the partitions that this broker leads."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from sawlog.cluster.internal_topics import CONSUMER_OFFSETS
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.control_records import ControlType, EndTransactionMarker, marker_batch
from sawlog.protocol.record_batch import read_header
from sawlog.storage.append_origin import AppendOrigin

if TYPE_CHECKING:
    from sawlog.broker.group_coordinator import GroupCoordinator
    from sawlog.broker.replicas import Replicas
    from sawlog.core.ids import TopicPartition
    from sawlog.core.ports import Clock

OnWritten = Callable[[ErrorCode], None]

_COORDINATOR_ERRORS = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors of the group coordinator that the transaction coordinator knows as
NOT_LEADER_OR_FOLLOWER, as in Kafka: it finds the leader again and retries."""


class Marker(NamedTuple):
    """The end of one producer's transaction, as WriteTxnMarkers describes it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int

    def batch(self, now_ms: int) -> memoryview:
        kind = ControlType.COMMIT if self.is_commit else ControlType.ABORT
        marker = EndTransactionMarker(kind, self.coordinator_epoch)
        return memoryview(marker_batch(marker, self.producer_id, self.producer_epoch, now_ms))


class TransactionMarkerWriter:
    """Markers for `__consumer_offsets` go through the group coordinator, which applies or drops the
    offsets of the transaction; all others are appended to the log."""

    def __init__(self, replicas: "Replicas", groups: "GroupCoordinator", clock: "Clock") -> None:
        self._replicas = replicas
        self._groups = groups
        self._clock = clock

    def write(self, partition: "TopicPartition", marker: Marker, done: OnWritten) -> None:
        """Write a marker and call `done` once: with NONE when it is committed, else with the
        error."""

        def committed(error: KafkaError | None) -> None:
            code = ErrorCode.NONE if error is None else error.code
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _COORDINATOR_ERRORS else code)

        try:
            replica = self._replicas.leader(*partition)
            if partition.topic == CONSUMER_OFFSETS.name:
                self._groups.complete_transaction(
                    partition.partition,
                    marker.producer_id,
                    marker.producer_epoch,
                    marker.coordinator_epoch,
                    is_commit=marker.is_commit,
                    transaction_version=marker.transaction_version,
                    done=committed,
                )
                return
            replica.check_min_in_sync()
            batch = marker.batch(self._clock.now_ms())
            appended = replica.append(
                batch,
                read_header(batch),
                origin=AppendOrigin.COORDINATOR,
                is_awaited=True,
                transaction_version=marker.transaction_version,
            )
        except KafkaError as error:
            committed(error)
            return
        replica.when_committed(appended.base_offset + 1, committed)
