"""The digest of a task's rows, by which a rerun shows that it has the same rows."""

import pyarrow as pa

from sawlog.pipeline.sink.digest_kernels import digest_sums
from sawlog.pipeline.sink.sink_rows import chosen_partitions, headers_of, pieces_of

_BITS_64 = (1 << 64) - 1


class RowDigest:
    """The number of rows, and a hash of them that does not depend on their order.

    Equal rows count as often as they occur. Only what is written counts: key, value, headers, and
    the columns topic and partition.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._sums = (0, 0)

    def add(self, batch: pa.RecordBatch) -> None:
        count = batch.num_rows
        if count == 0:
            return
        by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
        first, second = digest_sums(
            pieces_of(by_name.get("topic"), count),
            pieces_of(by_name.get("key"), count),
            pieces_of(by_name.get("value"), count),
            headers_of(by_name.get("headers"), count),
            chosen_partitions(by_name.get("partition"), count),
        )
        self._rows += count
        self._sums = (
            (self._sums[0] + first) & _BITS_64,
            (self._sums[1] + second) & _BITS_64,
        )

    @property
    def text(self) -> str:
        return f"{self._rows}:{self._sums[0]:016x}{self._sums[1]:016x}"
