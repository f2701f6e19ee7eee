"""Transactions for administrators: list and describe them, fence producers, abort hanging ones.

A transaction hangs if a partition has it open and its coordinator does not know of it: no marker
will ever end it, and read_committed consumers wait for ever (KIP-664, KIP-890).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sawlog.client.errors import ErrorsByName, kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.client.net.connection import Connection
from sawlog.client.net.coordinator_requests import (
    Coordinators,
    CoordinatorType,
    GroupResults,
    require_version,
    transaction_id_error,
)
from sawlog.client.net.leader_requests import group_by_topic, partition_of, send_to_leaders
from sawlog.client.net.metadata import Node
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import NodeId, TopicPartition
from sawlog.protocol.apis import ApiKey
from sawlog.protocol.messages import describe_producers_request as producers_request
from sawlog.protocol.messages.describe_producers_response import DescribeProducersResponse
from sawlog.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from sawlog.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TransactionState,
)
from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
from sawlog.protocol.messages.init_producer_id_response import InitProducerIdResponse
from sawlog.protocol.messages.list_transactions_request import ListTransactionsRequest
from sawlog.protocol.messages.list_transactions_response import ListTransactionsResponse
from sawlog.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from sawlog.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse

_FIRST_VERSION_WITH_DURATION = 1
_FIRST_VERSION_WITH_PATTERN = 2
_SHORTEST_TIMEOUT_MS = 1  # of the transactions of a producer that only fences others
_PARTITIONS_PER_REQUEST = 500


@dataclass(frozen=True, slots=True)
class TransactionListing:
    transactional_id: str
    producer_id: int
    state: str
    coordinator: NodeId


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    transactional_id: str
    coordinator: NodeId
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None  # None: no transaction is open
    partitions: tuple[TopicPartition, ...]  # without those that have their marker


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer that has written to a partition."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int  # -1 before the first marker
    transaction_start_offset: int | None  # None: it has no open transaction there


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    partition: TopicPartition
    producer: ActiveProducer


class TransactionAdmin:
    """The calls of the admin client about transactions."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(cluster, CoordinatorType.TRANSACTION)

    def list(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        open_for_ms: int | None = None,
        pattern: str | None = None,
    ) -> Sequence[TransactionListing]:
        """Return the transactional ids of all coordinators, filtered by what is given.

        `open_for_ms`: only transactions that are open for longer; `pattern` (RE2) matches the whole
        id.
        """
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=-1 if open_for_ms is None else open_for_ms,
            transactional_id_pattern=pattern,
        )
        found: dict[NodeId, Sequence[TransactionListing]] = {}

        def attempt() -> None:
            for node in sorted(self._cluster.fetch_metadata([]).nodes):
                if node not in found:
                    found[node] = _list(self._cluster.connection(node), node, request)

        self._cluster.retry(attempt)
        listed = [entry for entries in found.values() for entry in entries]
        return sorted(listed, key=lambda entry: entry.transactional_id)

    def describe(
        self, transactional_ids: Iterable[str]
    ) -> tuple[dict[str, TransactionDescription], ErrorsByName]:
        """Return the ids that exist, in the given order, and the errors of the others."""
        return self._coordinators.send(transactional_ids, _describe)

    def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...]]:
        """Return the producers that the leader of each partition remembers."""
        wanted = sorted(partitions)
        found: dict[TopicPartition, tuple[ActiveProducer, ...]] = {}
        for first in range(0, len(wanted), _PARTITIONS_PER_REQUEST):
            some = wanted[first : first + _PARTITIONS_PER_REQUEST]
            found |= send_to_leaders(self._cluster, some, _describe_producers)
        return found

    def fence(self, transactional_ids: Iterable[str]) -> ErrorsByName:
        """Fence the producers of these ids, and abort their open transactions."""

        def send(connection: Connection, _: Node, ids: Sequence[str]) -> GroupResults[None]:
            for name in ids:
                request = InitProducerIdRequest(
                    transactional_id=name, transaction_timeout_ms=_SHORTEST_TIMEOUT_MS
                )
                response = connection.request(request, InitProducerIdResponse)
                if response.error_code:
                    yield name, transaction_id_error(name, response.error_code, None)
                else:
                    yield name, None

        return self._coordinators.send(transactional_ids, send)[1]

    def find_hanging(
        self, partitions: Iterable[TopicPartition], *, open_for_ms: int, now_ms: int
    ) -> Sequence[HangingTransaction]:
        """Return the hanging transactions whose last record is at least `open_for_ms` old.

        A shorter time than the longest transaction timeout may find a transaction whose records
        arrived before its coordinator knew of it.
        """
        candidates = [
            HangingTransaction(partition, producer)
            for partition, producers in self.describe_producers(partitions).items()
            for producer in producers
            if producer.transaction_start_offset is not None
            and now_ms - producer.last_timestamp >= open_for_ms
        ]
        if not candidates:
            return []
        ids = sorted({candidate.producer.producer_id for candidate in candidates})
        names = {entry.producer_id: entry.transactional_id for entry in self.list(producer_ids=ids)}
        described, _ = self.describe(names.values())
        return hanging_among(candidates, names, described)

    def abort_hanging(self, hanging: HangingTransaction) -> None:
        """Write an abort marker to the partition of the transaction."""
        partition, producer = hanging.partition, hanging.producer
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[
                WritableTxnMarkerTopic(
                    name=partition.topic, partition_indexes=[partition.partition]
                )
            ],
            # 0 is at most every coordinator's epoch: for a producer without a marker.
            coordinator_epoch=max(0, producer.coordinator_epoch),
        )

        def send(
            connection: Connection, _: Sequence[TopicPartition]
        ) -> Iterator[tuple[TopicPartition, KafkaError | None]]:
            response = connection.request(
                WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse
            )
            for result in response.markers:
                for topic in result.topics:
                    for entry in topic.partitions:
                        where = partition_of(topic.name, entry.partition_index)
                        text = f"the transaction in {where} was not aborted"
                        failed = kafka_error(entry.error_code, text) if entry.error_code else None
                        yield where, failed

        send_to_leaders(self._cluster, [partition], send)


def hanging_among(
    candidates: Iterable[HangingTransaction],
    names: Mapping[int, str],
    described: Mapping[str, TransactionDescription],
) -> Sequence[HangingTransaction]:
    """Return the candidates that no coordinator will end.

    `names` has the transactional id of each producer id. A coordinator ends a transaction in the
    partitions that its description lists.
    """

    def is_known(candidate: HangingTransaction) -> bool:
        found = described.get(names.get(candidate.producer.producer_id, ""))
        return found is not None and candidate.partition in found.partitions

    return [candidate for candidate in candidates if not is_known(candidate)]


def _list(
    connection: Connection, node: NodeId, request: ListTransactionsRequest
) -> Sequence[TransactionListing]:
    if request.duration_filter >= 0:
        require_version(connection, ApiKey.LIST_TRANSACTIONS, _FIRST_VERSION_WITH_DURATION)
    if request.transactional_id_pattern is not None:
        require_version(connection, ApiKey.LIST_TRANSACTIONS, _FIRST_VERSION_WITH_PATTERN)
    response = connection.request(request, ListTransactionsResponse)
    if response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION:
        pattern = request.transactional_id_pattern
        raise kafka_error(response.error_code, f"{pattern!r} is not a regular expression (RE2)")
    if response.error_code:
        raise kafka_error(response.error_code, f"broker {node} refused to list its transactions")
    return [
        TransactionListing(entry.transactional_id, entry.producer_id, entry.transaction_state, node)
        for entry in response.transaction_states
    ]


def _describe(
    connection: Connection, node: Node, ids: list[str]
) -> GroupResults[TransactionDescription]:
    request = DescribeTransactionsRequest(transactional_ids=ids)
    response = connection.request(request, DescribeTransactionsResponse)
    for entry in response.transaction_states:
        if entry.error_code:
            yield (
                entry.transactional_id,
                transaction_id_error(entry.transactional_id, entry.error_code, None),
            )
        else:
            yield entry.transactional_id, _description(entry, node.id)


def _description(entry: TransactionState, coordinator: NodeId) -> TransactionDescription:
    start_ms = entry.transaction_start_time_ms
    return TransactionDescription(
        entry.transactional_id,
        coordinator,
        entry.transaction_state,
        entry.producer_id,
        entry.producer_epoch,
        entry.transaction_timeout_ms,
        start_ms if start_ms >= 0 else None,
        tuple(
            sorted(
                partition_of(topic.topic, index)
                for topic in entry.topics
                for index in topic.partitions
            )
        ),
    )


def _describe_producers(
    connection: Connection, partitions: list[TopicPartition]
) -> Iterator[tuple[TopicPartition, tuple[ActiveProducer, ...] | KafkaError]]:
    request = producers_request.DescribeProducersRequest(
        topics=[
            producers_request.TopicRequest(name=name, partition_indexes=list(indexes))
            for name, indexes in group_by_topic(partitions).items()
        ]
    )
    for topic in connection.request(request, DescribeProducersResponse).topics:
        for entry in topic.partitions:
            partition = partition_of(topic.name, entry.partition_index)
            if entry.error_code:
                text = entry.error_message or f"the producers of {partition} were not described"
                yield partition, kafka_error(entry.error_code, text)
                continue
            yield (
                partition,
                tuple(
                    ActiveProducer(
                        state.producer_id,
                        state.producer_epoch,
                        state.last_sequence,
                        state.last_timestamp,
                        state.coordinator_epoch,
                        None
                        if state.current_txn_start_offset < 0
                        else state.current_txn_start_offset,
                    )
                    for state in entry.active_producers
                ),
            )
