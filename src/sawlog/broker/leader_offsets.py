"""Asks the leader of a partition where its log begins and ends.

A follower needs both if its fetch offset is out of range. OffsetForLeaderEpoch gives the log end
offset for the current epoch: ListOffsets gives the high watermark. ListOffsets also carries the
report of a corrupt batch.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import LeaderEpoch, NodeId
from sawlog.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sawlog.protocol.messages.list_offsets_response import ListOffsetsResponse
from sawlog.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from sawlog.protocol.messages.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse
from sawlog.protocol.peers import PeerError

if TYPE_CHECKING:
    from sawlog.protocol.peers import PeerConnection
    from sawlog.protocol.schema import Message

EARLIEST = -2

OnOffsets = Callable[[tuple[int, int] | KafkaError | PeerError], None]


class LeaderOffsets:
    """One question for the log start offset and the log end offset of a leader in one epoch.

    Invariant: `done` is called once.
    """

    __slots__ = ("_connection", "_done", "_epoch", "_index", "_node_id", "_start", "_topic")

    def __init__(
        self,
        connection: "PeerConnection",
        node_id: NodeId,
        topic: str,
        index: int,
        epoch: LeaderEpoch,
        done: OnOffsets,
    ) -> None:
        self._connection = connection
        self._node_id = node_id
        self._topic = topic
        self._index = index
        self._epoch = epoch
        self._done = done
        self._start: int | KafkaError | PeerError = PeerError("no response yet")

    def ask(self, timeout_ms: int) -> None:
        """Send both requests; their responses come in this order."""
        earliest = ListOffsetsPartition(self._index, self._epoch, EARLIEST)
        topic = ListOffsetsTopic(self._topic, [earliest])
        self._connection.send(
            ListOffsetsRequest(self._node_id, topics=[topic]),
            self._start_found,
            timeout_ms=timeout_ms,
        )
        own_epoch = OffsetForLeaderPartition(self._index, self._epoch, self._epoch)
        epoch_topic = OffsetForLeaderTopic(self._topic, [own_epoch])
        self._connection.send(
            OffsetForLeaderEpochRequest(self._node_id, [epoch_topic]),
            self._end_found,
            timeout_ms=timeout_ms,
        )

    def _start_found(self, result: "Message | PeerError") -> None:
        if isinstance(result, PeerError):
            self._start = result
            return
        assert isinstance(result, ListOffsetsResponse)
        [found] = result.topics[0].partitions
        self._start = _error(found.error_code) if found.error_code else found.offset

    def _end_found(self, result: "Message | PeerError") -> None:
        if not isinstance(self._start, int):
            self._done(self._start)
        elif isinstance(result, PeerError):
            self._done(result)
        else:
            assert isinstance(result, OffsetForLeaderEpochResponse)
            [found] = result.topics[0].partitions
            if found.error_code:
                self._done(_error(found.error_code))
            else:
                self._done((self._start, found.end_offset))


def report_corrupt_batch(
    connection: "PeerConnection",
    node_id: NodeId,
    topic: str,
    index: int,
    epoch: LeaderEpoch,
    offset: int,
    timeout_ms: int,
) -> None:
    """Tell the leader that the batch which it sent for `offset` is corrupt. It checks its own copy;
    if the report is lost, the next fetch of the batch causes another one."""
    partition = ListOffsetsPartition(index, epoch, EARLIEST, offset)
    connection.send(
        ListOffsetsRequest(node_id, topics=[ListOffsetsTopic(topic, [partition])]),
        lambda _: None,
        timeout_ms=timeout_ms,
    )


def _error(code: int) -> KafkaError:
    try:
        return KafkaError(ErrorCode(code))
    except ValueError:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"error code {code}")
