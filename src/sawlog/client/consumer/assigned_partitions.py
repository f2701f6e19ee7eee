"""The partitions that a consumer reads: their positions, and the records fetched ahead.

An offset that the log does not have (OFFSET_OUT_OF_RANGE) is reset or raised here. While records
are handed out, fetches of other partitions are in flight. For one thread.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from sawlog.client.admin.list_offsets import LATEST, list_offsets
from sawlog.client.consumer.fetched_records import (
    ConsumedRecord,
    FetchedRecords,
    aborted_transactions,
    holds_a_batch,
)
from sawlog.client.consumer.fetcher import Fetcher, FetchLimits, PartitionFetch
from sawlog.client.consumer.start_positions import (
    AT_EARLIEST,
    AT_LATEST,
    RESET_STARTS,
    AtOffset,
    AtTime,
    OffsetReset,
    Start,
)
from sawlog.client.errors import ClientError, kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.core.ports import FileSlice
from sawlog.protocol.messages.fetch_response import PartitionData

if TYPE_CHECKING:  # pyarrow is an extra
    from sawlog.client.arrow.record_columns import RecordColumns


class AssignedPartitions:
    """Positions, pauses and fetched records of the assigned partitions.

    `positions` has the offset after the last record taken of each partition; `ends` has the end
    that the last fetch reported: the high watermark, or under read_committed the last stable
    offset.
    """

    def __init__(
        self,
        cluster: Cluster,
        limits: FetchLimits,
        *,
        read_committed: bool,
        offset_reset: OffsetReset,
        max_decompressed_bytes: int,
    ) -> None:
        self._cluster = cluster
        self._read_committed = read_committed
        self._offset_reset = offset_reset
        self._max_decompressed_bytes = max_decompressed_bytes
        self._fetcher = Fetcher(cluster, limits, read_committed=read_committed)
        self.positions: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self._fetched: deque[FetchedRecords] = deque()
        # Paused partitions, with records fetched before the pause
        self._paused: dict[TopicPartition, FetchedRecords | None] = {}

    def set_positions(self, positions: Mapping[TopicPartition, int]) -> None:
        """Assign partitions, or move their positions; other partitions stay as they are."""
        self._drop_fetched(positions)
        self._fetcher.drop_failure()  # of the earlier positions
        self.positions.update(positions)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions from the assignment."""
        removed = frozenset(partitions)
        self._drop_fetched(removed)
        self._fetcher.drop_failure()
        for partition in removed:
            self._paused.pop(partition, None)
            self.positions.pop(partition, None)
            self.ends.pop(partition, None)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(self._paused)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            if partition not in self._paused:
                held = [each for each in self._fetched if each.partition == partition]
                self._paused[partition] = held[0] if held else None
        self._fetched = deque(e for e in self._fetched if e.partition not in self._paused)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            fetched = self._paused.pop(partition, None)
            if fetched is not None:
                self._fetched.append(fetched)

    def poll_once(self, take: Callable[[], bool]) -> bool:
        """Receive fetches, let `take` take records, and send the next fetches.

        Returns whether `take` found records. A failure is raised only if it did not; otherwise the
        next call raises it.
        """
        self._fetcher.raise_failure()
        self._take_responses()
        has_found = take()
        self._fetch_ahead()
        if not has_found:
            self._fetcher.raise_failure()
        return has_found

    def wait(self, timeout_ms: float, wakeup: int) -> None:
        """Wait until a response arrives or the descriptor `wakeup` can be read."""
        self._fetcher.wait(timeout_ms, [wakeup])

    def _take_responses(self) -> None:
        for fetch in self._fetcher.take_responses():
            try:
                self._take_response(fetch)
            except (KafkaError, ClientError) as error:
                self._fetcher.fail(error)

    def _drop_fetched(self, partitions: Iterable[TopicPartition]) -> None:
        removed = frozenset(partitions)
        self._fetched = deque(kept for kept in self._fetched if kept.partition not in removed)
        for partition in removed & self._paused.keys():
            self._paused[partition] = None

    def take_columns(self, taken: "RecordColumns") -> None:
        while self._fetched:
            fetched = self._fetched[0]
            try:
                is_empty = taken.take(fetched)
            except KafkaError:
                self._fetched.popleft()
                raise
            self.positions[fetched.partition] = fetched.position
            if not is_empty:
                return
            self._fetched.popleft()

    def take(self, limit: int) -> list[ConsumedRecord]:
        """Return up to `limit` fetched records."""
        records: list[ConsumedRecord] = []
        while self._fetched and len(records) < limit:
            fetched = self._fetched[0]
            wanted = limit - len(records)
            try:
                taken = fetched.take(wanted)
            except KafkaError:
                if records:
                    break  # the next call raises it
                self._fetched.popleft()
                raise
            records += taken
            self.positions[fetched.partition] = fetched.position
            if len(taken) < wanted and not fetched.is_broken:
                self._fetched.popleft()
        return records

    def _fetch_ahead(self) -> None:
        """Fetch the partitions that have no fetched records."""
        held = {fetched.partition for fetched in self._fetched} | self._paused.keys()
        wanted = {
            partition: offset
            for partition, offset in self.positions.items()
            if partition not in held
        }
        if wanted:
            self._fetcher.send(wanted)

    def _take_response(self, fetch: PartitionFetch) -> None:
        partition, offset, data = fetch
        if self.positions.get(partition) != offset:
            return  # sent before a seek or a new assignment
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.reset_position(partition)
        elif data.error_code:
            text = f"the fetch of {partition} from offset {offset} was refused"
            error = kafka_error(data.error_code, text)
            self._fetcher.failed(error, [partition.topic])
        else:
            self._fetcher.succeeded()
            self._keep(partition, offset, data)

    def _keep(self, partition: TopicPartition, offset: int, data: PartitionData) -> None:
        end = data.last_stable_offset if self._read_committed else data.high_watermark
        self.ends[partition] = end
        records = data.records
        if records is None or isinstance(records, FileSlice) or not holds_a_batch(records):
            return
        fetched = FetchedRecords(
            partition,
            offset,
            records,
            aborted=aborted_transactions(data) if self._read_committed else (),
            max_decompressed_bytes=self._max_decompressed_bytes,
        )
        if partition in self._paused:
            self._paused[partition] = fetched
            return
        self._fetched.append(fetched)
        # To the end of the order, so that a full response does not always leave out the same ones.
        self.positions[partition] = self.positions.pop(partition)

    def reset_position(self, partition: TopicPartition) -> None:
        """Apply `offset_reset` to a position that the log does not have."""
        start = RESET_STARTS.get(self._offset_reset)
        if start is not None:
            self.positions.update(self.resolve({partition: start}))
            return
        first = self.resolve({partition: AT_EARLIEST})[partition]
        end = self.resolve({partition: AT_LATEST})[partition]
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition} has no offset {self.positions[partition]}: its log starts at {first} and"
            f" ends before {end}",
        )

    def resolve(self, starts: Mapping[TopicPartition, Start]) -> dict[TopicPartition, int]:
        """Return the offset of each start; the end if no record has the time or a later one."""
        for start in starts.values():
            if not isinstance(start, AtOffset | AtTime):
                raise TypeError(
                    "a start must be AT_EARLIEST, AT_LATEST, AtTime(...) or AtOffset(...),"
                    f" not {start!r}"
                )
        times = {p: start.timestamp_ms for p, start in starts.items() if isinstance(start, AtTime)}
        found = self._offsets_at(times)
        late = [partition for partition, offset in found.items() if offset < 0]
        found.update(self._offsets_at(dict.fromkeys(late, LATEST)))
        return {
            partition: start.offset if isinstance(start, AtOffset) else found[partition]
            for partition, start in starts.items()
        }

    def _offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        if not times:
            return {}
        found = list_offsets(self._cluster, times, read_committed=self._read_committed)
        return {partition: entry.offset for partition, entry in found.items()}
