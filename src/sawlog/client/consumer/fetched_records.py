"""What one partition's part of a fetch holds: its records in order, what is not for us left out.

Left out are records below the offset asked for (a batch is always sent whole), control batches
and, under read_committed, the batches of aborted transactions. The position moves over all of them.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.ids import TopicPartition
from sawlog.core.ports import Buffer
from sawlog.protocol.messages.fetch_response import PartitionData
from sawlog.protocol.record_batch import BatchHeader, batches_in, check_crc, crc_matches
from sawlog.protocol.records import Headers, Record, iterate

_ABORT = 0


class ConsumedRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int  # 0: of the producer, 1: of the append
    leader_epoch: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted, as a fetch under read_committed tells of it."""

    producer_id: int
    first_offset: int


def aborted_transactions(data: PartitionData) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(entry.producer_id, entry.first_offset)
        for entry in data.aborted_transactions or ()
    ]


def holds_a_batch(data: Buffer) -> bool:
    """False where not even the first batch is whole: other partitions had filled the answer."""
    try:
        return next(batches_in(data), None) is not None
    except KafkaError:
        return True  # whoever reads it will meet what is wrong


class Batch(NamedTuple):
    """A whole record batch, its CRC right, its records not looked at."""

    header: BatchHeader
    data: memoryview


class _CurrentBatch(NamedTuple):
    """The batch that was come to last, and whether its CRC was found right."""

    start: int
    header: BatchHeader
    crc_is_valid: bool


class FetchedRecords:
    """Records are taken out one by one, or batches whole; `position` is the offset after the last
    one taken, or after all that there was.
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
        self.left_bytes = len(data)  # in batches that were not begun
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
        """The next records, `limit` at most; fewer only where no more can be had. What is wrong
        with the next one is raised by the call after, so that none is lost.
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
        """The next one that is not left out, of which records may have been taken already; the
        same again until `move_past`. None: there are no more.
        """
        if self._error is not None:
            raise self._error
        self._records = self._read()  # one that stands inside a batch would go on there
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
        """What is wrong at the position, by name; whoever takes from here meets it again."""
        if self._error is None:
            beyond = self._offset_after_bad_batch()
            advice = "To go on, begin at a later offset"
            if beyond is not None:
                advice = (
                    f"To go on without the batch, begin at offset {beyond}"
                    f" (sawlog consume {self.partition.topic} -p {self.partition.partition}"
                    f" --from {beyond})"
                )
            self._error = KafkaError(
                error.code,
                f"{self.partition} at offset {self.position} cannot be read: {error}. {advice}",
            )
        return self._error

    def _offset_after_bad_batch(self) -> int | None:
        """The offset behind the batch that cannot be read; None where its bytes do not tell.

        The header of a batch with a wrong CRC may be what is wrong: a sound batch behind it is
        believed first, the header only where no such batch was fetched.
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
                pass  # what stands behind it is no batch either
        return header.next_offset if header.next_offset > self.position else None

    @property
    def is_broken(self) -> bool:
        """The next record cannot be read: the next `take` says why."""
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
        """A control record's key is a version and a type, two bytes each."""
        for record in self._open(batch):
            if record.key is None or len(record.key) < 4:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a control record without a type")
            return int.from_bytes(record.key[2:4], "big") == _ABORT
        return False
