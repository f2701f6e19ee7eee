"""The digest of a task's rows, by which a rerun shows that it has the same rows."""

import hashlib

import pyarrow as pa

from sawlog.pipeline.sink.digest_kernels import digest_sums
from sawlog.pipeline.sink.sink_rows import chosen_partitions, headers_of, pieces_of

_BITS_64 = (1 << 64) - 1


class RowDigest:
    """The number of rows, and a hash of them that does not depend on their order.

    Equal rows count as often as they occur. Only what is written counts: key, value, headers, topic
    and the column partition. `topic` is that of all rows; None: each row has its own.
    """

    def __init__(self, topic: str | None = None) -> None:
        self._has_topic = topic is not None
        self._of_topic = _topic_hashes(topic)
        self._rows = 0
        self._sums = (0, 0)

    def add(self, batch: pa.RecordBatch) -> None:
        count = batch.num_rows
        if count == 0:
            return
        by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
        first, second = digest_sums(
            pieces_of(None if self._has_topic else by_name.get("topic"), count),
            pieces_of(by_name.get("key"), count),
            pieces_of(by_name.get("value"), count),
            headers_of(by_name.get("headers"), count),
            chosen_partitions(by_name.get("partition"), count),
        )
        self._rows += count
        self._sums = (
            (self._sums[0] + first + count * self._of_topic[0]) & _BITS_64,
            (self._sums[1] + second + count * self._of_topic[1]) & _BITS_64,
        )

    @property
    def text(self) -> str:
        return f"{self._rows}:{self._sums[0]:016x}{self._sums[1]:016x}"


def _topic_hashes(topic: str | None) -> tuple[int, int]:
    if topic is None:
        return 0, 0
    found = hashlib.sha256(topic.encode()).digest()
    return int.from_bytes(found[:8]), int.from_bytes(found[8:16])
