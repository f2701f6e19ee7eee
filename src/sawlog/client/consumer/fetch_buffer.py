"""The partitions that a consumer reads: where it is in each, and what was fetched ahead of that.

While records are handed out, the next fetch of other partitions is under way. For one thread.
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
    OutOfRange,
    Start,
)
from sawlog.client.errors import ClientError, kafka_error
from sawlog.client.net.cluster import Cluster
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.core.ports import FileSlice
from sawlog.protocol.messages.fetch_response import PartitionData

if TYPE_CHECKING:  # an extra: only who takes columns needs it
    from sawlog.client.arrow.record_columns import RecordColumns


class FetchBuffer:
    """`positions`: for each partition the offset after the last record that was taken; `ends`:
    where each ended for us (the watermark, or the last stable offset) when last heard of.
    """

    def __init__(
        self,
        cluster: Cluster,
        limits: FetchLimits,
        *,
        read_committed: bool,
        out_of_range: OutOfRange,
        max_decompressed_bytes: int,
    ) -> None:
        self._cluster = cluster
        self._read_committed = read_committed
        self._out_of_range = out_of_range
        self._max_decompressed_bytes = max_decompressed_bytes
        self._fetcher = Fetcher(cluster, limits, read_committed=read_committed)
        self.positions: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self._fetched: deque[FetchedRecords] = deque()
        self._paused: dict[
            TopicPartition, FetchedRecords | None
        ] = {}  # with what was at hand of each

    def set_positions(self, positions: Mapping[TopicPartition, int]) -> None:
        """Reads these from there on, besides the others."""
        self._drop_fetched(positions)
        self._fetcher.failure = None  # of what was read before
        self.positions.update(positions)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these no longer."""
        gone = frozenset(partitions)
        self._drop_fetched(gone)
        self._fetcher.failure = None
        for partition in gone:
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
        """Takes in what has come, has `take` hand it out and asks for more; whether `take` found
        anything. KafkaError or ClientError only where it did not: else the next turn raises it.
        """
        self._fetcher.raise_failure()
        self._take_responses()
        has_found = take()
        self._fetch_ahead()
        if not has_found:
            self._fetcher.raise_failure()
        return has_found

    def wait(self, timeout_ms: float, wakeup: int) -> None:
        """Until an answer begins to arrive, the bell rings or the time is up."""
        self._fetcher.wait(timeout_ms, [wakeup])

    def _take_responses(self) -> None:
        for answer in self._fetcher.take_responses():
            try:
                self._take_response(answer)
            except (KafkaError, ClientError) as error:
                self._fetcher.failure = error

    def _drop_fetched(self, partitions: Iterable[TopicPartition]) -> None:
        gone = frozenset(partitions)
        self._fetched = deque(kept for kept in self._fetched if kept.partition not in gone)
        for partition in gone & self._paused.keys():
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
        """Records that are at hand."""
        records: list[ConsumedRecord] = []
        while self._fetched and len(records) < limit:
            fetched = self._fetched[0]
            wanted = limit - len(records)
            try:
                taken = fetched.take(wanted)
            except KafkaError:
                if records:
                    break  # the next call meets it again
                self._fetched.popleft()
                raise
            records += taken
            self.positions[fetched.partition] = fetched.position
            if len(taken) < wanted and not fetched.is_broken:
                self._fetched.popleft()
        return records

    def _fetch_ahead(self) -> None:
        """Asks for more of the partitions of which nothing is at hand."""
        held = {fetched.partition for fetched in self._fetched} | self._paused.keys()
        wanted = {
            partition: offset
            for partition, offset in self.positions.items()
            if partition not in held
        }
        if wanted:
            self._fetcher.send(wanted)

    def _take_response(self, answer: PartitionFetch) -> None:
        partition, offset, data = answer
        if self.positions.get(partition) != offset:
            return  # it was sent before a seek or another assignment
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.reset_position(partition)
        elif data.error_code:
            error = kafka_error(data.error_code, f"fetching {partition} from {offset} was refused")
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
        # Those just served go to the end, so that a full answer does not always leave out the same.
        self.positions[partition] = self.positions.pop(partition)

    def reset_position(self, partition: TopicPartition) -> None:
        start = RESET_STARTS.get(self._out_of_range)
        if start is not None:
            self.positions.update(self.resolve({partition: start}))
            return
        first = self.resolve({partition: AT_EARLIEST})[partition]
        end = self.resolve({partition: AT_LATEST})[partition]
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition} has no offset {self.positions[partition]}: it begins at {first} and"
            f" ends before {end}",
        )

    def resolve(self, starts: Mapping[TopicPartition, Start]) -> dict[TopicPartition, int]:
        """The offsets behind times; by time where nothing is that late, the end."""
        for start in starts.values():
            if not isinstance(start, AtOffset | AtTime):
                raise TypeError(
                    "a start is AT_EARLIEST, AT_LATEST, AtTime(...) or AtOffset(...),"
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
