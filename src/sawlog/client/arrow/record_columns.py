"""Decodes record batches straight into Arrow columns, without an object per record.

Records are filtered as in `fetched_records`. A batch is decoded whole or not at all: a corrupt one
raises a KafkaError with the partition and offset, after the valid batches before it. The kernel is
compiled when the first RecordColumns is made; see docs/decisions/0007-arrow.md.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

try:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
except ImportError as missing:
    from sawlog.client.extras import missing_package

    text = missing_package("an Arrow batch", "arrow", missing)
    raise type(missing)(text, name=missing.name) from missing

from sawlog.client.arrow.growing_buffers import BinaryBuffer, GrowingBuffer, next_capacity
from sawlog.client.arrow.kernel_codes import DONE, REASONS, ColumnFlag, Corrupt, OutOfRoom, Total
from sawlog.client.consumer.fetched_records import Batch, FetchedRecords
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.compression import Codec, decompress
from sawlog.protocol.record_batch import HEADER_SIZE, BatchHeader

if TYPE_CHECKING:
    from sawlog.core.ids import TopicPartition
    from sawlog.core.ports import Buffer

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
RECORD_FIELDS = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),  # as in ConsumedRecord
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(HEADER), nullable=False),
    ]
)
PLACE_FIELDS = pa.schema(
    [
        pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
    ]
)
ALL_FIELDS = pa.schema([*PLACE_FIELDS, *RECORD_FIELDS])

NO_END = (1 << 63) - 1
DEFAULT_MAX_BYTES = 8 * 1024 * 1024
_MOST_BYTES = 1 << 30  # twice as much must fit into Arrow's 32-bit offsets
# As plain integers, since access to an enum member is slow.
_ROWS, _APPEND_TIME, _NOT_COMPRESSED = int(Total.ROWS), int(ColumnFlag.APPEND_TIME), int(Codec.NONE)
_USUAL_RECORD_BYTES = 96
_USUAL_KEY_SHARE = 8


def choose_fields(columns: Collection[str]) -> pa.Schema:
    """Return these fields in the order of ALL_FIELDS; ValueError names an unknown one."""
    unknown = sorted(set(columns) - set(ALL_FIELDS.names))
    if unknown:
        raise ValueError(
            f"records have no column {unknown[0]!r}; use some of {', '.join(ALL_FIELDS.names)}"
        )
    return pa.schema([field for field in ALL_FIELDS if field.name in columns])


class RecordColumns:
    """Collects about `max_bytes` of records; `finish` returns them as one Arrow batch.

    It may hold one record batch more than `max_bytes`.
    """

    def __init__(
        self, columns: Collection[str] = RECORD_FIELDS.names, *, max_bytes: int = DEFAULT_MAX_BYTES
    ) -> None:
        from sawlog.client.arrow.record_kernels import (
            append,  # compiled, or loaded from the cache
        )

        self.schema = choose_fields(columns)
        self._append = append
        self._max_bytes = min(max_bytes, _MOST_BYTES)
        flags = {"key": ColumnFlag.KEYS, "value": ColumnFlag.VALUES, "headers": ColumnFlag.HEADERS}
        self._wanted = sum(flag.value for name, flag in flags.items() if name in self.schema.names)
        self._scratch = np.zeros(len(Total), np.int64)
        self._totals = np.zeros(len(Total), np.int64)
        self._begin()

    def _begin(self) -> None:
        _, _, _, *headers = self._totals.tolist()  # a guess for the next batch
        self._totals = np.zeros(len(Total), np.int64)
        self._offsets, self._timestamps = GrowingBuffer(np.int64), GrowingBuffer(np.int64)
        self._keys, self._values = BinaryBuffer(), BinaryBuffer()
        self._header_ends = GrowingBuffer(np.int32, more=1)
        self._header_ends.array[0] = 0
        self._names, self._contents = BinaryBuffer(), BinaryBuffer()
        self._reserve_headers(*headers)
        self._types: list[tuple[int, int]] = []  # timestamp type and number of rows
        self._places: list[tuple[TopicPartition, int]] = []
        self._taken_bytes = 0
        self._bind()

    def _bind(self) -> None:
        """Collect the arrays that the kernel writes to; called after each growth."""
        self._arrays: tuple[Any, ...] = (
            (self._offsets.array, self._timestamps.array),
            self._keys.arrays,
            self._values.arrays,
            (self._header_ends.array, self._names.arrays, self._contents.arrays),
        )

    @property
    def rows(self) -> int:
        return self._totals.item(_ROWS)

    def take(self, fetched: FetchedRecords, end: int = NO_END) -> bool:
        """Decode the next batches, up to the offset `end`.

        Returns whether `fetched` is exhausted; if not, call `finish` and take again.
        """
        before = self.rows
        self._reserve(fetched.left_bytes)
        try:
            while self._taken_bytes < self._max_bytes:
                batch = fetched.next_batch()
                if batch is None:
                    return True
                _check_offsets(batch.header)
                if batch.header.base_offset >= end:
                    return True
                self._take_batch(batch, fetched.position, end, fetched.max_decompressed_bytes)
                fetched.move_past(batch.header)
        except KafkaError as error:
            named = fetched.fail(error)
            if not self.rows:
                raise named from error
        finally:
            self._places.append((fetched.partition, self.rows - before))
        return False

    def _take_batch(self, batch: Batch, low: int, high: int, max_decompressed_bytes: int) -> None:
        header, data = batch
        body: Buffer = data
        start = HEADER_SIZE
        if header.codec != _NOT_COMPRESSED:
            limit = min(max_decompressed_bytes, _MOST_BYTES)
            body, start = decompress(header.codec, data[HEADER_SIZE:], limit), 0
        timestamp_type = header.timestamp_type
        numbers = (
            start, len(body), header.count, header.base_offset, header.last_offset_delta,
            header.base_timestamp, header.max_timestamp, low, high,
            self._wanted | _APPEND_TIME if timestamp_type else self._wanted,
        )  # fmt: skip
        before = self.rows
        self._run(np.frombuffer(body, np.uint8), numbers)
        rows = self.rows - before
        if rows:
            self._types.append((timestamp_type, rows))
            self._taken_bytes += len(body)

    def _run(self, body: npt.NDArray[np.uint8], numbers: tuple[int, ...]) -> None:
        body.flags.writeable = False  # as in the compiled signature
        while True:
            code = self._append(body, numbers, *self._arrays, self._totals, self._scratch)
            if code == DONE:
                return
            if code < 0:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, REASONS[Corrupt(code)])
            self._grow(OutOfRoom(code))

    # Capacity

    def _reserve(self, size: int) -> None:
        """Reserve a guess for `size` bytes of records; `_grow` corrects it."""
        rows, keys, values, *_ = self._totals.tolist()
        size = min(size, self._max_bytes)
        more = rows + size // _USUAL_RECORD_BYTES
        self._reserve_rows(more)
        if self._wanted & ColumnFlag.KEYS:
            self._keys.reserve(rows, more, keys, keys + size // _USUAL_KEY_SHARE)
        if self._wanted & ColumnFlag.VALUES:
            self._values.reserve(rows, more, values, values + size)
        self._bind()

    def _reserve_rows(self, entries: int) -> None:
        """Reserve entries in every column with one entry per row."""
        rows, keys, values, *_ = self._totals.tolist()
        for column in (self._offsets, self._timestamps):
            column.reserve(rows, entries)
        if self._wanted & ColumnFlag.KEYS:
            self._keys.reserve(rows, entries, keys, 0)
        if self._wanted & ColumnFlag.VALUES:
            self._values.reserve(rows, entries, values, 0)
        if self._wanted & ColumnFlag.HEADERS:
            self._header_ends.reserve(rows + 1, entries + 1)

    def _reserve_headers(self, entries: int, name_bytes: int, content_bytes: int) -> None:
        _, _, _, headers, names, contents = self._totals.tolist()
        self._names.reserve(headers, entries, names, name_bytes)
        self._contents.reserve(headers, entries, contents, content_bytes)

    def _grow(self, lacking: OutOfRoom) -> None:
        totals = self._totals.tolist()
        if lacking is OutOfRoom.ROWS:
            self._reserve_rows(next_capacity(len(self._offsets.array)))
        elif lacking is OutOfRoom.KEYS:
            self._keys.grow_bytes(totals[Total.KEYS])
        elif lacking is OutOfRoom.VALUES:
            self._values.grow_bytes(totals[Total.VALUES])
        elif lacking is OutOfRoom.HEADERS:
            self._reserve_headers(next_capacity(len(self._names.arrays[2])), 0, 0)
        elif lacking is OutOfRoom.NAMES:
            self._names.grow_bytes(totals[Total.NAMES])
        else:
            self._contents.grow_bytes(totals[Total.CONTENTS])
        self._bind()

    # Columns

    def finish(self) -> pa.RecordBatch:
        """Return the records taken since the last call."""
        makers: dict[str, Callable[[], pa.Array]] = {
            "topic": self._topic,
            "partition": self._partition,
            "offset": self._offset,
            "timestamp": self._timestamp,
            "timestamp_type": self._timestamp_type,
            "key": self._key,
            "value": self._value,
            "headers": self._headers,
        }
        arrays = [makers[name]() for name in self.schema.names]
        self._begin()
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _longs(self, column: GrowingBuffer, kind: pa.DataType) -> pa.Array:
        return pa.Array.from_buffers(
            kind, self.rows, [None, column.finish(self.rows)], null_count=0
        )

    def _offset(self) -> pa.Array:
        return self._longs(self._offsets, RECORD_FIELDS.field("offset").type)

    def _timestamp(self) -> pa.Array:
        return self._longs(self._timestamps, RECORD_FIELDS.field("timestamp").type)

    def _timestamp_type(self) -> pa.Array:
        return _repeated(self._types)

    def _key(self) -> pa.Array:
        return self._keys.finish(self.rows, int(self._totals[Total.KEYS]), pa.binary())

    def _value(self) -> pa.Array:
        return self._values.finish(self.rows, int(self._totals[Total.VALUES]), pa.binary())

    def _headers(self) -> pa.Array:
        count = int(self._totals[Total.HEADERS])
        names = self._names.finish(count, int(self._totals[Total.NAMES]), pa.binary())
        contents = self._contents.finish(count, int(self._totals[Total.CONTENTS]), pa.binary())
        headers = pa.StructArray.from_arrays([_header_names(names), contents], fields=list(HEADER))
        ends = self._header_ends.finish(self.rows + 1)
        kind = RECORD_FIELDS.field("headers").type
        return pa.Array.from_buffers(
            kind, self.rows, [None, ends], null_count=0, children=[headers]
        )

    def _topic(self) -> pa.Array:
        topics = list(dict.fromkeys(partition.topic for partition, _ in self._places))
        runs = [(topics.index(partition.topic), rows) for partition, rows in self._places]
        return pa.DictionaryArray.from_arrays(_repeated(runs), _string_array(topics))

    def _partition(self) -> pa.Array:
        return _repeated([(partition.partition, rows) for partition, rows in self._places])


def _check_offsets(header: BatchHeader) -> None:
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.next_offset > NO_END:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"a batch has the invalid offsets {header.base_offset} to {header.last_offset}",
        )


def _repeated(runs: list[tuple[int, int]]) -> pa.Array:
    """Repeat each number by its number of rows."""
    numbers = np.array([number for number, _ in runs], np.int32)
    return _int32_array(np.repeat(numbers, [rows for _, rows in runs]))


def _int32_array(numbers: npt.NDArray[np.int32]) -> pa.Array:
    """As `pa.array`, which would import pandas and take a second."""
    return pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)])


def _string_array(texts: Sequence[str]) -> pa.Array:
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def _header_names(names: pa.Array) -> pa.Array:
    """Decode header names as the Java consumer does: nothing checks that they are UTF-8."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return _string_array([name.decode("utf-8", "replace") for name in names.to_pylist()])
