"""The records of one partition in a fetch response, filtered.

Left out are records below the fetch offset (batches are sent whole), control batches and, under
read_committed, the batches of aborted transactions. The position moves past all of them.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.core.ports import Buffer
from sawlog.protocol.record_batch import BatchHeader, batches_in, check_crc, crc_matches
from sawlog.protocol.records import Headers, Record, iterate

if TYPE_CHECKING:
    from sawlog.protocol.messages.fetch_response import PartitionData

_ABORT = 0


class ConsumedRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int  # 0: CreateTime, 1: LogAppendTime
    leader_epoch: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class AbortedTransaction(NamedTuple):
    """An aborted transaction in a fetch response under read_committed."""

    producer_id: int
    first_offset: int


def aborted_transactions(data: "PartitionData") -> list[AbortedTransaction]:
    return [
        AbortedTransaction(entry.producer_id, entry.first_offset)
        for entry in data.aborted_transactions or ()
    ]


def holds_a_batch(data: Buffer) -> bool:
    """False if not even the first batch is whole: other partitions filled the response."""
    try:
        return next(batches_in(data), None) is not None
    except KafkaError:
        return True  # reading it raises the error


class Batch(NamedTuple):
    """A whole record batch with a valid CRC; its records are not decoded."""

    header: BatchHeader
    data: memoryview


class _CurrentBatch(NamedTuple):
    """The batch that is being read, and whether its CRC was found valid."""

    start: int
    header: BatchHeader
    crc_is_valid: bool


class FetchedRecords:
    """Takes records one by one, or whole batches.

    `position` is the offset after the last record taken or, at the end, after the last batch.
    """

    __slots__ = (
        "_aborted",
        "_aborting",
        "_batches",
        "_current",
        "_current_batch",
        "_error",
        "_records",
        "_view",
        "left_bytes",
        "max_decompressed_bytes",
        "partition",
        "position",
    )

    def __init__(
        self,
        partition: TopicPartition,
        position: int,
        data: Buffer,
        *,
        aborted: Sequence[AbortedTransaction] = (),
        max_decompressed_bytes: int,
    ) -> None:
        self.partition = partition
        self.position = position
        self.left_bytes = len(data)  # in batches that are not begun
        self.max_decompressed_bytes = max_decompressed_bytes
        self._aborted = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._aborting: set[int] = set()
        self._error: KafkaError | None = None
        self._view = memoryview(data)
        self._current_batch: _CurrentBatch | None = None
        self._batches = self._walk(self._view)
        self._current: Batch | None = None
        self._records = self._read()

    def take(self, limit: int) -> list[ConsumedRecord]:
        """Return the next records, up to `limit`; fewer only at the end or before an error.

        The error is raised by the next call, so that no record is lost.
        """
        if self._error is not None:
            raise self._error
        taken: list[ConsumedRecord] = []
        try:
            taken.extend(islice(self._records, limit))
        except KafkaError as error:
            named = self.fail(error)
            if not taken:
                raise named from error
        return taken

    def next_batch(self) -> Batch | None:
        """Return the next batch that is not left out, or None at the end.

        It is the same until `move_past`; some of its records may have been taken already.
        """
        if self._error is not None:
            raise self._error
        self._records = self._read()  # the old iterator would continue inside a batch
        try:
            if self._current is None:
                self._current = next(self._batches, None)
        except KafkaError as error:
            raise self.fail(error) from error
        return self._current

    def move_past(self, header: BatchHeader) -> None:
        self._current = None
        self.position = max(self.position, header.next_offset)

    def fail(self, error: KafkaError) -> KafkaError:
        """Make the error at the position; later calls raise it again."""
        if self._error is None:
            next_offset = self._offset_after_bad_batch()
            advice = "To go on, start at a later offset"
            if next_offset is not None:
                advice = (
                    f"To go on without the batch, start at offset {next_offset}"
                    f" (sawlog consume {self.partition.topic} -p {self.partition.partition}"
                    f" --from {next_offset})"
                )
            self._error = KafkaError(
                error.code,
                f"{self.partition} at offset {self.position} cannot be read: {error}. {advice}",
            )
        return self._error

    def _offset_after_bad_batch(self) -> int | None:
        """Return the offset after the bad batch; None if its bytes do not say.

        The header of a batch with a wrong CRC may itself be damaged: a valid batch after it is
        trusted first, the header only if there is none.
        """
        if self._current_batch is None:
            return None
        start, header, crc_is_valid = self._current_batch
        if not crc_is_valid:
            try:
                for position, later in batches_in(self._view, start + header.size):
                    is_later = later.base_offset > self.position
                    if is_later and crc_matches(self._view, later, position):
                        return later.base_offset
            except KafkaError:
                pass  # no valid batch follows
        return header.next_offset if header.next_offset > self.position else None

    @property
    def is_broken(self) -> bool:
        """Whether the next `take` raises an error."""
        return self._error is not None

    def _walk(self, view: memoryview) -> Iterator[Batch]:
        for start, header in batches_in(view):
            self.left_bytes = len(view) - start - header.size
            if header.next_offset <= self.position:
                continue
            batch = view[start : start + header.size]
            self._current_batch = _CurrentBatch(start, header, crc_is_valid=False)
            check_crc(batch, header)
            self._current_batch = _CurrentBatch(start, header, crc_is_valid=True)
            if self._is_left_out(batch, header):
                self.move_past(header)
            else:
                yield Batch(header, batch)
            self._current_batch = None

    def _read(self) -> Iterator[ConsumedRecord]:
        topic, index = self.partition
        while True:
            if self._current is None:
                self._current = next(self._batches, None)
            if self._current is None:
                return
            header, batch = self._current
            timestamp_type, epoch = header.timestamp_type, header.leader_epoch
            for record in self._open(batch):
                offset = record.offset
                if offset >= self.position:
                    self.position = offset + 1
                    yield ConsumedRecord(
                        topic, index, offset, record.timestamp, timestamp_type, epoch,
                        record.key, record.value, record.headers,
                    )  # fmt: skip
            self.move_past(header)

    def _open(self, batch: memoryview) -> Iterator[Record]:
        return iterate(batch, max_decompressed_bytes=self.max_decompressed_bytes)

    def _is_left_out(self, batch: memoryview, header: BatchHeader) -> bool:
        while self._aborted and self._aborted[-1].first_offset <= header.last_offset:
            self._aborting.add(self._aborted.pop().producer_id)
        if header.is_control:
            if header.producer_id in self._aborting and self._is_abort(batch):
                self._aborting.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._aborting

    def _is_abort(self, batch: memoryview) -> bool:
        """Read the control record's key: a version and a type, two bytes each."""
        for record in self._open(batch):
            if record.key is None or len(record.key) < 4:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a control record without a type")
            return int.from_bytes(record.key[2:4], "big") == _ABORT
        return False
