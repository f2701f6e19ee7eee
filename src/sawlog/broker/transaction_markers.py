"""Sends the markers of prepared transactions to the leaders of their partitions.

Kafka's TransactionMarkerChannelManager. A marker is retried until its leader has written it,
wherever the leader moves; a partition that no longer exists needs none. Markers for one broker are
sent in one request at a time, and those that become due meanwhile go with the next.
"""

from collections.abc import Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING

from sawlog.broker.transaction_marker_writer import Marker
from sawlog.cluster.metadata_image import NO_NODE
from sawlog.core.errors import ErrorCode, error_name
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from sawlog.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse
from sawlog.transactions.transaction_records import by_topic
from sawlog.transactions.transaction_state import TransactionState

if TYPE_CHECKING:
    from sawlog.broker.metadata_cache import MetadataCache
    from sawlog.broker.peer_connections import PeerConnections
    from sawlog.broker.transaction_marker_writer import TransactionMarkerWriter
    from sawlog.core.ids import NodeId
    from sawlog.core.ports import Timer
    from sawlog.protocol.peers import PeerError
    from sawlog.protocol.schema import Message
    from sawlog.transactions.transaction import Transaction
    from sawlog.transactions.transaction_machine import TransactionMachine

logger = EventLogger(__name__)

RETRY_MS = 100
"""Delay before a marker is sent again after an error, or while its partition has no leader."""

_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
_NOT_NEEDED = (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION)


class _PreparedTransaction:
    """A transaction whose markers are being written. Invariant: `left` has the partitions whose
    leaders have not written theirs."""

    __slots__ = ("left", "marker", "owner", "transaction")

    def __init__(
        self, owner: "CoordinatorMarkers", transaction: "Transaction", coordinator_epoch: int
    ) -> None:
        self.owner = owner
        self.transaction = transaction
        self.left = set(transaction.partitions)
        self.marker = Marker(
            transaction.producer_id,
            transaction.epoch,
            coordinator_epoch,
            transaction.state is TransactionState.PREPARE_COMMIT,
            transaction.client_version,
        )

    @property
    def is_current(self) -> bool:
        return self.owner.is_current(self)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions have their marker, or need none."""
        self.left.difference_update(partitions)
        if not self.left:
            self.owner.written(self)


class CoordinatorMarkers:
    """The markers of the transactions of one partition of `__transaction_state`, in one epoch of
    its coordinator."""

    def __init__(self, sender: "TransactionMarkers", coordinator_epoch: int) -> None:
        self._sender = sender
        self._coordinator_epoch = coordinator_epoch
        self._prepared: dict[str, _PreparedTransaction] = {}
        self._machine: TransactionMachine | None = None

    def attach(self, machine: "TransactionMachine") -> None:
        """Set the machine that is told when all markers of a transaction are written."""
        self._machine = machine

    def send(self, transaction: "Transaction") -> None:
        prepared = _PreparedTransaction(self, transaction, self._coordinator_epoch)
        self._prepared[transaction.transactional_id] = prepared
        if prepared.left:
            self._sender.send(prepared, tuple(prepared.left))
        else:
            self.written(prepared)

    def cancel(self) -> None:
        self._prepared.clear()

    def is_current(self, prepared: _PreparedTransaction) -> bool:
        return self._prepared.get(prepared.transaction.transactional_id) is prepared

    def written(self, prepared: _PreparedTransaction) -> None:
        if self.is_current(prepared):
            transaction = prepared.transaction
            del self._prepared[transaction.transactional_id]
            assert self._machine is not None
            self._machine.markers_written(transaction.transactional_id, transaction.producer)

    def abandon(self, prepared: _PreparedTransaction) -> None:
        """Write no more markers of a transaction: a leader has seen a later producer epoch or a
        later coordinator, so another coordinator decides about it."""
        self._prepared.pop(prepared.transaction.transactional_id, None)


_Share = tuple[_PreparedTransaction, tuple[TopicPartition, ...]]
"""A transaction with those of its partitions that one broker leads."""


class TransactionMarkers:
    """Invariant: at most one request is under way to each broker; `_waiting` has what is to be
    sent to it next."""

    def __init__(
        self,
        node_id: "NodeId",
        metadata: "MetadataCache",
        connections: "PeerConnections",
        timer: "Timer",
        writer: "TransactionMarkerWriter",
        *,
        timeout_ms: int,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._connections = connections
        self._timer = timer
        self._writer = writer
        self._timeout_ms = timeout_ms
        self._waiting: dict[NodeId, list[_Share]] = {}
        self._under_way: set[NodeId] = set()

    def of_coordinator(self, coordinator_epoch: int) -> CoordinatorMarkers:
        return CoordinatorMarkers(self, coordinator_epoch)

    def close(self) -> None:
        self._connections.close()

    def send(self, prepared: _PreparedTransaction, partitions: Collection[TopicPartition]) -> None:
        """Send a marker to the present leader of each partition."""
        if not prepared.is_current:
            return
        by_leader: dict[NodeId, list[TopicPartition]] = {}
        deleted = []
        for partition in sorted(partitions):
            leader = self._leader_of(partition)
            if leader is None:
                deleted.append(partition)
            else:
                by_leader.setdefault(leader, []).append(partition)
        if deleted:
            logger.info(
                "no marker for deleted partitions",
                transactional_id=prepared.transaction.transactional_id,
                partitions=", ".join(map(str, deleted)),
            )
            prepared.drop(deleted)
        for leader, led in by_leader.items():
            if leader == self._node_id:
                for partition in led:
                    self._writer.write(
                        partition, prepared.marker, partial(self._answered, prepared, partition)
                    )
            elif leader == NO_NODE:
                self._retry(prepared, led)
            else:
                self._waiting.setdefault(leader, []).append((prepared, tuple(led)))
                self._send_waiting(leader)

    def _leader_of(self, partition: TopicPartition) -> "NodeId | None":
        """Return the leader; NO_NODE if there is none now, None if there is no such partition."""
        image = self._metadata.image
        state = image.partition(*partition)
        if state is None:
            return None
        return state.leader if state.leader in image.brokers else NO_NODE

    def _retry(
        self, prepared: _PreparedTransaction, partitions: Collection[TopicPartition]
    ) -> None:
        self._timer.after(RETRY_MS, partial(self.send, prepared, partitions))

    def _answered(
        self, prepared: _PreparedTransaction, partition: TopicPartition, code: ErrorCode
    ) -> None:
        """Take the answer for one partition."""
        if not prepared.is_current:
            return
        if code is ErrorCode.NONE or code in _NOT_NEEDED:
            prepared.drop((partition,))
            return
        logger.info(
            "transaction marker refused",
            transactional_id=prepared.transaction.transactional_id,
            partition=str(partition),
            reason=code.name,
        )
        if code in _FENCED:
            prepared.owner.abandon(prepared)
        else:
            self._retry(prepared, (partition,))

    # Other brokers

    def _send_waiting(self, node: "NodeId") -> None:
        if node in self._under_way:
            return
        shares = [share for share in self._waiting.pop(node, ()) if share[0].is_current]
        if not shares:
            return
        connection = self._connections.to(node)
        if connection is None:
            for prepared, partitions in shares:
                self._retry(prepared, partitions)
            return
        self._under_way.add(node)
        connection.send(
            WriteTxnMarkersRequest([_request_marker(*share) for share in shares]),
            partial(self._received, node, shares),
            timeout_ms=self._timeout_ms,
        )

    def _received(
        self, node: "NodeId", shares: list[_Share], response: "Message | PeerError"
    ) -> None:
        self._under_way.discard(node)
        codes: dict[tuple[int, TopicPartition], ErrorCode] = {}
        if isinstance(response, WriteTxnMarkersResponse):
            codes = _codes(response)
        for prepared, partitions in shares:
            unanswered = []
            for partition in partitions:
                code = codes.get((prepared.marker.producer_id, partition))
                if code is None:
                    unanswered.append(partition)
                else:
                    self._answered(prepared, partition, code)
            if unanswered:
                self._retry(prepared, unanswered)
        self._send_waiting(node)


def _request_marker(
    prepared: _PreparedTransaction, partitions: Iterable[TopicPartition]
) -> WritableTxnMarker:
    marker = prepared.marker
    return WritableTxnMarker(
        marker.producer_id,
        marker.producer_epoch,
        marker.is_commit,
        [WritableTxnMarkerTopic(topic, found) for topic, found in by_topic(partitions).items()],
        marker.coordinator_epoch,
        marker.transaction_version,
    )


def _codes(response: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], ErrorCode]:
    codes = {}
    for marker in response.markers:
        for topic in marker.topics:
            for found in topic.partitions:
                name = TopicPartition(TopicName(topic.name), PartitionIndex(found.partition_index))
                codes[marker.producer_id, name] = _code(found.error_code)
    return codes


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        logger.warning("unknown error code", code=error_name(number))
        return ErrorCode.UNKNOWN_SERVER_ERROR
