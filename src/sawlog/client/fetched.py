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
from sawlog.protocol.batches import BatchHeader, batches_in, check_crc
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


class Aborted(NamedTuple):
    """A transaction that was aborted, as a fetch under read_committed tells of it."""

    producer_id: int
    first_offset: int


def holds_a_batch(data: Buffer) -> bool:
    """False where not even the first batch is whole: other partitions had filled the answer."""
    try:
        return next(batches_in(data), None) is not None
    except KafkaError:
        return True  # whoever reads it will meet what is wrong


class Fetched:
    """Records are taken out one by one; `position` is the offset after the last one taken, or
    after all that there was.
    """

    __slots__ = (
        "_aborted",
        "_aborting",
        "_error",
        "_max_decompressed_bytes",
        "_records",
        "partition",
        "position",
    )

    def __init__(
        self,
        partition: TopicPartition,
        position: int,
        data: Buffer,
        *,
        aborted: Sequence[Aborted] = (),
        max_decompressed_bytes: int,
    ) -> None:
        self.partition = partition
        self.position = position
        self._aborted = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._aborting: set[int] = set()
        self._max_decompressed_bytes = max_decompressed_bytes
        self._error: KafkaError | None = None
        self._records = self._read(data)

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
            self._error = error
            if not taken:
                raise
        return taken

    @property
    def is_broken(self) -> bool:
        """The next record cannot be read: the next `take` says why."""
        return self._error is not None

    def _read(self, data: Buffer) -> Iterator[ConsumedRecord]:
        view = memoryview(data)
        topic, index = self.partition
        try:
            for start, header in batches_in(view):
                if header.next_offset <= self.position:
                    continue
                batch = view[start : start + header.size]
                check_crc(batch, header)
                if not self._is_left_out(batch, header):
                    timestamp_type, epoch = header.timestamp_type, header.leader_epoch
                    for record in self._open(batch):
                        offset = record.offset
                        if offset >= self.position:
                            self.position = offset + 1
                            yield ConsumedRecord(
                                topic, index, offset, record.timestamp, timestamp_type, epoch,
                                record.key, record.value, record.headers,
                            )  # fmt: skip
                self.position = max(self.position, header.next_offset)
        except KafkaError as error:
            raise KafkaError(
                error.code,
                f"{self.partition} at offset {self.position} cannot be read: {error}. To go on"
                " without it, seek past the batch",
            ) from error

    def _open(self, batch: memoryview) -> Iterator[Record]:
        return iterate(batch, max_decompressed_bytes=self._max_decompressed_bytes)

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
