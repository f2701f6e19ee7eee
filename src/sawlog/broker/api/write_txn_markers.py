"""WriteTxnMarkers, versions 1 and 2: a coordinator's decisions on transactions, from its broker.

An administrator sends it too, to abort a hanging transaction (KIP-664). From version 2 on a marker
tells its transaction.version (KIP-1228). The response leaves when all markers are committed, or
refused.
"""

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sawlog.broker.gather_replies import gather
from sawlog.broker.transaction_marker_writer import Marker
from sawlog.core.ids import PartitionIndex, TopicName, TopicPartition
from sawlog.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from sawlog.broker.request import Request
    from sawlog.broker.transaction_marker_writer import TransactionMarkerWriter
    from sawlog.core.errors import ErrorCode
    from sawlog.core.ports import Timer
    from sawlog.protocol.messages.write_txn_markers_request import (
        WritableTxnMarker,
        WriteTxnMarkersRequest,
    )

    class WriteTxnMarkersContext(Protocol):
        marker_writer: TransactionMarkerWriter
        timer: Timer


class _Write(NamedTuple):
    """One marker for one partition."""

    marker: Marker
    partition: TopicPartition


def write_txn_markers(
    context: "WriteTxnMarkersContext", request: "Request", message: "WriteTxnMarkersRequest"
) -> None:
    writes = [write for marker in message.markers for write in _writes(marker)]
    queries = [
        partial(context.marker_writer.write, write.partition, write.marker) for write in writes
    ]

    def reply(codes: "list[ErrorCode]") -> None:
        markers: dict[int, WritableTxnMarkerResult] = {}
        for (written, (topic, index)), code in zip(writes, codes, strict=True):
            result = WritableTxnMarkerResult(written.producer_id)
            topics = markers.setdefault(written.producer_id, result).topics
            found = next((each for each in topics if each.name == topic), None)
            if found is None:
                found = WritableTxnMarkerTopicResult(topic)
                topics.append(found)
            found.partitions.append(WritableTxnMarkerPartitionResult(index, int(code)))
        request.reply(WriteTxnMarkersResponse(list(markers.values())))

    gather(queries, reply, context.timer)


def _writes(marker: "WritableTxnMarker") -> list[_Write]:
    wanted = Marker(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
    )
    return [
        _Write(wanted, TopicPartition(TopicName(topic.name), PartitionIndex(index)))
        for topic in marker.topics
        for index in topic.partition_indexes
    ]
