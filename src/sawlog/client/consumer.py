"""A consumer of the partitions that it is told: no group, no commits, its positions are its own.

While records are handed out, the next fetch of other partitions is under way. For one thread.
"""

from collections import deque
from collections.abc import Collection, Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from sawlog.client.cluster import Cluster
from sawlog.client.errors import refusal
from sawlog.client.fetched import Aborted, ConsumedRecord, Fetched, holds_a_batch
from sawlog.client.fetcher import FetchAnswer, Fetcher, FetchLimits
from sawlog.client.offsets import EARLIEST, LATEST, list_offsets
from sawlog.client.retries import Deadline
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicName, TopicPartition
from sawlog.core.ports import FileSlice
from sawlog.protocol.messages.fetch_response import PartitionData

if TYPE_CHECKING:  # an extra: only `poll_arrow` needs them
    import pyarrow as pa

    from sawlog.client.arrow import RecordColumns

DEFAULT_MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024


class OutOfRange(Enum):
    """What to do where the offset wanted is not, or no longer, there."""

    FAIL = "fail"
    EARLIEST = "earliest"
    LATEST = "latest"


class AtOffset(NamedTuple):
    offset: int


class AtTime(NamedTuple):
    """The first record with this timestamp or a later one; the end where there is none."""

    timestamp_ms: int


AT_EARLIEST = AtTime(EARLIEST)
AT_LATEST = AtTime(LATEST)

Start = AtOffset | AtTime

_POLICY_STARTS = {OutOfRange.EARLIEST: AT_EARLIEST, OutOfRange.LATEST: AT_LATEST}


class Consumer:
    """`max_bytes` bounds an answer, `partition_max_bytes` a partition's share of it; a batch that
    is larger comes whole nevertheless.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        read_committed: bool = False,
        out_of_range: OutOfRange = OutOfRange.FAIL,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 50 * 1024 * 1024,
        partition_max_bytes: int = 1024 * 1024,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    ) -> None:
        self._cluster = cluster
        self._read_committed = read_committed
        self._out_of_range = out_of_range
        self._max_decompressed_bytes = max_decompressed_bytes
        self._fetcher = Fetcher(
            cluster,
            FetchLimits(max_wait_ms, min_bytes, max_bytes, partition_max_bytes),
            read_committed=read_committed,
        )
        self._positions: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._fetched: deque[Fetched] = deque()

    def assign(self, starts: Mapping[TopicPartition, Start]) -> None:
        """From now on these partitions, each from its start, in place of those before."""
        positions = self._find(starts)
        self._fetched.clear()
        self._ends.clear()
        self._positions = positions

    def assign_topic(self, topic: str, start: Start) -> None:
        """All partitions that the topic has now."""
        partitions = self._cluster.topic(topic).partitions
        self.assign({TopicPartition(TopicName(topic), index): start for index in partitions})

    def check_positions(self) -> None:
        """Does at once what a fetch would do later where a position is not, or no longer, there:
        whoever stops at an end that lies before the position would never fetch.
        """
        firsts = list_offsets(self._cluster, dict.fromkeys(self._positions, EARLIEST))
        ends = list_offsets(self._cluster, dict.fromkeys(self._positions, LATEST))
        for partition, position in self.positions.items():
            if not firsts[partition].offset <= position <= ends[partition].offset:
                self._start_over(partition)

    def seek(self, partition: TopicPartition, start: Start) -> None:
        self._check_assigned(partition)
        position = self._find({partition: start})[partition]
        self._fetched = deque(kept for kept in self._fetched if kept.partition != partition)
        self._positions[partition] = position

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """For each partition the offset after the last record that `poll` handed out."""
        return dict(self._positions)

    def end(self, partition: TopicPartition) -> int | None:
        """Where it ended for us (the watermark, or the last stable offset) when last heard of."""
        self._check_assigned(partition)
        return self._ends.get(partition)

    def poll(self, timeout_ms: float, *, max_records: int = 1_000) -> list[ConsumedRecord]:
        """Records, as soon as there are some, in order within a partition; none where the time is
        up before. KafkaError or ClientError where they cannot be had; nothing is skipped by it.
        """
        deadline = Deadline(timeout_ms)
        while True:
            for answer in self._fetcher.answers():
                self._take_answer(answer)
            records = self._take(max_records)
            self._fetch_ahead()
            if records or deadline.has_passed:
                return records
            self._fetcher.wait(deadline.remaining_ms)

    def poll_arrow(
        self,
        timeout_ms: float,
        *,
        columns: Collection[str] | None = None,
        max_bytes: int = 32 * 1024 * 1024,
    ) -> "pa.RecordBatch":
        """As `poll`, but what is at hand of all partitions in one Arrow batch, in the columns asked
        for (`arrow.ALL_FIELDS`); without rows where the time is up before.

        It ends with the record batch that brings it to `max_bytes`.
        """
        from sawlog.client.arrow import ALL_FIELDS, RecordColumns

        taken = RecordColumns(ALL_FIELDS.names if columns is None else columns, max_bytes=max_bytes)
        deadline = Deadline(timeout_ms)
        while True:
            for answer in self._fetcher.answers():
                self._take_answer(answer)
            self._take_columns(taken)
            self._fetch_ahead()
            if taken.rows or deadline.has_passed:
                return taken.finish()
            self._fetcher.wait(deadline.remaining_ms)

    def _take_columns(self, taken: "RecordColumns") -> None:
        while self._fetched:
            fetched = self._fetched[0]
            try:
                is_empty = taken.take(fetched)
            except KafkaError:
                self._fetched.popleft()
                raise
            self._positions[fetched.partition] = fetched.position
            if not is_empty:
                return
            self._fetched.popleft()

    def _take(self, limit: int) -> list[ConsumedRecord]:
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
            self._positions[fetched.partition] = fetched.position
            if len(taken) < wanted and not fetched.is_broken:
                self._fetched.popleft()
        return records

    def _fetch_ahead(self) -> None:
        held = {fetched.partition for fetched in self._fetched}
        wanted = {
            partition: offset
            for partition, offset in self._positions.items()
            if partition not in held
        }
        if wanted:
            self._fetcher.send(wanted)

    def _take_answer(self, answer: FetchAnswer) -> None:
        partition, offset, data = answer
        if self._positions.get(partition) != offset:
            return  # it was sent before a seek or another assignment
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._start_over(partition)
        elif data.error_code:
            error = refusal(data.error_code, f"fetching {partition} from {offset} was refused")
            self._fetcher.failed(error, [partition.topic])
        else:
            self._fetcher.succeeded()
            self._keep(partition, offset, data)

    def _keep(self, partition: TopicPartition, offset: int, data: PartitionData) -> None:
        end = data.last_stable_offset if self._read_committed else data.high_watermark
        self._ends[partition] = end
        records = data.records
        if records is None or isinstance(records, FileSlice) or not holds_a_batch(records):
            return
        aborted = data.aborted_transactions if self._read_committed else None
        self._fetched.append(
            Fetched(
                partition,
                offset,
                records,
                aborted=[Aborted(entry.producer_id, entry.first_offset) for entry in aborted or ()],
                max_decompressed_bytes=self._max_decompressed_bytes,
            )
        )
        # Those just served go to the end, so that a full answer does not always leave out the same.
        self._positions[partition] = self._positions.pop(partition)

    def _start_over(self, partition: TopicPartition) -> None:
        start = _POLICY_STARTS.get(self._out_of_range)
        if start is not None:
            self._positions.update(self._find({partition: start}))
            return
        first = self._find({partition: AT_EARLIEST})[partition]
        end = self._find({partition: AT_LATEST})[partition]
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition} has no offset {self._positions[partition]}: it begins at {first} and"
            f" ends before {end}",
        )

    def _find(self, starts: Mapping[TopicPartition, Start]) -> dict[TopicPartition, int]:
        """The offsets behind times; by time where nothing is that late, the end."""
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

    def _check_assigned(self, partition: TopicPartition) -> None:
        if partition not in self._positions:
            raise ValueError(f"{partition} is not assigned; assigned are {list(self._positions)}")
