"""Fetches all partitions that this broker follows from one leader (Kafka's ReplicaFetcherThread).

The leader parks a fetch until there is something to answer. If something changes here meanwhile (a
flush has ended, a partition was added), a second request is sent behind the parked one, which the
leader then answers at once. A response counts for a partition only if its request was built after
the partition's last change of epoch and its last truncation: `_FollowedPartition.valid_from`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sawlog.broker.fetch_session_handler import FetchSessionHandler, Key, SessionPartition
from sawlog.broker.leader_offsets import LeaderOffsets, report_corrupt_batch
from sawlog.core.errors import ErrorCode, KafkaError, error_name
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import NodeId
from sawlog.core.ports import DiskError
from sawlog.protocol.messages.fetch_request import FetchRequest, ReplicaState
from sawlog.protocol.messages.fetch_response import FetchResponse, PartitionData
from sawlog.protocol.peers import PeerError
from sawlog.replication.follower import Follower, TruncationRefused
from sawlog.storage.leader_epochs import EpochEntry

if TYPE_CHECKING:
    from sawlog.broker.replication_throttle import ReplicationThrottle
    from sawlog.core.config import BrokerConfig
    from sawlog.core.ports import Timer, TimerHandle
    from sawlog.protocol.peers import PeerConnection, Peers
    from sawlog.protocol.schema import Message
    from sawlog.replication.replica import Replica

logger = EventLogger(__name__)

MAX_IN_FLIGHT = 2

STREAM_BYTES = 1 << 16
STREAM_DELAY_MS = 5
"""After a response of this size the next one is probably on its way with data, and takes the news
of a flush along. A second request before it would make the leader send the same data twice, so it
waits for this long."""

NO_SESSION_DELAY_MS = 50
"""A leader without room for a session answers at once, so fetches without records are delayed."""

FIRST_BACKOFF_MS = 20
"""After a lost connection, or while the images of the two brokers differ, the first fetch follows
soon: a new leader cannot acknowledge before its followers fetch. Each further failure in succession
doubles the time, up to replica.fetch.backoff.ms."""

_EXPECTED_ERRORS = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
"""The image of one of the two brokers is older than the other's; the next one resolves it."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The settings of a follower's fetches."""

    wait_ms: int
    min_bytes: int
    partition_bytes: int
    response_bytes: int
    backoff_ms: int
    timeout_ms: int

    def backoff_after(self, failures: int) -> int:
        """The time before the next fetch, after this many failures in succession."""
        return min(self.backoff_ms, FIRST_BACKOFF_MS << min(failures - 1, 16))

    @classmethod
    def of(cls, config: "BrokerConfig") -> "FetchLimits":
        return cls(
            config["replica.fetch.wait.max.ms"],
            config["replica.fetch.min.bytes"],
            config["replica.fetch.max.bytes"],
            config["replica.fetch.response.max.bytes"],
            config["replica.fetch.backoff.ms"],
            config["replica.socket.timeout.ms"],
        )


@dataclass(slots=True)
class FetchTotals:
    """The fetches from one leader since the start of the broker."""

    requests: int = 0
    bytes: int = 0  # of record batches that were appended


class _FollowedPartition:
    """One partition in one leader epoch."""

    __slots__ = (
        "_delay",
        "_is_resolving",
        "follower",
        "is_failed",
        "key",
        "refusals",
        "topic",
        "valid_from",
    )

    def __init__(self, replica: "Replica", follower: Follower, valid_from: int) -> None:
        self.key: Key = (replica.topic_id, replica.name.partition)
        self.topic = replica.name.topic
        self.follower = follower
        self.valid_from = valid_from
        """The number of the first request whose response counts."""
        self._delay: TimerHandle | None = None  # after an error
        self._is_resolving = False  # asks for the leader's offsets
        self.is_failed = False  # until the next leader epoch
        self.refusals = 0  # by the leader, in succession

    @property
    def is_fetchable(self) -> bool:
        return self._delay is None and not self._is_resolving and not self.is_failed

    def ignore_before(self, number: int) -> None:
        """Earlier requests than `number` know nothing about the present position."""
        self.valid_from = number

    def delay(self, timer: "Timer", delay_ms: int, over: Callable[[], None]) -> None:
        """Do not fetch until `over` is called."""

        def end() -> None:
            self._delay = None
            over()

        self._delay = timer.after(delay_ms, end)

    def begin_resolving(self) -> None:
        """Do not fetch while the leader is asked for its offsets."""
        self._is_resolving = True

    def end_resolving(self) -> None:
        self._is_resolving = False

    def refused(self) -> int:
        """Count a refusal by the leader; returns how many there were in succession."""
        self.refusals += 1
        return self.refusals

    def accepted(self) -> None:
        self.refusals = 0

    def fail(self) -> None:
        """Do not fetch until the next leader epoch."""
        self.is_failed = True

    def stop(self) -> None:
        """Forget timer and flushes: the partition is not followed any more, or in another epoch."""
        self.follower.notify_flushes(None)
        if self._delay is not None:
            self._delay.cancel()

    def parameters(self, max_bytes: int) -> SessionPartition | None:
        """The parameters of the next fetch; None if the partition is not to be fetched now."""
        if not self.is_fetchable:
            return None
        position = self.follower.position
        return SessionPartition(
            self.topic,
            self.follower.epoch,
            position.fetch_offset,
            position.last_fetched_epoch,
            position.log_start_offset,
            position.flushed_offset,
            max_bytes,
        )


class _Connections:
    """The two connections to one address: for Fetch, and for everything else."""

    __slots__ = ("_offsets", "_peers", "address", "fetches")

    def __init__(self, peers: "Peers", address: tuple[str, int]) -> None:
        self._peers = peers
        self.address = address
        self.fetches = peers.connect(*address)
        self._offsets: PeerConnection | None = None

    @property
    def offsets(self) -> "PeerConnection":
        if self._offsets is None:
            self._offsets = self._peers.connect(*self.address)
        return self._offsets

    def close(self) -> None:
        self.fetches.close()
        if self._offsets is not None:
            self._offsets.close()


class ReplicaFetcher:
    """The fetches from one leader.

    Invariants: at most MAX_IN_FLIGHT requests are in flight, a second one only in an open session;
    `_changed` has every partition whose parameters may differ from those in the session.
    """

    def __init__(
        self,
        leader: NodeId,
        node_id: NodeId,
        peers: "Peers",
        timer: "Timer",
        limits: FetchLimits,
        broker_epoch: Callable[[], int],
        totals: FetchTotals,
        throttle: "ReplicationThrottle",
    ) -> None:
        """`broker_epoch` returns the epoch under which this broker is registered."""
        self._totals = totals
        self._throttle = throttle
        self._leader = leader
        self._node_id = node_id
        self._peers = peers
        self._timer = timer
        self._limits = limits
        self._broker_epoch = broker_epoch
        self._partitions: dict[Key, _FollowedPartition] = {}
        self._changed: dict[Key, None] = {}
        self._session = FetchSessionHandler()
        self._connections: _Connections | None = None
        self._next_number = 0
        self._in_flight = 0
        self._last_bytes = 0  # of records in the last response
        self._session_errors = 0  # in succession
        self._losses = 0  # of the connection, in succession
        self._delay: TimerHandle | None = None  # after a lost connection
        self._flush_delay: TimerHandle | None = None
        self._pending: TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def failed(self) -> list[str]:
        """The partitions that are not fetched until their next leader epoch."""
        return [f"{p.topic}-{p.key[1]}" for p in self._partitions.values() if p.is_failed]

    @property
    def max_lag(self) -> int:
        """The largest lag of a partition, in records."""
        return max((p.follower.lag for p in self._partitions.values()), default=0)

    # Partitions and addresses

    def follow(self, replica: "Replica", follower: Follower) -> None:
        """Fetch a partition from now on, or in another epoch than before."""
        partition = _FollowedPartition(replica, follower, self._next_number)
        known = self._partitions.get(partition.key)
        if known is not None:
            if known.follower is follower:
                return
            known.stop()
        self._partitions[partition.key] = partition
        follower.notify_flushes(lambda: self._touch(partition))
        self._touch(partition)

    def unfollow(self, key: Key) -> None:
        """Fetch a partition no more; nothing that arrives for it later counts."""
        partition = self._partitions.pop(key, None)
        if partition is not None:
            partition.stop()
            self._changed[key] = None
            self._send_soon()

    def set_address(self, address: tuple[str, int] | None) -> None:
        """Set the address of the leader; None if it is not alive."""
        if self._connections is not None:
            if self._connections.address == address:
                return
            self._disconnect()
        if address is not None:
            self._connections = _Connections(self._peers, address)
            self._send_soon()

    def close(self) -> None:
        for key in list(self._partitions):
            self.unfollow(key)
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connections is not None:
            connections, self._connections = self._connections, None
            connections.close()
        self._in_flight = 0
        self._session.failed()
        for handle in (self._delay, self._flush_delay, self._pending):
            if handle is not None:
                handle.cancel()
        self._delay = self._flush_delay = self._pending = None

    # Requests

    def _touch(self, partition: _FollowedPartition) -> None:
        """The parameters of a partition have changed."""
        self._changed[partition.key] = None
        self._send_soon()

    def _send_soon(self) -> None:
        """Send at the end of this turn, however many partitions change in it."""
        if self._pending is None and self._connections is not None:
            self._pending = self._timer.after(0, self._send_if_due)

    def _send_if_due(self) -> None:
        self._pending = None
        if self._connections is None or self._delay is not None:
            return
        if self._in_flight == 0:
            if any(partition.is_fetchable for partition in self._partitions.values()):
                self._send(self._connections)
        elif self._in_flight < MAX_IN_FLIGHT and self._session.is_open:
            changes = self._changes()
            if not self._session.has_news(changes):
                self._changed.clear()
            elif self._may_interrupt(changes):
                self._send(self._connections)

    def _may_interrupt(self, changes: dict[Key, SessionPartition | None]) -> bool:
        """Whether to send a second request now; the news of a flush can wait for a stream."""
        if self._last_bytes < STREAM_BYTES or self._session.has_news(changes, besides_flushes=True):
            return True
        if self._flush_delay is None:
            self._flush_delay = self._timer.after(STREAM_DELAY_MS, self._flush_delay_over)
        return False

    def _flush_delay_over(self) -> None:
        self._flush_delay = None
        self._last_bytes = 0
        self._send_soon()

    def _changes(self) -> dict[Key, SessionPartition | None]:
        """The parameters of the partitions to send: all without a session, else the changed."""
        limit = self._limits.partition_bytes
        keys = self._changed if self._session.is_open else self._partitions
        found: dict[Key, SessionPartition | None] = {}
        for key in keys:
            partition = self._partitions.get(key)
            found[key] = None if partition is None else partition.parameters(limit)
        return found

    def _send(self, connections: _Connections) -> None:
        limits = self._limits
        request = FetchRequest(
            replica_state=ReplicaState(self._node_id, self._broker_epoch()),
            max_wait_ms=limits.wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.response_bytes,
        )
        generation = self._session.fill(request, self._changes())
        self._changed.clear()
        number = self._next_number
        self._next_number += 1
        self._in_flight += 1
        self._totals.requests += 1
        if self._flush_delay is not None:
            self._flush_delay.cancel()
            self._flush_delay = None

        def done(result: "Message | PeerError") -> None:
            if self._connections is connections:
                self._in_flight -= 1
                self._received(result, number, generation)

        connections.fetches.send(request, done, timeout_ms=limits.timeout_ms)

    # Responses

    def _received(self, result: "Message | PeerError", number: int, generation: int) -> None:
        if not isinstance(result, FetchResponse):
            self._lost(result)
            return
        self._losses = 0
        if self._session.responded(generation, result.session_id, result.error_code):
            self._session_errors = 0
            self._process(result, number)
            if not self._session.is_open and not self._last_bytes:
                self._back_off(NO_SESSION_DELAY_MS)
        else:
            self._session_errors += 1
            error = error_name(result.error_code)
            logger.info("fetch session ended", leader=self._leader, error=error)
            if self._session_errors > 1:
                self._back_off(self._limits.backoff_ms)
        self._send_soon()

    def _lost(self, reason: object) -> None:
        self._session.failed()
        if self._delay is not None:
            return  # of the same connection
        self._losses += 1
        delay_ms = self._limits.backoff_after(self._losses)
        if self._losses == 1 or delay_ms == self._limits.backoff_ms:
            logger.warning("cannot fetch from the leader", leader=self._leader, reason=str(reason))
        self._back_off(delay_ms)

    def _back_off(self, delay_ms: int) -> None:
        if self._delay is None:
            self._delay = self._timer.after(delay_ms, self._delay_over)

    def _delay_over(self) -> None:
        self._delay = None
        self._send_soon()

    def _process(self, response: FetchResponse, number: int) -> None:
        size = 0
        for topic in response.responses:
            for data in topic.partitions:
                partition = self._partitions.get((topic.topic_id, data.partition_index))
                if partition is None or number < partition.valid_from:
                    continue
                if not partition.is_fetchable:
                    continue
                size += self._process_partition(partition, data)
        self._last_bytes = size
        self._totals.bytes += size
        self._hold_back_throttled()

    def _process_partition(self, partition: _FollowedPartition, data: PartitionData) -> int:
        """Apply the response for one partition; returns the bytes appended."""
        self._changed[partition.key] = None
        appended = 0
        try:
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._resolve(partition)
            elif data.error_code:
                self._delay_partition(partition, data.error_code, "the leader refused the fetch")
                if data.error_code == ErrorCode.CORRUPT_MESSAGE:
                    self._report_corruption(partition)
            elif data.diverging_epoch.epoch >= 0:
                self._truncate(partition, data)
            else:
                partition.accepted()
                appended = self._append(partition, data)
        except TruncationRefused as refused:
            self._fail(partition, refused)
        except KafkaError as error:
            self._delay_partition(partition, error.code, str(error))
            if error.code == ErrorCode.CORRUPT_MESSAGE:
                self._report_corruption(partition)
        except DiskError as error:
            self._delay_partition(partition, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        except Exception:
            logger.exception("replica cannot follow", log=str(partition.follower.log.tp))
            partition.fail()
        return appended

    def _append(self, partition: _FollowedPartition, data: PartitionData) -> int:
        appended = partition.follower.append(
            memoryview(data.records or b""),  # type: ignore[arg-type]  # a response has no slices
            leader_high_watermark=data.high_watermark,
            leader_start_offset=data.log_start_offset,
            is_awaited=data.is_awaited,
        )
        if appended:  # the others come first in the next full request
            self._throttle.received(partition.topic, partition.key[1], appended)
            del self._partitions[partition.key]
            self._partitions[partition.key] = partition
        return appended

    def _truncate(self, partition: _FollowedPartition, data: PartitionData) -> None:
        log = partition.follower.log
        end_offset = log.end_offset
        diverging = data.diverging_epoch
        partition.ignore_before(self._next_number)
        partition.follower.truncate(EpochEntry(diverging.epoch, diverging.end_offset))
        if log.end_offset == end_offset:
            self._delay_partition(partition, 0, "the diverging epoch removes no record")

    # Errors of a partition

    def _resolve(self, partition: _FollowedPartition) -> None:
        """The leader does not have the fetch offset: ask where its log begins and ends."""
        partition.begin_resolving()
        partition.ignore_before(self._next_number)
        connections = self._connections
        assert connections is not None

        def found(offsets: tuple[int, int] | KafkaError | PeerError) -> None:
            if self._partitions.get(partition.key) is partition:
                partition.end_resolving()
                self._resolved(partition, offsets)

        LeaderOffsets(
            connections.offsets,
            self._node_id,
            partition.topic,
            partition.key[1],
            partition.follower.epoch,
            found,
        ).ask(self._limits.timeout_ms)

    def _resolved(
        self, partition: _FollowedPartition, offsets: tuple[int, int] | KafkaError | PeerError
    ) -> None:
        follower = partition.follower
        position = follower.position
        try:
            if isinstance(offsets, tuple):
                follower.out_of_range(*offsets)
        except TruncationRefused as refused:
            self._fail(partition, refused)
        except (KafkaError, DiskError) as error:
            offsets = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        if not isinstance(offsets, tuple):
            code = offsets.code if isinstance(offsets, KafkaError) else 0
            self._delay_partition(partition, code, str(offsets))
        elif follower.position == position and not partition.is_failed:
            self._delay_partition(partition, ErrorCode.OFFSET_OUT_OF_RANGE, "offset out of range")
        self._touch(partition)

    def _delay_partition(self, partition: _FollowedPartition, code: int, reason: str) -> None:
        """Fetch a partition again after replica.fetch.backoff.ms, or sooner if the leader is
        probably only behind with its image."""
        is_expected = code in _EXPECTED_ERRORS
        backoff_ms = self._limits.backoff_ms
        delay_ms = self._limits.backoff_after(partition.refused()) if is_expected else backoff_ms
        tp = partition.follower.log.tp
        level = logger.info if is_expected else logger.warning
        level(
            "partition not fetched",
            log=str(tp),
            leader=self._leader,
            leader_epoch=partition.follower.epoch,
            error=error_name(code),
            reason=reason,
        )
        partition.ignore_before(self._next_number)
        partition.delay(self._timer, delay_ms, partial(self._fetch_again, partition))

    def _hold_back_throttled(self) -> None:
        """Leave throttled partitions out of fetches while their quota is exceeded (KIP-73)."""
        if not self._throttle.fetch_delay_ms():
            return
        for partition in self._partitions.values():
            if partition.is_fetchable and self._is_held_back(partition):
                self._changed[partition.key] = None
                self._hold_back(partition)

    def _is_held_back(self, partition: _FollowedPartition) -> bool:
        topic, index = partition.topic, partition.key[1]
        return partition.follower.lag > 0 and self._throttle.holds_back_fetch(topic, index)

    def _hold_back(self, partition: _FollowedPartition) -> None:
        """Do not fetch a partition until the quota allows it; a new rate counts soon."""

        def over() -> None:
            if self._partitions.get(partition.key) is not partition:
                return
            if self._throttle.fetch_delay_ms() and self._is_held_back(partition):
                self._hold_back(partition)
            else:
                self._touch(partition)

        delay_ms = min(self._throttle.fetch_delay_ms(), self._limits.wait_ms)
        partition.delay(self._timer, delay_ms, over)

    def _report_corruption(self, partition: _FollowedPartition) -> None:
        """Tell the leader that the next batch cannot be appended. It is fetched again after the
        delay, from another leader if this one finds its copy corrupt."""
        assert self._connections is not None
        report_corrupt_batch(
            self._connections.offsets,
            self._node_id,
            partition.topic,
            partition.key[1],
            partition.follower.epoch,
            partition.follower.log.end_offset,
            self._limits.timeout_ms,
        )

    def _fetch_again(self, partition: _FollowedPartition) -> None:
        if self._partitions.get(partition.key) is partition:
            self._touch(partition)

    def _fail(self, partition: _FollowedPartition, refused: TruncationRefused) -> None:
        logger.error("replica cannot follow", log=str(partition.follower.log.tp), reason=refused)
        partition.fail()
